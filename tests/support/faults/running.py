"""Statements without Spark over any store, through the entry point that Spark calls: an error is what a user sees."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.bridge import calls
from headwater.bridge.messages.callbacks import CopiedFile, CopySpecification, FileCopy, FileFooter, Footers
from headwater.log.snapshot import load_snapshot
from headwater.log.statistics.from_footers import statistics_of
from headwater.protocol.actions import AddFile
from headwater.protocol.columns import leaves
from headwater.protocol.types import parse_schema
from headwater.statements.registry import HANDLERS
from headwater.statements.running import opening
from headwater.transaction import Provenance, Transaction, maintenance
from support.recording_statement import RecordingStatement
from support.requests import create_request, schema_json
from support.stores.memory_store import MemoryStore

#: The table of each statement, its columns and the statistics of its data files.
PATH = "/table"
SCHEMA = schema_json(a="integer", b="string")
STATS = '{"numRecords":10,"minValues":{"a":1},"maxValues":{"a":9},"nullCount":{"a":0,"b":0}}'
Request = dict[str, Any]


def parquet(a: pa.Array) -> bytes:
    """A data file with these values of ``a``."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": a, "b": ["x"] * len(a)}), sink)
    data: bytes = sink.getvalue().to_pybytes()
    return data


#: A data file of ten rows.
TEN_ROWS = parquet(pa.array([1, *[9] * 9], pa.int32()))


def plain_file(name: str, stats: str = STATS) -> Callable[[MemoryStore], AddFile]:
    """Another writer's file of ten rows."""

    def make(store: MemoryStore) -> AddFile:
        store.put(f"{PATH}/{name}", TEN_ROWS)
        return AddFile(name, {}, len(TEN_ROWS), 1, True, stats)

    return make


class CopyingStatement(RecordingStatement):
    """Its tasks copy files, and read footers, over the store of the statement: their calls fail, too."""

    def __init__(self, confs: dict[str, str], store: Any) -> None:
        super().__init__(confs)
        self._store = store

    def copy_files(self, specification: CopySpecification) -> list[CopiedFile]:
        return [self._copied(file) for task in specification.tasks for file in task]

    def _copied(self, file: FileCopy) -> CopiedFile:
        try:
            data = self._store.read(file.source)
        except FileNotFoundError:
            return CopiedFile(size=None, copied=False)
        if self._store.exists(file.target) and len(self._store.read(file.target)) == len(data):
            return CopiedFile(size=len(data), copied=False)
        self._store.put(file.target, data)
        return CopiedFile(size=len(data), copied=True)

    def footers(self, table: str, files: Any, columns: Any, most: int = -1) -> Footers:
        found = [pq.read_metadata(self._store.open_input(path)) for path, _ in files]
        columns = list(leaves(parse_schema(SCHEMA)))
        values = [list(statistics_of(footer, columns, by_id=False).values) for footer in found]
        told = [
            FileFooter(schema=0, rows=footer.num_rows, statistics=list(map(list, each)))
            for footer, each in zip(found, values, strict=True)
        ]
        return Footers(schemas=[SCHEMA], files=told)


@dataclass(frozen=True)
class Case:
    """A statement, and the table it is about.

    :param steps: the requests that make it; the answer of one may complete the next.
    :param stats: of each of the three data files that the table has first.
    :param prepare: what comes before: requests, or actions of another writer.
    :param written: the files that Spark writes for it, for each write.
    :param done: conditions that refuse the statement because it is done.
    :param confs: settings of the session.
    :param files: what lies there beside the table, by path.
    """

    steps: Sequence[tuple[str, Request]]
    schema: str = SCHEMA
    properties: dict[str, str] = field(default_factory=dict)
    create: dict[str, Any] = field(default_factory=dict)
    stats: str = STATS
    prepare: Sequence[Any] = ()
    written: Sequence[Any] = ()
    done: Sequence[str] = ()
    confs: dict[str, str] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)


class Before(NamedTuple):
    """A statement that comes before, with the files that Spark writes for it, and what lies there then."""

    steps: Sequence[tuple[str, Request]]
    written: Sequence[Any] = ()
    files: dict[str, bytes] = {}


class Ended(NamedTuple):
    """What the caller was told: the condition and text of the error, or no condition."""

    condition: str | None = None
    text: str = ""


class World:
    """The entry point over one store after the other."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store: Any = None
        self._statement: Any = None
        monkeypatch.setattr(opening, "store_for", lambda table, *_: (self.store, table))
        monkeypatch.setattr(maintenance, "schedule", lambda *_: None)
        monkeypatch.setattr(calls, "Statement", lambda *_: self._statement)
        self._entry = calls.EntryPoint(lambda: HANDLERS)

    def run(self, steps: Sequence[tuple[str, Request]], store: Any, case: Case) -> Ended:
        """As a process that has just started: it knows nothing of the table."""
        time.sleep(0.002)  # so that a retention of 0 seconds has passed for what is there
        self.store = store
        opening.CACHE.forget(PATH)
        self._statement = CopyingStatement(case.confs, store)
        self._statement.written = list(case.written)
        answer: dict[str, Any] = {}
        for name, asked in steps:
            if answer.get("skipped"):
                break
            if name == "write_batch":
                given = {"schema": answer.get("columns"), "version": answer.get("version")}
                asked = {**asked, **{k: v for k, v in given.items() if v is not None}, "tableId": answer.get("tableId")}
            envelope = msgspec.json.encode({"session": {}, "request": asked}).decode()
            told = json.loads(self._entry.call(name, envelope, None))
            if "error" in told:
                return Ended(told["error"]["condition"], told["error"]["text"])
            answer = told["result"] or {}
        return Ended()

    def table(self, case: Case) -> MemoryStore:
        """The table that a statement begins with; empty for none."""
        disk = MemoryStore()
        disk.make_directory(PATH)
        _put(disk, case.files)
        steps: list[Any] = []
        if case.schema:
            steps.append(("create_table", create_request(PATH, case.schema, properties=case.properties, **case.create)))
            steps += (plain_file(f"{n}.parquet", case.stats) for n in range(3))
        for step in [*steps, *case.prepare]:
            if callable(step):
                snapshot = load_snapshot(PATH, disk)
                txn = Transaction(PATH, disk, snapshot)
                txn.add([step(disk)])
                txn.commit(Provenance("WRITE"))
            elif isinstance(step, Before):
                assert self.run(step.steps, disk, replace(case, written=step.written, confs={})) == Ended(), step
                _put(disk, step.files)
            else:
                assert self.run([step], disk, replace(case, confs={})) == Ended(), step
        return disk


def _put(disk: MemoryStore, files: dict[str, bytes]) -> None:
    for path, data in files.items():
        disk.make_directory(path.rpartition("/")[0])
        disk.put(path, data)
