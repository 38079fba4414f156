"""A proxy before a store's server, on loopback, which does to requests what networks do.

Owns :func:`proxied`. Of each request it draws whether it is

- *delayed*, before it is passed on or before its answer is, by up to :data:`_LONGEST_DELAY` seconds: so requests of
  different connections reach the server in another order than they were sent in, and answers come back in another;
- *lost*: the connection is closed, and the server has not seen it;
- *late*: the connection is closed, and the server does it up to :data:`_LATEST` seconds after that;
- *done without an answer*: the connection is closed after the server has done it;
- *repeated*: passed on twice, and either answer is given, as by a client that tries again.

So who looks whether its commit is there may be told that it is not, and it comes all the same.
"""

from __future__ import annotations

import contextlib
import http.client
import random
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

_DELAYED, _LOST, _LATE, _UNANSWERED, _REPEATED = 0.1, 0.003, 0.005, 0.01, 0.02
_LONGEST_DELAY = 0.3
_LATEST = 3.0
#: What concerns one connection alone.
_OF_A_CONNECTION = frozenset({"connection", "keep-alive", "transfer-encoding", "expect", "content-length"})


class _Answer(NamedTuple):
    status: int
    reason: str
    headers: list[tuple[str, str]]
    body: bytes


class _Proxy(ThreadingHTTPServer):
    """The proxy before ``behind``, the host and the port of the server."""

    daemon_threads = True

    def __init__(self, behind: tuple[str, int], seed: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind = behind
        self._chance = random.Random(f"proxy {seed}")
        self._lock = threading.Lock()

    def happens(self, rate: float) -> bool:
        """Draw; ``rate`` is of 1."""
        with self._lock:
            return self._chance.random() < rate


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Proxy

    def log_message(self, *_: Any) -> None:
        pass

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        answer = self._answer(body)
        if answer is None:
            self.close_connection = True
            return
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)

    def _answer(self, body: bytes) -> _Answer | None:
        """What the client is answered; None for nothing."""
        if self.server.happens(_LOST):
            return None
        if self.server.happens(_LATE):
            threading.Timer(random.random() * _LATEST, self._try, (body,)).start()
            return None
        if self.server.happens(_DELAYED):
            time.sleep(random.random() * _LONGEST_DELAY)
        answer = self._try(body)
        if self.server.happens(_REPEATED):
            other = self._try(body)
            answer = other if self.server.happens(0.5) else answer
        if self.server.happens(_DELAYED):
            time.sleep(random.random() * _LONGEST_DELAY)
        return None if self.server.happens(_UNANSWERED) else answer

    def _try(self, body: bytes) -> _Answer | None:
        """What the server answers; None if it cannot be reached."""
        try:
            return self._pass_on(body)
        except (OSError, http.client.HTTPException):
            return None

    def _pass_on(self, body: bytes) -> _Answer:
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _OF_A_CONNECTION}
        connection = http.client.HTTPConnection(*self.server.behind, timeout=60)
        try:
            connection.request(self.command, self.path, body, {**headers, "Content-Length": str(len(body))})
            given = connection.getresponse()
            content = given.read()
            kept = [(n, v) for n, v in given.getheaders() if n.lower() not in _OF_A_CONNECTION]
            length = given.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
            return _Answer(given.status, given.reason, [*kept, ("Content-Length", length or "0")], content)
        finally:
            connection.close()

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _handle


@contextlib.contextmanager
def proxied(host: str, port: int, seed: int) -> Iterator[int]:
    """A proxy before the server of a host and a port, as long as the block; its own port."""
    server = _Proxy((host, port), seed)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
