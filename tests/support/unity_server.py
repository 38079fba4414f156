"""A server with Unity Catalog's interface for Delta tables, in memory, as its public specification describes it.

:class:`UnityModel` answers requests; :func:`serving` puts it behind HTTP. It validates what the specification has a
server validate, reads no log, and forgets a commit once it is reported as published.
"""

from __future__ import annotations

import copy
import json
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from headwater.catalogs.unity.requests import Answer, Request

PREFIX = "/api/2.1/unity-catalog"
REQUIRED = ["catalogManaged", "deletionVectors", "inCommitTimestamp", "v2Checkpoint", "vacuumProtocolCheck"]
_READERS = ["catalogManaged", "deletionVectors", "v2Checkpoint", "vacuumProtocolCheck"]
_ACTIONS = {
    "add-commit", "set-latest-backfilled-version", "set-properties", "remove-properties", "set-protocol",
    "set-columns", "set-partition-columns", "set-table-comment", "set-domain-metadata", "remove-domain-metadata",
}  # fmt: skip

_DOMAINS = {"delta.clustering": "clusteringColumns", "delta.rowTracking": "rowIdHighWaterMark"}


#: The types of errors that are answered as faults, by their status.
_TYPES = {
    "403": "PermissionDeniedException", "409": "CommitVersionConflictException",
    "429": "ResourceExhaustedException", "500": "CommitStateUnknownException",
}  # fmt: skip


class Refusal(Exception):
    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


@dataclass
class Table:
    id: str
    location: str
    columns: dict[str, Any]
    partition_columns: list[str]
    protocol: dict[str, Any]
    properties: dict[str, str]
    comment: str | None = None
    managed: bool = True
    domains: dict[str, Any] = field(default_factory=dict)
    latest: int = 0
    backfilled: int = 0
    etag: int = 0
    commits: dict[int, dict[str, Any]] = field(default_factory=dict)
    #: The file name of each version that was ever ratified: for tests, not for answers.
    history: dict[int, str] = field(default_factory=dict)


def is_commit(request: Request) -> bool:
    """Whether a request makes a version of a table, the first one among them."""
    return request.method == "POST" and (b"add-commit" in (request.body or b"") or request.path.endswith("/tables"))


def credential(prefix: str, operation: str, config: dict[str, str | None], expires: int = 1 << 41) -> dict[str, Any]:
    """What the server vends. ``expires``: milliseconds since the epoch."""
    return {"prefix": prefix, "operation": operation, "expiration-time-ms": expires, "config": config}


def vends_keys(location: str, operation: str) -> list[dict[str, Any]]:
    config = {"s3.access-key-id": "AK", "s3.secret-access-key": "SECRET", "azure.sas-token": None}
    return [credential(location, operation, config)]


class UnityModel:
    """The server's state.

    :param tokens: those it takes; a test changes them to have one expire.
    :param most_unpublished: how many commits it keeps on record.
    :param allowed: the maintenance that it lets clients do with the tables that it manages; None if it does not say,
        as older servers do not.
    :param replays: whether a commit that was ratified is accepted once more, as newer servers do.
    """

    def __init__(
        self,
        root: str,
        *tokens: str,
        most_unpublished: int = 10,
        replays: bool = True,
        catalog: str = "main",
        allowed: list[str] | None = None,
    ) -> None:
        self.root, self.tokens, self.most_unpublished, self.replays = root, {*tokens}, most_unpublished, replays
        self.catalog, self.allowed = catalog, allowed
        self.schemas: dict[str, dict[str, Table]] = {"s": {}}
        self.staged: dict[str, tuple[str, str]] = {}
        #: The names of tables that are there, and are no Delta tables.
        self.of_other_formats: set[str] = set()
        self.requests: list[tuple[str, str]] = []
        #: Called with each version that is reported as published.
        self.on_report: Callable[[Table, int], None] = lambda table, version: None
        #: What happens to the next requests that :attr:`meets_fault` says, in order: see :func:`serving`.
        self.faults: list[str] = []
        self.meets_fault: Callable[[Request], bool] = is_commit
        #: The credentials for a location and READ or READ_WRITE; it may raise :class:`Refusal`.
        self.vends: Callable[[str, str], list[dict[str, Any]]] = vends_keys
        self._lock = threading.RLock()

    def handle(self, request: Request) -> Answer:
        with self._lock:
            try:
                return Answer(*self._handle(request))
            except Refusal as error:
                body = {"error": {"type": error.kind, "code": error.status, "message": str(error)}}
                return Answer(error.status, json.dumps(body).encode())

    def _handle(self, request: Request) -> tuple[int, bytes]:
        parts = urlsplit(request.path)
        self.requests.append((request.method, parts.path.removeprefix(PREFIX)))
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if given not in self.tokens:
            raise Refusal(401, "NotAuthorizedException", f"the token {given} is not known")
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        body = json.loads(request.body) if request.body else {}
        where = [unquote(part) for part in parts.path.removeprefix(PREFIX).split("/")[1:]]
        answer = self._route(request.method, where, query, body)
        return (204, b"") if answer is None else (200, json.dumps(answer).encode())

    def _route(self, method: str, where: list[str], query: dict[str, str], body: Any) -> Any:
        match (method, *where):
            case ("GET", "schemas"):
                return {"schemas": [{"name": name} for name in self.schemas]}
            case ("GET", "tables"):
                names = sorted(self._schema(query["catalog_name"], query["schema_name"]))
                start = int(query.get("page_token") or 0)
                more = {"next_page_token": str(start + 2)} if start + 2 < len(names) else {}
                tables = self._schema(query["catalog_name"], query["schema_name"])
                shown = [{"name": name, "storage_location": tables[name].location} for name in names[start : start + 2]]
                return {"tables": shown, **more}
            case ("GET", "delta", "v1", "config"):
                if not any(each.startswith("1.") for each in query["protocol-versions"].split(",")):
                    raise Refusal(400, "InvalidParameterValueException", "only version 1.0 is supported")
                return {"endpoints": [], "protocol-version": "1.0"}
            case ("POST", "delta", "v1", "catalogs", catalog, "schemas", schema, "staging-tables"):
                return self._stage(self._schema(catalog, schema), body["name"])
            case ("GET", "delta", "v1", "staging-tables", table_id, "credentials"):
                [location] = [where for where, (staged, _) in self.staged.items() if staged == table_id]
                return {"storage-credentials": self.vends(location, "READ_WRITE")}
            case ("POST", "delta", "v1", "catalogs", catalog, "schemas", schema, "tables"):
                return self._create(self._schema(catalog, schema), body)
            case (_, "delta", "v1", "catalogs", catalog, "schemas", schema, "tables", name, *rest):
                return self._table(method, self._schema(catalog, schema), name, rest, query, body)
        raise Refusal(404, "NotFoundException", f"no such endpoint: {method} {where}")

    def _schema(self, catalog: str, schema: str) -> dict[str, Table]:
        if catalog != self.catalog or schema not in self.schemas:
            raise Refusal(404, "NoSuchSchemaException", f"Schema '{catalog}.{schema}' does not exist")
        return self.schemas[schema]

    def _stage(self, schema: dict[str, Table], name: str) -> dict[str, Any]:
        if name in schema:
            raise Refusal(409, "AlreadyExistsException", f"Table '{name}' already exists")
        table_id = str(uuid.uuid4())
        location = f"{self.root}/{table_id}"
        self.staged[location] = (table_id, name)
        return {
            "table-id": table_id, "table-type": "MANAGED", "location": location, "storage-credentials": [],
            "required-protocol": {
                "min-reader-version": 3, "min-writer-version": 7,
                "reader-features": _READERS, "writer-features": REQUIRED,
            },
            "required-properties": {
                "delta.checkpointPolicy": "v2", "delta.enableDeletionVectors": "true",
                "delta.enableInCommitTimestamps": "true", "io.unitycatalog.tableId": table_id,
            },
            "suggested-properties": {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": None},
        }  # fmt: skip

    def _create(self, schema: dict[str, Table], body: dict[str, Any]) -> dict[str, Any]:
        if body["name"] in schema:
            raise Refusal(409, "AlreadyExistsException", f"Table '{body['name']}' already exists")
        managed = body["table-type"] == "MANAGED"
        table_id, _ = self.staged.pop(body["location"], ("", "")) if managed else (str(uuid.uuid4()), "")
        if not table_id:
            raise Refusal(400, "InvalidParameterValueException", "no staging table has this location")
        _check_columns(body["columns"])
        _check_domains(body.get("domain-metadata", {}))
        table = Table(
            table_id,
            body["location"],
            body["columns"],
            body.get("partition-columns", []),
            body["protocol"],
            dict(body["properties"]),
            body.get("comment"),
            managed,
            body.get("domain-metadata", {}),
        )
        _check_contract(table)
        schema[body["name"]] = table
        return self._loaded(table)

    def _table(
        self, method: str, schema: dict[str, Table], name: str, rest: list[str], query: dict[str, str], body: Any
    ) -> Any:
        if name in self.of_other_formats:
            raise Refusal(400, "UnsupportedTableFormatException", f"'{name}' is no Delta table")
        if name not in schema:
            raise Refusal(404, "NoSuchTableException", f"Table '{name}' does not exist")
        table = schema[name]
        match (method, *rest):
            case ("HEAD",):
                return None
            case ("GET",):
                return self._loaded(table)
            case ("POST",):
                return self._update(table, body)
            case ("DELETE",):
                del schema[name]
                return None
            case ("POST", "rename"):
                if body["new-name"] in schema:
                    raise Refusal(409, "AlreadyExistsException", f"Table '{body['new-name']}' already exists")
                schema[body["new-name"]] = schema.pop(name)
                return None
            case ("GET", "credentials"):
                return {"storage-credentials": self.vends(table.location, query["operation"])}
        raise Refusal(404, "NotFoundException", "no such endpoint")

    def _update(self, table: Table, body: dict[str, Any]) -> dict[str, Any]:
        before = copy.deepcopy(vars(table))
        try:
            return self._updated(table, body)
        except Refusal:
            vars(table).update(before)
            raise

    def _updated(self, table: Table, body: dict[str, Any]) -> dict[str, Any]:
        actions = {each["action"]: each for each in body["updates"]}
        if not actions or len(actions) != len(body["updates"]) or actions.keys() - _ACTIONS:
            raise Refusal(400, "InvalidParameterValueException", "each action once, and only those that are known")
        required = {each["type"]: each for each in body["requirements"]}
        if required.get("assert-table-uuid", {}).get("uuid") != table.id:
            raise Refusal(409, "UpdateRequirementConflictException", "the table has another id")
        added = actions.get("add-commit", {}).get("commit")
        if added is not None:
            known = table.commits.get(added["version"])
            if known is not None and known["file-name"] == added["file-name"] and self.replays:
                return self._loaded(table)
            if added["version"] != table.latest + 1:
                raise Refusal(409, "CommitVersionConflictException", f"version {table.latest} is the newest")
        published = actions.get("set-latest-backfilled-version", {}).get("latest-published-version", 0)
        if published > table.latest:
            raise Refusal(400, "InvalidParameterValueException", "the version is not ratified")
        kept = {v: commit for v, commit in table.commits.items() if v > published}
        if added is not None and len(kept) >= self.most_unpublished:
            raise Refusal(429, "ResourceExhaustedException", "too many unpublished commits")
        if added is not None:
            if min(added["timestamp"], added["file-size"], added["file-modification-timestamp"]) <= 0:
                raise Refusal(400, "InvalidParameterValueException", "numbers must be positive")
            kept[added["version"]] = added
            table.history[added["version"]] = added["file-name"]
            table.latest = added["version"]
        if published:
            self.on_report(table, published)
        table.commits = kept
        table.backfilled = max(table.backfilled, published)
        self._redefine(table, actions)
        return self._loaded(table)

    def _redefine(self, table: Table, actions: dict[str, Any]) -> None:
        table.properties |= actions.get("set-properties", {}).get("updates", {})
        for key in actions.get("remove-properties", {}).get("removals", []):
            table.properties.pop(key, None)
        if "set-columns" in actions:
            _check_columns(actions["set-columns"]["columns"])
            table.columns = actions["set-columns"]["columns"]
        if "set-protocol" in actions:
            table.protocol = actions["set-protocol"]["protocol"]
        if "set-partition-columns" in actions:
            table.partition_columns = actions["set-partition-columns"]["partition-columns"]
        if "set-table-comment" in actions:
            table.comment = actions["set-table-comment"]["comment"]
        _check_domains(actions.get("set-domain-metadata", {}).get("updates", {}))
        table.domains |= actions.get("set-domain-metadata", {}).get("updates", {})
        for name in actions.get("remove-domain-metadata", {}).get("domains", []):
            table.domains.pop(name, None)
        if len(actions.keys() - {"add-commit", "set-latest-backfilled-version"}):
            table.etag += 1
        _check_contract(table)

    def _loaded(self, table: Table) -> dict[str, Any]:
        said = {} if self.allowed is None or not table.managed else {"allowed-maintenance-operations": self.allowed}
        return {
            **said,
            "metadata": {
                "etag": str(table.etag), "table-type": "MANAGED" if table.managed else "EXTERNAL",
                "table-uuid": table.id, "location": table.location,
                "created-time": 1, "updated-time": 1, "columns": table.columns, "properties": table.properties,
                "partition-columns": table.partition_columns,
            },
            "commits": [table.commits[version] for version in sorted(table.commits, reverse=True)],
            "latest-table-version": table.latest,
        }  # fmt: skip


def _check_contract(table: Table) -> None:
    if not table.managed:
        return
    missing = {*REQUIRED} - {*table.protocol["writer-features"]}
    if missing or table.properties.get("io.unitycatalog.tableId") != table.id:
        raise Refusal(400, "InvalidParameterValueException", f"the table lacks {sorted(missing)} or its id")


def _check_domains(domains: dict[str, Any]) -> None:
    """As strict as a server that parses into classes: each domain holds the one field that the specification names."""
    for name, content in domains.items():
        if name not in _DOMAINS or [*content] != [_DOMAINS[name]]:
            raise Refusal(400, "InvalidParameterValueException", f"unrecognized field in {name}: {content}")


def _check_columns(columns: Any) -> None:
    text = json.dumps(columns)
    if columns.get("type") != "struct" or re.search('"(elementType|keyType|valueType|containsNull)"', text):
        raise Refusal(400, "BadRequestException", "columns must be a DeltaStructType")


def _failed(status: str) -> Answer:
    error = {"type": _TYPES.get(status, ""), "code": int(status), "message": "a fault"}
    return Answer(int(status), json.dumps({"error": error}).encode())


@contextmanager
def serving(model: UnityModel) -> Iterator[str]:
    """The address of an HTTP server that answers as the model does, but for its faults.

    A fault is a status, answered without anything being done; ``lost``: nothing is done, and the connection is closed;
    ``cut``: it is done, and the connection is closed; ``done-`` and a status: it is done, and answered so;
    ``nonsense``: it is done, and answered with another object; ``slow``: it is done some time later; ``pass``.
    """

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            request = Request(self.command, self.path, dict(self.headers), self.rfile.read(length) if length else None)
            answer = self._met(request)
            if answer is None:
                self.close_connection = True
                return
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)

        def _met(self, request: Request) -> Answer | None:
            fault = model.faults.pop(0) if model.faults and model.meets_fault(request) else "pass"
            if fault == "slow":
                time.sleep(0.5)
            if fault == "lost":
                return None
            if fault.isdigit():
                return _failed(fault)
            answer = model.handle(request)
            if fault == "cut":
                return None
            if fault == "nonsense":
                return Answer(200, b'{"hello": "world"}')
            return _failed(fault.removeprefix("done-")) if fault.startswith("done-") else answer

        do_GET = do_POST = do_DELETE = do_HEAD = _answer

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
