"""Requests to a Unity Catalog server: JSON over HTTP, and what each answer says about whether something was done.

Owns :class:`Api`. Source: the public specification of the interface, ``api/delta.yaml`` of unitycatalog. Promises: each
request is made once, but for a token that the server does not take, if another one can be obtained.
:class:`~headwater.catalogs.interface.NotProposed` and its kinds mean that the server did nothing: it was not reached,
or said so; :class:`~headwater.catalogs.interface.Unanswered` is all else. Redirections are not followed, so that a
token goes to no other host. Texts of a server are shortened, and hold no token.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from headwater.catalogs.interface import Away, NotProposed, TooManyUnpublished, Unanswered, VersionTaken
from headwater.catalogs.unity.tokens import Tokens

#: How long a server may take to be reached and to answer, in seconds.
_TIMEOUT = 60.0
#: The longest text of a server that an error repeats, in characters.
_LONGEST_TEXT = 500
#: The longest answer that is read, in bytes: the schema of a very wide table is a tenth of it.
_LONGEST_ANSWER = 256 << 20
_PREFIX = "/api/2.1/unity-catalog"


class NotFound(NotProposed):
    """There is no such catalog, schema or table."""


class AlreadyExists(NotProposed):
    """There is something of that name."""


class NotDelta(NotProposed):
    """The table has another format."""


class Forbidden(NotProposed):
    """Who asks has no right to it."""


class NotOffered(Unanswered):
    """The server says that it has no such request."""


class Changed(NotProposed):
    """The table is not what the request asserts: another one of that name, or changed meanwhile."""


#: What the type of an error says, where its status leaves that open.
_KINDS: Mapping[str, type[NotProposed]] = {
    "CommitVersionConflictException": VersionTaken,
    "UpdateRequirementConflictException": Changed,
    "AlreadyExistsException": AlreadyExists,
    "ResourceExhaustedException": TooManyUnpublished,
    "TooManyRequestsException": Away,
}


class Request(NamedTuple):
    """What is sent. ``path`` begins with a slash, and holds the query."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes | None


class Answer(NamedTuple):
    status: int
    body: bytes


#: Sends a request. Raises :class:`~headwater.catalogs.interface.Away` where nothing reached the server, and
#: :class:`~headwater.catalogs.interface.Unanswered` where something may have.
Send = Callable[[Request], Answer]


class Api:
    """A server's interface.

    :param send: sends a request; by default over HTTP, a connection for each.
    """

    def __init__(self, uri: str, tokens: Tokens, send: Send | None = None) -> None:
        self.uri = uri.rstrip("/")
        self.tokens = tokens
        self._send = send or over_http(self.uri)

    @property
    def identity(self) -> str:
        return f"{self.uri}|{self.tokens.identity}"

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, query: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """The answer's JSON object; empty if the answer has no such object.

        :param path: below the interface's prefix, its parts escaped (:func:`escaped`).
        :raises CatalogFailure: as the module promises.
        """
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        target = f"{_PREFIX}{path}" + (f"?{urlencode(query)}" if query else "")
        for is_last in (False, True):
            token = self.tokens.get()
            headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
            if data is not None:
                headers["Content-Type"] = "application/json"
            answer = self._send(Request(method, target, headers, data))
            if answer.status != 401 or is_last or not self.tokens.refuse(token):
                return _understand(answer, method, path, token)
        raise AssertionError("unreachable")


def escaped(*parts: str) -> str:
    """Parts of a path, escaped and joined: names of users may contain slashes."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def over_http(uri: str) -> Send:
    """Sends requests to a server.

    :raises NotProposed: the address is none of a server, or would send tokens in the clear over a network.
    """
    parts = urlsplit(uri)
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment or parts.username:
        raise NotProposed(
            f"{parts.scheme}://{host} is no address of a catalog: it is https://HOST, or http://HOST:PORT"
        )
    if parts.scheme == "http" and host not in ("localhost", "127.0.0.1", "::1"):
        raise NotProposed(f"the catalog at {host} must be reached by https: over http, others could read the token")
    prefix = parts.path.rstrip("/").removesuffix(_PREFIX)
    context = ssl.create_default_context() if parts.scheme == "https" else None

    def send(request: Request) -> Answer:
        if context is not None:
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, parts.port, timeout=_TIMEOUT, context=context
            )
        else:
            connection = http.client.HTTPConnection(host, parts.port, timeout=_TIMEOUT)
        try:
            try:
                connection.connect()
            except OSError as error:
                raise Away(f"the catalog at {parts.netloc} cannot be reached ({_reason(error)})") from None
            try:
                connection.request(request.method, prefix + request.path, request.body, dict(request.headers))
                response = connection.getresponse()
                body = response.read(_LONGEST_ANSWER)
            except (OSError, http.client.HTTPException) as error:
                raise Unanswered(f"the catalog at {parts.netloc} did not answer ({_reason(error)})") from None
            return Answer(response.status, body)
        finally:
            connection.close()

    return send


def _understand(answer: Answer, method: str, path: str, token: str) -> dict[str, Any]:
    asked = f"{method} {path}"
    if 200 <= answer.status < 300:
        if not answer.body.strip():
            return {}
        try:
            content = json.loads(answer.body)
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise Unanswered(f"the catalog answers {asked} with something that is no JSON object")
        return content
    try:
        error = json.loads(answer.body)["error"]
        kind, text = str(error["type"]), str(error["message"])
    except (ValueError, KeyError, TypeError):
        kind, text = "", ""
    text = " ".join(text.replace(token, "…").split()) if token else text
    text = text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"
    said = f"the catalog answers {asked} with status {answer.status}" + (f", {kind}: {text}" if kind else "")
    if 400 <= answer.status < 500:
        if answer.status == 404:
            raise NotFound(said)
        if answer.status == 429:
            raise (_KINDS[kind] if kind == "ResourceExhaustedException" else Away)(said)
        if answer.status == 408:
            raise Unanswered(said)
        if answer.status == 403:
            raise Forbidden(said)
        if kind == "UnsupportedTableFormatException":
            raise NotDelta(said)
        raise (_KINDS.get(kind, VersionTaken) if answer.status == 409 else NotProposed)(said)
    if answer.status == 501:
        raise NotOffered(said)
    raise Unanswered(said)


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or "") or type(error).__name__
