"""A catalog of Iceberg that speaks REST on loopback: one of pyiceberg's behind the endpoints that clients need."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from flask import Flask, Response, request
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import CommitTableRequest, Table
from werkzeug.serving import make_server

_CODES = {
    NoSuchTableError: 404,
    NoSuchNamespaceError: 404,
    TableAlreadyExistsError: 409,
    NamespaceAlreadyExistsError: 409,
    CommitFailedException: 409,
}
_SEPARATOR = "\x1f"


@dataclass
class RestServer:
    """The server's address, what it was asked, and how it is to fail: a text that all answers then are."""

    uri: str
    asked: list[str] = field(default_factory=list)
    broken: str | None = None


@contextmanager
def rest_server(behind: Catalog, token: str) -> Iterator[RestServer]:
    """Serve a catalog to those who know the token."""
    app = Flask("iceberg")
    server = make_server("127.0.0.1", 0, app, threaded=True)
    found = RestServer(f"http://127.0.0.1:{server.server_port}")

    @app.before_request
    def check() -> Any:
        found.asked.append(f"{request.method} {request.path}")
        if request.headers.get("Authorization") != f"Bearer {token}":
            return _error("NotAuthorizedException", "who are you?", 401)
        if found.broken is not None:
            return _error("ServiceFailure", f"{found.broken}: {request.headers['Authorization']}", 500)
        return None

    @app.errorhandler(Exception)
    def failed(error: Exception) -> Any:
        return _error(type(error).__name__, str(error), _CODES.get(type(error), 500))

    @app.get("/v1/config")
    def config() -> Any:
        return {"defaults": {}, "overrides": {}}

    @app.post("/v1/namespaces")
    def create_namespace() -> Any:
        behind.create_namespace(tuple(request.json["namespace"]))
        return {"namespace": request.json["namespace"], "properties": {}}

    @app.get("/v1/namespaces/<namespace>")
    def load_namespace(namespace: str) -> Any:
        levels = namespace.split(_SEPARATOR)
        return {"namespace": levels, "properties": behind.load_namespace_properties(tuple(levels))}

    @app.post("/v1/namespaces/<namespace>/register")
    def register(namespace: str) -> Any:
        name = (*namespace.split(_SEPARATOR), request.json["name"])
        return _table(behind.register_table(name, request.json["metadata-location"]))

    @app.get("/v1/namespaces/<namespace>/tables/<table>")
    def load(namespace: str, table: str) -> Any:
        return _table(behind.load_table((*namespace.split(_SEPARATOR), table)))

    @app.delete("/v1/namespaces/<namespace>/tables/<table>")
    def drop(namespace: str, table: str) -> Any:
        assert request.args.get("purgeRequested", "false").lower() == "false"
        behind.drop_table((*namespace.split(_SEPARATOR), table))
        return Response(status=204)

    @app.post("/v1/namespaces/<namespace>/tables/<table>")
    def commit(namespace: str, table: str) -> Any:
        asked = CommitTableRequest.model_validate_json(request.data)
        loaded = behind.load_table((*namespace.split(_SEPARATOR), table))
        answer = behind.commit_table(loaded, asked.requirements, asked.updates)
        return Response(answer.model_dump_json(), mimetype="application/json")

    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _table(table: Table) -> Response:
    text = f'{{"metadata-location": "{table.metadata_location}", "metadata": {table.metadata.model_dump_json()}}}'
    return Response(text, mimetype="application/json")


def _error(kind: str, message: str, code: int) -> tuple[dict[str, Any], int]:
    return {"error": {"message": message, "type": kind, "code": code}}, code
