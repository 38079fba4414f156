"""Tokens for requests to Unity Catalog: one that the user gives, or that an OAuth 2.0 server gives to a client.

Promise: tokens and secrets are in no text, log or error; not in that of a server, which may repeat what it was sent.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Callable
from threading import Lock
from typing import Protocol
from urllib.parse import urlencode

from headwater.catalogs.interface import Away, NotProposed

#: A token is replaced so many seconds before it expires.
_MARGIN = 60.0
#: What an OAuth server's token is good for where the server does not say, in seconds (RFC 6749, section 5.1).
_LIFETIME = 600.0


class Tokens(Protocol):
    """Gives the token of a request. Safe for threads. ``identity``: whose tokens they are, from which no token or
    secret can be found.
    """

    @property
    def identity(self) -> str: ...

    def get(self) -> str:
        """A token that has not expired, as far as is known.

        :raises CatalogFailure: no token can be obtained.
        """

    def refuse(self, token: str) -> bool:
        """Note that a server did not take the token; whether there may be another one."""


class StaticToken:
    """A token that the user gives."""

    def __init__(self, token: str) -> None:
        self._token = token
        self.identity = _fingerprint(token)

    def __repr__(self) -> str:
        return "StaticToken(…)"

    def get(self) -> str:
        return self._token

    def refuse(self, token: str) -> bool:
        return False


class ClientCredentials:
    """Tokens that an OAuth 2.0 server gives to a client for its id and secret (RFC 6749, section 4.4).

    :param post: posts a form: its headers and body; the status and the body of the answer.
    """

    def __init__(
        self, client_id: str, secret: str, post: Callable[[dict[str, str], bytes], tuple[int, bytes]], scope: str = ""
    ) -> None:
        self._client_id, self._secret, self._scope = client_id, secret, scope
        self._post = post
        self._lock = Lock()
        self._token = ""
        self._until = 0.0
        self.identity = _fingerprint(f"{client_id}\0{secret}")

    def __repr__(self) -> str:
        return f"ClientCredentials({self._client_id!r}, …)"

    def get(self) -> str:
        with self._lock:
            if time.monotonic() >= self._until:
                self._token, lifetime = self._ask()
                self._until = time.monotonic() + max(lifetime - _MARGIN, lifetime / 2)
            return self._token

    def refuse(self, token: str) -> bool:
        with self._lock:
            if token == self._token:
                self._until = 0.0
        return True

    def _ask(self) -> tuple[str, float]:
        form = {"grant_type": "client_credentials"} | ({"scope": self._scope} if self._scope else {})
        basic = base64.b64encode(f"{self._client_id}:{self._secret}".encode()).decode()
        headers = {"Authorization": f"Basic {basic}", "Content-Type": "application/x-www-form-urlencoded"}
        try:
            status, body = self._post(headers, urlencode(form).encode())
        except OSError as error:
            raise Away(f"the OAuth server does not answer ({type(error).__name__})") from None
        if status >= 500 or status == 429:
            raise Away(f"the OAuth server gives no token (status {status})")
        try:
            answer = json.loads(body) if status == 200 else {}
            token, lifetime = answer.get("access_token"), float(answer.get("expires_in", _LIFETIME))
        except (ValueError, TypeError, AttributeError):
            token, lifetime = None, 0.0
        if not isinstance(token, str) or not token:
            raise NotProposed(f"the OAuth server gives no token for the client {self._client_id} (status {status})")
        return token, lifetime


def _fingerprint(secret: str) -> str:
    return hashlib.sha256(f"headwater catalog\0{secret}".encode()).hexdigest()
