"""Tables for the inspector's tests, what asks its facts in this process, and a server to ask from outside."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from starlette.requests import Request

from headwater.inspector.folder import Folder
from headwater.inspector.server import Inspector
from headwater.inspector.server import answer_of as answer
from headwater.inspector.server import facts_of as calls_of
from headwater.inspector.table import InspectedTable
from headwater.stores import LocalStore


def facts_of(table: Path) -> Callable[..., tuple[int, Any]]:
    """``ask(name, **values)``: the status and the JSON of a call of a table, without a socket."""
    return asked(InspectedTable(str(table), LocalStore()))


def asked(target: InspectedTable | Folder) -> Callable[..., tuple[int, Any]]:
    """As :func:`facts_of`, of a table or a folder."""
    facts = calls_of(target)

    def ask(name: str, **values: Any) -> tuple[int, Any]:
        query = urlencode(values, doseq=True).encode()
        scope = {"type": "http", "method": "GET", "path": f"/api/{name}", "query_string": query, "headers": []}
        response = answer(partial(facts.answer, name), Request(scope))
        return response.status_code, json.loads(response.body)

    return ask


class Served:
    """An inspector that runs."""

    def __init__(self, inspector: Inspector) -> None:
        self.url = inspector.url
        self.host = urlsplit(self.url).netloc
        self.folder = urlsplit(self.url).path

    def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Ask for a path below the host; underscores in names of headers stand for hyphens."""
        connection = http.client.HTTPConnection(self.host, timeout=30)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers=named)
        response = connection.getresponse()
        found = response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
        connection.close()
        return found


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """``serve(table)``, or ``serve(path, folder=True)`` for the tables in a folder."""
    running: list[tuple[Inspector, threading.Thread]] = []

    def start(path: Path, folder: bool = False) -> Served:
        inspector = Inspector((Folder if folder else InspectedTable)(str(path), LocalStore()))
        thread = threading.Thread(target=inspector.run)
        thread.start()
        running.append((inspector, thread))
        until = time.monotonic() + 30
        while not inspector.server.started and time.monotonic() < until:
            time.sleep(0.01)
        return Served(inspector)

    yield start
    for inspector, thread in running:
        inspector.server.should_exit = True
        thread.join(30)


def definition(*columns: tuple[str, str], partitioned: tuple[str, ...] = (), **more: Any) -> list[dict[str, Any]]:
    """The first actions of a table; a column is a name and a type, or a whole field."""
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns]
    metadata = {
        "id": "the-id",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": list(partitioned),
        "configuration": {},
        **more,
    }
    return [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]


def add(path: str, size: int = 100, rows: int | None = 10, **more: Any) -> dict[str, Any]:
    """An ``add``; ``low`` and ``high`` are the bounds of the column ``id``."""
    low, high = more.pop("low", None), more.pop("high", None)
    stats: dict[str, Any] = {} if rows is None else {"numRecords": rows}
    if low is not None:
        stats |= {"minValues": {"id": low}, "maxValues": {"id": high}, "nullCount": {"id": 0}}
    text = {"stats": json.dumps(stats)} if stats else {}
    action = {"path": path, "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True}
    return {"add": {**action, **text, **more}}


def remove(path: str, **more: Any) -> dict[str, Any]:
    return {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True, **more}}
