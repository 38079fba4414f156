"""A proxy before a store's server, on loopback, which does to requests what networks do.

Owns :func:`proxied`. Of each request it draws whether it is

- *delayed*, before it is passed on or before its answer is, by up to :data:`_LONGEST_DELAY` seconds: so requests of
  different connections reach the server in another order than they were sent in, and answers come back in another;
- *lost*: the connection is closed, and the server has not seen it;
- *done without an answer*: the connection is closed after the server has done it;
- *repeated*: passed on twice, and either answer is given, as by a client that tries again.

A request that was lost does not arrive later: no store could be used safely then, as who looks whether its commit is
there would be told that it is not.
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

_DELAYED, _LOST, _UNANSWERED, _REPEATED = 0.1, 0.003, 0.01, 0.02
_LONGEST_DELAY = 0.3
#: What concerns one connection alone.
_OF_A_CONNECTION = frozenset({"connection", "keep-alive", "transfer-encoding", "expect", "content-length"})


class _Answer(NamedTuple):
    status: int
    reason: str
    headers: list[tuple[str, str]]
    body: bytes


@contextlib.contextmanager
def proxied(host: str, port: int, seed: int) -> Iterator[int]:
    """A proxy before the server of a host and a port, as long as the block; its own port."""
    chance = random.Random(f"proxy {seed}")
    lock = threading.Lock()

    def happens(rate: float) -> bool:
        with lock:
            return chance.random() < rate

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if happens(_LOST):
                self._hang_up()
                return
            if happens(_DELAYED):
                time.sleep(random.random() * _LONGEST_DELAY)
            answer = self._pass_on(body)
            if happens(_REPEATED):
                other = self._pass_on(body)
                answer = other if happens(0.5) else answer
            if happens(_DELAYED):
                time.sleep(random.random() * _LONGEST_DELAY)
            if happens(_UNANSWERED):
                self._hang_up()
                return
            self.send_response_only(answer.status, answer.reason)
            for name, value in answer.headers:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        def _hang_up(self) -> None:
            self.close_connection = True

        def _pass_on(self, body: bytes) -> _Answer:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _OF_A_CONNECTION}
            connection = http.client.HTTPConnection(host, port, timeout=60)
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

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
