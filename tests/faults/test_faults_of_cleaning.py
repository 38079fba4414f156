"""VACUUM and RESTORE over a store that fails at one of its calls, and run again.

In each run the n-th call to the store fails, before or after it has its effect. Whatever the statement then says, every
file that a version within the retention needs is there, and the statement, run again, does all that it was to do.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headwater.errors import HeadwaterError
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import AddFile, RemoveFile
from headwater.statements import opening
from headwater.stores import LocalStore
from headwater.transaction import Transaction, maintenance
from support.faults.faulty_store import Fault, FaultyStore
from support.recording_statement import RecordingStatement
from support.requests import called, create_request, create_table, schema_json

CONFS = {
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
}
STATEMENTS = {
    "vacuum full": ("vacuum", {"hours": "0", "mode": "full"}),
    "vacuum lite": ("vacuum", {"hours": "0", "mode": "lite"}),
    "restore": ("restore", {"version": "1"}),
}


@pytest.fixture(autouse=True)
def _no_maintenance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "schedule", lambda *_: None)


def make(path: Path) -> None:
    """Files a and b; then b and c, and what nobody committed."""
    create_table(create_request(path, schema_json(a="integer")), RecordingStatement())
    for added, removed in ((("a", "b"), ()), (("c",), ("a",))):
        snapshot = load_snapshot(str(path), LocalStore())
        txn = Transaction(snapshot.table_path, snapshot.store, snapshot)
        for name in added:
            (path / name).write_bytes(b"data")
        txn.add(AddFile(name, {}, 4, 5, True) for name in added)
        txn.remove(RemoveFile(name, 1, True, size=4) for name in removed)
        txn.commit("WRITE", {})
    for name in ("left", "sub/left"):
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).touch()
    for number, file in enumerate(sorted(path.rglob("*"))):
        os.utime(file, (1e9 + number, 1e9 + number))
    for version in range(3):
        os.utime(path / f"_delta_log/{version:020d}.json", (2e8 + version, 2e8 + version))


def names(path: Path) -> set[str]:
    return {str(f.relative_to(path)) for f in path.rglob("*") if f.is_file() and f.parent.name != "_delta_log"}


def live(path: Path) -> set[str]:
    return set(load_snapshot(str(path), LocalStore()).files["path"].to_pylist())


@pytest.mark.parametrize("fault", [Fault.FAIL_BEFORE, Fault.FAIL_AFTER, Fault.TWICE])
@pytest.mark.parametrize("kind", STATEMENTS)
def test_every_call(kind: str, fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call, arguments = STATEMENTS[kind]
    failed = 0
    for at in range(200):
        path = tmp_path / str(at)
        make(path)
        faulty = FaultyStore(LocalStore(), at, fault)
        with monkeypatch.context() as patched:
            patched.setattr(opening, "store_for", lambda *_, f=faulty, p=path: (f, str(p)))
            opening.CACHE.forget(str(path))
            request = {"table": str(path), "name": "t", "arguments": arguments}
            try:
                called(call)(request, RecordingStatement(CONFS))
            except (HeadwaterError, OSError):
                failed += 1
            assert live(path) <= names(path)
            if kind != "restore":
                assert {"b", "c"} <= names(path)
            opening.CACHE.forget(str(path))
            patched.setattr(opening, "store_for", lambda *_, p=path: (LocalStore(), str(p)))
            called(call)(request, RecordingStatement(CONFS))
        if kind == "restore":
            assert live(path) == {"a", "b"}
        else:
            assert live(path) == {"b", "c"}
            assert "a" not in names(path)
            assert kind == "vacuum lite" or names(path) == {"b", "c"}
        if len(faulty.calls) <= at:
            break
    else:
        pytest.fail("the statement makes more calls than were looked at")
    assert failed or fault is Fault.TWICE
