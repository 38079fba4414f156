"""Every statement that makes a table or changes its definition, and a stream's batch, over a store that fails at one of
its calls.

The calls go through the entry point that Spark calls, so an error is what a user sees. A first run without a fault
shows the states that the statement leads through. In each run with a fault, the n-th call to the store fails, before
or after it has its effect, alone or with all later ones. Then

- the statement says that it is done, and the table is as it was asked to be; or it ends with a condition of
  ``conf/error-conditions.json``, and the table is as before, or in a state between the commits of the statement; only
  an error that says so leaves it open whether the last commit was made;
- the log has no gaps and every version can be read;
- the same statement, run again, leads to the same end, or is refused because it is done.

Post-commit maintenance is switched off: its calls come at any moment, and ``test_every_call.py`` has those.
"""

from __future__ import annotations

import errno
import itertools
import json
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from headwater.basics.errors import conditions
from headwater.bridge import calls
from headwater.bridge.messages.callbacks import CopiedFile, CopySpecification, FileCopy, FileFooter, Footers
from headwater.log import deletion_vectors
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.log.statistics.from_footers import statistics_of
from headwater.protocol.actions import AddFile
from headwater.protocol.columns import leaves
from headwater.protocol.types import parse_schema
from headwater.statements.registry import HANDLERS
from headwater.statements.running import opening
from headwater.transaction import Provenance, Transaction, maintenance
from support.faults.faulty_store import Call, Fault, FaultyStore
from support.faults.scenario import masked, read_commits
from support.recording_statement import RecordingStatement
from support.requests import create_request, data_file, schema_json
from support.stores.memory_store import MemoryStore, RepeatingStore

PATH = "/table"
STATS = '{"numRecords":10,"minValues":{"a":1},"maxValues":{"a":9},"nullCount":{"a":0,"b":0}}'
OPEN = "HEADWATER_COMMIT_OUTCOME_UNKNOWN"
Request = dict[str, Any]


# --- A store that fails ----------------------------------------------------------------------------------------------


class Failure(NamedTuple):
    """How the n-th call fails."""

    fault: Fault
    for_good: bool = False  #: and every call after it, until the statement has ended

    def __str__(self) -> str:
        return self.fault.value + (", as does every call after it" if self.for_good else "")


FAILURES = (
    *(Failure(f, g) for g in (False, True) for f in (Fault.FAIL_BEFORE, Fault.FAIL_AFTER)),
    Failure(Fault.NO_SPACE, True),
)


class FailingStore(FaultyStore):
    """A call that fails does so as those of the local file system and of Hadoop's do."""

    def __init__(self, inner: MemoryStore, at: int = -1, failure: Failure = FAILURES[0]) -> None:
        super().__init__(inner, at, failure.fault)
        self._first, self._for_good = at, failure.for_good

    def _call(self, method: str, path: str, do: Callable[[], Any], torn: Callable[[], Any] | None = None) -> Any:
        with self._lock:
            if self._for_good and 0 <= self._first < len(self.calls):
                call, is_full = Call(method, path), self._fault is Fault.NO_SPACE
                if call.writes or not is_full:
                    self.calls.append(call)
                    code, text = (
                        (errno.ENOSPC, "No space left on device") if is_full else (errno.EIO, "the store is away")
                    )
                    raise OSError(code, text, path)
            number = len(self.calls)
            try:
                return super()._call(method, path, do, torn)
            except OSError as error:
                if number == self._first and error.errno is None:
                    raise OSError(errno.EIO, "Input/output error", path) from error
                raise


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
        columns = list(leaves(parse_schema(_AB)))
        values = [list(statistics_of(footer, columns, by_id=False).values) for footer in found]
        told = [
            FileFooter(schema=0, rows=footer.num_rows, statistics=list(map(list, each)))
            for footer, each in zip(found, values, strict=True)
        ]
        return Footers(schemas=[_AB], files=told)


# --- Statements ------------------------------------------------------------------------------------------------------


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
    schema: str = schema_json(a="integer", b="string")
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


def alter(*changes: Request) -> tuple[str, Request]:
    return "alter_table", {"table": PATH, "name": "t", "changes": list(changes)}


def altering(*changes: Request, done: Sequence[str] = (), **table: Any) -> Case:
    return Case([alter(*changes)], done=done, **table)


def sets(key: str, value: str) -> Request:
    return {"kind": "set_property", "key": key, "value": value}


def column(name: str, kind: str = '"string"', **more: Any) -> Request:
    return {"kind": "add_column", "path": [name], "type": kind, "nullable": True, **more}


def drop(feature: str, truncates: bool = False, **table: Any) -> Case:
    arguments = {"feature": feature, "truncateHistory": truncates}
    asked = [("drop_feature", {"table": PATH, "name": "t", "arguments": arguments})]
    done = ["DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT"]
    return Case(asked, done=done, **table)


def batch(
    number: int = 0,
    mode: str = "Append",
    schema: str = schema_json(a="integer", b="string"),
    table: str = PATH,
    **options: str,
):
    sink: dict[str, Any] = {
        "table": table,
        "mode": mode,
        "partitionColumns": [],
        "clusteringColumns": None,
        "options": options,
    }
    asked = {"sink": sink, "queryId": "q", "batchId": number, "schema": schema}
    return [
        ("plan_batch", {"batch": asked}),
        ("write_batch", {"batch": asked, "plan": 0, "schema": schema, "readsTable": False}),
    ]


#: The file that a rewrite writes, as Spark names the one of the first task.
_WRITTEN = "part-00000-written.parquet"


def _written_file(store: MemoryStore) -> AddFile:
    """What a rewrite will write, for those who look into it; and a file of the table."""
    store.put(f"{PATH}/{_WRITTEN}", _WIDER)
    return _plain("3.parquet", STATS)(store)


def _vector(store: MemoryStore) -> AddFile:
    vector = deletion_vectors.write_file([BitMap64([1])], PATH, store)[0]
    return AddFile("marked.parquet", {}, 100, 1, True, STATS, deletion_vector=vector)


def _parquet(a: pa.Array) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": a, "b": ["x"] * len(a)}), sink)
    data: bytes = sink.getvalue().to_pybytes()
    return data


_NARROW, _WIDER = _parquet(pa.array([1, *[9] * 9], pa.int32())), _parquet(pa.array([9] * 40, pa.int64()))


def _plain(name: str, stats: str) -> Callable[[MemoryStore], AddFile]:
    """A file of ten rows."""

    def make(store: MemoryStore) -> AddFile:
        store.put(f"{PATH}/{name}", _NARROW)
        return AddFile(name, {}, len(_NARROW), 1, True, stats)

    return make


MAPPED = {"delta.columnMapping.mode": "name"}
NOW = {"delta.dropFeatureTruncateHistory.retentionDuration": "0 seconds"}
BATCH_OF_TWO = {"spark.databricks.delta.rowTracking.backfill.maxNumFilesPerCommit": "2"}
CHECK = {"kind": "add_constraint", "constraint": {"kind": "check", "name": "few", "expression": "a < 90"}}
GONE = ["DELTA_COLUMN_NOT_FOUND_IN_SCHEMA", "DELTA_CANNOT_RESOLVE_COLUMN"]
_AB = schema_json(a="integer", b="string")
IDENTITY = {"identity": [{"column": "i", "start": 1, "step": 1, "allowExplicitInsert": True}]}


def _written(rows: int) -> list[Any]:
    return [[data_file(_WRITTEN, rows, [[1, 9, 0], ["x", "y", 0]], size=len(_WIDER))]]


def deep_clone(mode: str) -> list[tuple[str, Request]]:
    return [("clone", {"table": PATH, "mode": mode, "source": "/source", "arguments": {"isShallow": False}})]


def _source_file(name: str) -> Request:
    return data_file(name, 10, [[1, 9, 0], ["x", "x", 0]], size=len(_NARROW))


#: Another table, of two files; a third one is not yet part of it.
_SOURCE = Before(
    [("create_table", create_request("/source", _AB, plan=0, rowSchema=_AB))],
    [[_source_file("w.parquet"), _source_file("x.parquet")]],
    {f"/source/{name}.parquet": _NARROW for name in "wxy"},
)

CASES: dict[str, Case] = {
    "ADD COLUMNS": altering(column("c"), column("d", position={}), done=["DELTA_ADD_COLUMN_EXISTS"]),
    "ADD COLUMNS, mapped": altering(column("c"), done=["DELTA_ADD_COLUMN_EXISTS"], properties=MAPPED),
    "RENAME COLUMN": altering({"kind": "rename_column", "path": ["a"], "newName": "z"}, done=GONE, properties=MAPPED),
    "DROP COLUMNS": altering({"kind": "drop_column", "path": ["a"]}, done=GONE, properties=MAPPED),
    "REPLACE COLUMNS": altering(
        *({"kind": "drop_column", "path": [name]} for name in ("a", "b")),
        column("b"),
        column("a", '"integer"'),
        column("c"),
        done=["DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS"],
    ),
    "ALTER COLUMN TYPE": altering(
        {"kind": "column_type", "path": ["a"], "type": '"long"'}, properties={"delta.enableTypeWidening": "true"}
    ),
    "ALTER COLUMN FIRST": altering({"kind": "column_position", "path": ["b"], "position": {}}),
    "ALTER COLUMN SET NOT NULL": altering({"kind": "column_nullability", "path": ["a"], "nullable": False}),
    "ALTER COLUMN DROP NOT NULL": altering(
        {"kind": "column_nullability", "path": ["a"], "nullable": True},
        prepare=[alter({"kind": "column_nullability", "path": ["a"], "nullable": False})],
    ),
    "ALTER COLUMN SET DEFAULT": altering(
        {"kind": "column_default", "path": ["b"], "default": "'x'"},
        properties={"delta.feature.allowColumnDefaults": "supported"},
    ),
    "ALTER COLUMN COMMENT": altering({"kind": "column_comment", "path": ["a"], "comment": "first"}),
    "ALTER COLUMN, several": altering(
        {"kind": "column_type", "path": ["a"], "type": '"long"'},
        {"kind": "column_comment", "path": ["b"], "comment": "first"},
        {"kind": "column_position", "path": ["b"], "position": {}},
        properties={"delta.enableTypeWidening": "true"},
    ),
    "ADD CONSTRAINT": altering(CHECK, done=["DELTA_CONSTRAINT_ALREADY_EXISTS"]),
    "DROP CONSTRAINT": altering(
        {"kind": "drop_constraint", "name": "few", "ifExists": False},
        prepare=[alter(CHECK)],
        done=["DELTA_CONSTRAINT_DOES_NOT_EXIST"],
    ),
    "SET TBLPROPERTIES": altering(sets("k", "1"), sets("comment", "a table")),
    "SET TBLPROPERTIES, column mapping": altering(sets("delta.columnMapping.mode", "name")),
    "SET TBLPROPERTIES, deletion vectors": altering(sets("delta.enableDeletionVectors", "true")),
    "SET TBLPROPERTIES, in-commit timestamps": altering(sets("delta.enableInCommitTimestamps", "true")),
    "SET TBLPROPERTIES, v2 checkpoints": altering(sets("delta.checkpointPolicy", "v2")),
    "SET TBLPROPERTIES, change data feed": altering(sets("delta.enableChangeDataFeed", "true")),
    "SET TBLPROPERTIES, row tracking": altering(sets("delta.enableRowTracking", "true"), confs=BATCH_OF_TWO),
    "UNSET TBLPROPERTIES": altering({"kind": "remove_property", "key": "mine"}, properties={"mine": "1"}),
    "UNSET TBLPROPERTIES, in-commit timestamps": altering(
        {"kind": "remove_property", "key": "delta.enableInCommitTimestamps"},
        properties={"delta.enableInCommitTimestamps": "true"},
    ),
    "CLUSTER BY": altering({"kind": "cluster_by", "columns": [["a"]]}, create={"partitioning": ["cluster_by(b)"]}),
    "CLUSTER BY NONE": altering({"kind": "cluster_by", "columns": []}, create={"partitioning": ["cluster_by(b)"]}),
    "SYNC IDENTITY": Case(
        [("sync_identity", {"table": PATH, "name": "t", "arguments": {"column": ["i"]}})],
        schema=schema_json(a="integer", i="long"),
        create=IDENTITY,
        stats='{"numRecords":10,"minValues":{"i":5},"maxValues":{"i":14},"nullCount":{"i":0}}',
    ),
    "DROP FEATURE, of writers": drop("checkConstraints", properties={"delta.feature.checkConstraints": "supported"}),
    "DROP FEATURE, with checkpoints": drop(
        "vacuumProtocolCheck", properties={"delta.feature.vacuumProtocolCheck": "supported"}
    ),
    "DROP FEATURE, deletion vectors": drop(
        "deletionVectors",
        properties={"delta.enableDeletionVectors": "true"},
        prepare=[_vector],
        written=_written(9),
    ),
    "DROP FEATURE, column mapping": drop("columnMapping", properties=MAPPED, written=_written(30)),
    "DROP FEATURE, in-commit timestamps": drop(
        "inCommitTimestamp", properties={"delta.enableInCommitTimestamps": "true"}
    ),
    "DROP FEATURE, row tracking": drop(
        "rowTracking", properties={"delta.enableRowTracking": "true"}, confs=BATCH_OF_TWO
    ),
    "DROP FEATURE, type widening": drop(
        "typeWidening",
        properties={"delta.enableTypeWidening": "true"},
        prepare=[alter({"kind": "column_type", "path": ["a"], "type": '"long"'}), _written_file],
        written=_written(40),
    ),
    "DROP FEATURE, v2 checkpoints": drop("v2Checkpoint", properties={"delta.checkpointPolicy": "v2"}),
    "DROP FEATURE TRUNCATE HISTORY": drop(
        "deletionVectors", True, properties={"delta.feature.deletionVectors": "supported"}
    ),
    "DROP FEATURE TRUNCATE HISTORY, of old versions": drop(
        "v2Checkpoint",
        True,
        properties={"delta.checkpointPolicy": "v2", **NOW},
        prepare=[alter(sets("delta.checkpointPolicy", "classic"))],
    ),
    "DROP FEATURE checkpointProtection": drop(
        "checkpointProtection",
        True,
        properties={"delta.feature.vacuumProtocolCheck": "supported", **NOW},
        prepare=[drop("vacuumProtocolCheck").steps[0]],
    ),
    "ANALYZE": Case(
        [("analyze_table", {"table": PATH, "name": "t", "arguments": {"columns": [["a"]]}})], stats='{"numRecords":10}'
    ),
    "TRUNCATE": Case([("truncate", {"table": PATH})]),
    "SHALLOW CLONE": Case(
        [("clone", {"table": PATH, "mode": "replace", "source": "/source", "arguments": {"isShallow": True}})],
        prepare=[
            ("truncate", {"table": PATH}),
            ("create_table", create_request("/source", _AB, plan=0, rowSchema=_AB, properties=MAPPED)),
        ],
        written=[[data_file("new.parquet", 2, [[1, 5, 0], ["x", "y", 0]])]],
        done=["DELTA_UNSUPPORTED_NON_EMPTY_CLONE"],
    ),
    "DEEP CLONE": Case(deep_clone("create"), schema="", prepare=[_SOURCE], done=["DELTA_TABLE_ALREADY_EXISTS"]),
    "DEEP CLONE, again": Case(
        deep_clone("create_or_replace"),
        schema="",
        prepare=[
            _SOURCE,
            Before(deep_clone("create")),
            Before(batch(table="/source"), [[_source_file("y.parquet")]]),
        ],
    ),
    "CONVERT": Case(
        [("convert_to_delta", {"table": PATH, "arguments": {"statistics": True}, "format": "parquet"})],
        schema="",
        files={f"{PATH}/{name}.parquet": _NARROW for name in "xy"},
    ),
    "a batch": Case(batch(), written=_written(2)),
    "a batch, Complete": Case(batch(mode="Complete"), written=_written(2)),
    "a batch that brings a column": Case(
        batch(schema=schema_json(a="integer", b="string", c="integer"), mergeSchema="true"),
        properties=MAPPED,
        written=[[data_file("new.parquet", 2, [[1, 5, 0], ["x", "y", 0], [1, 2, 0]])]],
    ),
    "the batch that creates": Case(batch(), schema="", written=_written(2)),
}


# --- Running them ----------------------------------------------------------------------------------------------------


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
            steps += (_plain(f"{n}.parquet", case.stats) for n in range(3))
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


_NUMBERED = re.compile(r'("delta\.requireCheckpointProtectionBeforeVersion": ")\d+')


def state(disk: MemoryStore, version: int | None = None) -> str:
    """A version's definition and rows; "" for no table. Without what is drawn or counted."""
    if version is None and not _versions(disk):
        return ""
    snapshot = load_snapshot(PATH, disk, version)
    files = sorted(
        (
            row["path"],
            row["stats"],
            row["deletion_vector"] and row["deletion_vector"]["cardinality"],
            row["base_row_id"] is not None,
            row["default_row_commit_version"] is not None,
        )
        for row in snapshot.files.to_pylist()
    )
    metadata, domains = snapshot.metadata.to_json(), [d.to_json() for d in snapshot.domain_metadata.values()]
    protocol = snapshot.protocol.to_json()["protocol"]
    features = {key: sorted(value) if isinstance(value, list) else value for key, value in protocol.items()}
    batches = sorted((app, txn.version) for app, txn in snapshot.set_transactions.items())
    text = json.dumps([features, metadata, domains, files, batches], sort_keys=True, indent=1)
    return masked(_NUMBERED.sub(r"\1N", text))


def _versions(disk: MemoryStore) -> list[int]:
    try:
        return list(read_commits(disk, PATH))
    except FileNotFoundError:
        return []


def rows(disk: MemoryStore) -> int:
    if not _versions(disk):
        return 0
    snapshot: Snapshot = load_snapshot(PATH, disk)
    return sum(
        json.loads(row["stats"])["numRecords"] - (row["deletion_vector"] or {"cardinality": 0})["cardinality"]
        for row in snapshot.files.to_pylist()
    )


class Reference:
    """A statement without a fault: where it begins, the states it leads through, and its calls to the store."""

    def __init__(self, world: World, case: Case) -> None:
        self.world, self.case = world, case
        self.disk = world.table(case)
        disk = self.disk.copy()
        store = FailingStore(disk)
        ended = world.run(case.steps, store, case)
        assert ended == Ended(), ended
        first = max(_versions(self.disk), default=-1)
        self.states = [state(self.disk), *(state(disk, v) for v in _versions(disk) if v > first)]
        self.rows = {rows(self.disk), rows(disk)}
        self.calls = store.calls
        assert self.states[-1] != self.states[0]

    def check(self, at: int, failure: Failure) -> Ended:
        """The statement once more with a failure, what must hold then, and the statement again."""
        case, disk = self.case, self.disk.copy()
        ended = self.world.run(case.steps, FailingStore(disk, at, failure), case)
        now = state(disk)
        self._check_log(disk)
        assert rows(disk) in self.rows
        if ended.condition is None:
            assert now == self.states[-1]
        else:
            assert ended.condition in conditions()
            assert ended.condition != "DELTA_INTERNAL_ERROR", ended.text
            assert "Traceback" not in ended.text
            assert 'File "' not in ended.text
            assert now in (self.states if ended.condition == OPEN else self.states[:-1])
        again = self.world.run(case.steps, disk, case)
        if again.condition is not None:
            assert again.condition in case.done, again
            assert now == self.states[-1], again
        assert state(disk) == self.states[-1]
        self._check_log(disk)
        return ended

    def _check_log(self, disk: MemoryStore) -> None:
        versions = _versions(disk)
        assert versions == list(range(versions[0], versions[0] + len(versions))) if versions else True
        if versions and versions[0] == 0:
            for version in versions:
                load_snapshot(PATH, disk, version)


@pytest.fixture
def world(monkeypatch, caplog) -> Iterator[World]:
    caplog.set_level(logging.CRITICAL)
    yield World(monkeypatch)
    opening.CACHE.forget(PATH)


def failures(reference: Reference) -> Iterator[tuple[int, Failure]]:
    """Each call with each failure; what only reads has no effect that a failure could come after."""
    for at, failure in itertools.product(range(len(reference.calls)), FAILURES):
        if failure.fault is Fault.FAIL_BEFORE or reference.calls[at].writes:
            yield at, failure


def run_all(reference: Reference, chosen: Iterator[tuple[int, Failure]]) -> set[str | None]:
    ends = set()
    for at, failure in chosen:
        try:
            ends.add(reference.check(at, failure).condition)
        except Exception as error:
            raise AssertionError(f"call {at}, {reference.calls[at]}: {failure}") from error
    return ends


@pytest.mark.soak
@pytest.mark.parametrize("name", CASES)
def test_every_call_of_a_statement_fails(world, name):
    reference = Reference(world, CASES[name])
    chosen = list(failures(reference))
    ends = run_all(reference, iter(chosen))
    print(f"\n{name}: {len(reference.calls)} calls, {len(reference.states) - 1} commits, {len(chosen)} runs: {ends}")
    assert {None, OPEN, "DELTA_FILE_ACCESS_FAILED"} <= ends


@pytest.mark.parametrize("name", CASES)
def test_a_statement_whose_answers_are_lost_is_done(world, name):
    """Each file that is put if absent is found by the second request, as the answer to the first one was lost."""
    case = CASES[name]
    disk = world.table(case)
    expected, repeating = disk.copy(), RepeatingStore()
    repeating.files, repeating.directories = dict(disk.files), set(disk.directories)
    assert world.run(case.steps, expected, case) == world.run(case.steps, repeating, case) == Ended()
    assert state(repeating) == state(expected)
    assert repeating.repeated


#: The statements of the short run, one of each kind.
SHORT = (
    "ADD COLUMNS, mapped",
    "RENAME COLUMN",
    "ALTER COLUMN SET NOT NULL",
    "ADD CONSTRAINT",
    "SET TBLPROPERTIES, in-commit timestamps",
    "SET TBLPROPERTIES, row tracking",
    "CLUSTER BY",
    "SYNC IDENTITY",
    "DROP FEATURE, row tracking",
    "ANALYZE",
    "TRUNCATE",
    "DEEP CLONE, again",
    "CONVERT",
    "a batch",
)


@pytest.mark.parametrize("name", SHORT)
def test_some_calls_of_a_statement_fail(world, name):
    """The first two that write."""
    reference = Reference(world, CASES[name])
    writing = [(at, failure) for at, failure in failures(reference) if reference.calls[at].writes]
    run_all(reference, iter(writing[:10]))


def test_a_checkpoint_that_cannot_be_written_after_the_feature_went(world):
    """It is the last thing that the statement does, and the statement is done without it."""
    reference = Reference(world, CASES["DROP FEATURE, with checkpoints"])
    last = max(at for at, call in enumerate(reference.calls) if call.method == "put_if_absent")
    for at in range(last + 1, len(reference.calls)):
        assert reference.check(at, FAILURES[2]).condition is None
