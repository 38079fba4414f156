"""VACUUM, RESTORE, OPTIMIZE and REORG over a store that goes wrong at one of its calls, and run again.

In each run the n-th call to the store meets a fault. Whatever the statement then says, every file that a version
within the retention needs is there, and the statement, run again, does all that it was to do.
"""

from __future__ import annotations

import json
import logging
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.callbacks import WrittenFile
from headwater.log import deletion_vectors
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import AddFile, RemoveFile
from headwater.statements.running import opening
from headwater.stores import LocalStore
from headwater.transaction import Provenance, Transaction, maintenance
from support.faults.faulty_store import Crash, Fault, FaultyStore, allowed
from support.recording_statement import RecordingStatement
from support.requests import called, create_request, create_table, data_file, schema_json

CONFS = {
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
    "spark.headwater.dml.retrySeconds": "2",
}
STATEMENTS = {
    "vacuum full": ("vacuum", {"hours": "0", "mode": "full"}),
    "vacuum lite": ("vacuum", {"hours": "0", "mode": "lite"}),
    "restore": ("restore", {"version": "1"}),
    "optimize": ("optimize", {}),
    "reorg": ("reorg", {}),
}
RETURNING = (Fault.FAIL_BEFORE, Fault.FAIL_AFTER, Fault.TWICE)
STATS = '{"numRecords":2}'
_FILE = pa.BufferOutputStream()
pq.write_table(pa.table({"a": pa.array([1, 2], pa.int32())}), _FILE)
DATA = _FILE.getvalue().to_pybytes()


def cases() -> Iterator[object]:
    """A few of the faults in a short run, and of these, one for statements that delete nothing."""
    for kind in STATEMENTS:
        for fault in tuple(Fault)[1:]:
            is_short = fault is Fault.FAIL_BEFORE or fault in RETURNING and kind not in ("optimize", "reorg")
            yield pytest.param(kind, fault, marks=() if is_short else pytest.mark.soak, id=f"{kind}, {fault.name}")


@pytest.fixture(autouse=True)
def _no_maintenance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "schedule", lambda *_: None)


class Copying(RecordingStatement):
    """A statement whose jobs write all rows of a table's files into a new one."""

    def __init__(self, path: Path) -> None:
        super().__init__(CONFS)
        self.path = path

    def write(self, specification):
        (_, version, files) = self.relations[-1]
        live = load_snapshot(str(self.path), LocalStore(), version).files.to_pylist()
        names = {Path(file[0]).name for file in files}
        rows = sum(rows_of(file) for file in live if file["path"] in names)
        name = f"part-00000-{uuid.uuid4()}.c000.snappy.parquet"
        (self.path / name).write_bytes(DATA)
        return msgspec.convert([data_file(name, rows, [[0, 1, 0]], size=len(DATA))], list[WrittenFile])


def rows_of(file) -> int:
    vector = file["deletion_vector"]
    return json.loads(file["stats"])["numRecords"] - (vector["cardinality"] if vector else 0)


def commit(path: Path, added=(), removed=()) -> None:
    snapshot = load_snapshot(str(path), LocalStore())
    txn = Transaction(snapshot.table_path, snapshot.store, snapshot)
    for name, vector in added:
        (path / name).write_bytes(DATA)
        txn.add([AddFile(name, {}, len(DATA), 5, True, STATS, deletion_vector=vector)])
    txn.remove(RemoveFile(name, 1, True, size=len(DATA)) for name in removed)
    txn.commit(Provenance("WRITE"))


def make(path: Path) -> None:
    """Files a and b; then b and c, of which a row is deleted, and what nobody committed."""
    properties = {"delta.enableDeletionVectors": "true"}
    create_table(create_request(path, schema_json(a="integer"), properties=properties), RecordingStatement())
    commit(path, [("a", None), ("b", None)])
    (vector,) = deletion_vectors.write_file([BitMap64([1])], str(path), LocalStore())
    commit(path, [("c", vector)], ["a"])
    for name in ("left", "sub/left"):
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).touch()
    for number, file in enumerate(sorted(path.rglob("*"))):
        os.utime(file, (1e9 + number, 1e9 + number))
    for version in range(3):
        os.utime(path / f"_delta_log/{version:020d}.json", (2e8 + version, 2e8 + version))


def names(path: Path) -> set[str]:
    found = {str(f.relative_to(path)) for f in path.rglob("*") if f.is_file() and f.parent.name != "_delta_log"}
    return {name for name in found if not name.startswith("deletion_vector_")}


def live(path: Path, version: int | None = None) -> set[str]:
    return set(load_snapshot(str(path), LocalStore(), version).files["path"].to_pylist())


def rows(path: Path) -> int:
    return sum(map(rows_of, load_snapshot(str(path), LocalStore()).files.to_pylist()))


def run(kind: str, path: Path, store) -> None:
    call, arguments = STATEMENTS[kind]
    request = {"table": str(path), "name": "t", "arguments": arguments}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(opening, "store_for", lambda *_: (store, str(path)))
        opening.CACHE.forget(str(path))
        called(call)(request, Copying(path))


@pytest.mark.parametrize(("kind", "fault"), list(cases()))
def test_every_call(kind: str, fault: Fault, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    make(tmp_path / "calls")
    counted = FaultyStore(LocalStore())
    run(kind, tmp_path / "calls", counted)
    failed = tried = 0
    for at, call in enumerate(counted.calls):
        if not allowed(call, fault) and fault not in RETURNING:
            continue
        tried += 1
        path, others = tmp_path / str(at), set[str]()
        make(path)

        def interlope(path=path, others=others) -> None:
            commit(path, [("d", None)])
            os.utime(path / "d", (4e9, 4e9))  # RETAIN 0 is unsafe beside writers
            others.add("d")

        faulty = FaultyStore(LocalStore(), at, fault, interlope)
        try:
            run(kind, path, faulty)
        except (HeadwaterError, OSError, Crash):
            failed += 1
        assert live(path) <= names(path), call
        run(kind, path, LocalStore())
        faulty.settle()
        if kind == "restore":
            assert live(path) == {"a", "b"}, call
            assert others <= names(path)
            continue
        assert rows(path) == 3 + 2 * len(others), call
        if kind in ("optimize", "reorg"):
            assert {"a", "b", "c"} <= names(path)
            assert (live(path, 1), live(path, 2)) == ({"a", "b"}, {"b", "c"})
            assert not live(path) & ({"b", "c"} if kind == "optimize" else {"c"}), call
        else:
            assert live(path) == {"b", "c"} | others, call
            assert "a" not in names(path), call
            assert kind == "vacuum lite" or names(path) == live(path), call
    assert failed or not tried or fault in (Fault.TWICE, Fault.DELAY)
