"""The py4j gateway: authenticated both ways, loopback only.

Owns the order of its making, which the token's safety rests on: this side listens first, the JVM builds its side with
both ports, and only then does this side learn where the JVM listens. One JVM thread is one thread here, so that what a
handler calls back runs inside the statement that called it.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from py4j.clientserver import ClientServer, JavaClient, JavaParameters, PythonParameters
from py4j.protocol import Py4JNetworkError

from headwater.bridge.calls import EntryPoint, Handler, serves_call

_LOOPBACK = "127.0.0.1"

#: Connections that may wait to be accepted: as many statements as may begin at once.
_BACKLOG = 128


@dataclass
class Serving:
    """A listening gateway. ``port`` is where the JVM reaches this process."""

    gateway: ClientServer
    port: int

    def connect(self, java_port: int) -> None:
        """Tell the gateway where the JVM listens."""
        self.gateway.java_parameters.port = java_port
        self.gateway.gateway_parameters.port = java_port


def start(token: str, handlers: Callable[[], Mapping[str, Handler[Any]]]) -> Serving:
    """Listen on a free loopback port; callers and callees must know the token."""
    gateway = _Gateway(
        java_parameters=JavaParameters(
            address=_LOOPBACK, port=0, auth_token=token, daemonize_memory_management=True, auto_field=False
        ),
        python_parameters=PythonParameters(
            address=_LOOPBACK, port=0, auth_token=token, daemonize=True, daemonize_connections=True
        ),
        python_server_entry_point=EntryPoint(handlers),
    )
    server = gateway.get_callback_server()
    _listen(server.server_socket)
    return Serving(gateway, server.get_listening_port())


class _Gateway(ClientServer):
    def _create_gateway_client(self) -> JavaClient:
        deque = self._create_finalizer_worker()
        return _Client(self.java_parameters, self.python_parameters, finalizer_deque=deque)


class _Client(JavaClient):
    """What a handler calls back arrives on the thread that called it, or nowhere: py4j would open another connection in
    place of one that Spark's side has closed, and run the rest of a cancelled statement on a thread that knows nothing
    of it."""

    def _create_new_connection(self) -> Any:
        if serves_call():
            raise Py4JNetworkError("the statement has ended")
        return super()._create_new_connection()


def _listen(listener: socket.socket) -> None:
    """py4j has bound the socket and listens, in a thread of its own, soon; and then for five connections."""
    while not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        time.sleep(0.001)
    listener.listen(_BACKLOG)
