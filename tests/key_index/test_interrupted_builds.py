"""Builds whose store fails, or whose process dies, at each call: no row is left out, and the next one completes it."""

from __future__ import annotations

import contextlib
import copy
import shutil
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.callbacks import WriteSpecification, WrittenFile
from headwater.key_index import segments
from headwater.statements.maintenance import key_indexes
from support.faults.faulty_store import WRITE_FAULTS, Crash, Fault, FaultyStore, allowed
from support.indexed_table import STORE, Indexed, forget
from support.recording_statement import RecordingStatement


class Writing(RecordingStatement):
    """Writes the entries of the files that it was told to read, as Spark's tasks do."""

    def __init__(self, table: Indexed) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.table = table

    def write(self, specification: WriteSpecification) -> list[WrittenFile]:
        _, _, listed = self.relations[-1]
        part = self.table.part([int(Path(file[0]).stem) for file in listed])
        assert specification.path == self.table.folder
        described = {"path": part.name, "size": part.size, "modificationTime": 1, "rows": part.rows}
        return [msgspec.convert({**described, "partition": {}, "statistics": []}, WrittenFile)]


def build(table: Indexed, store: Any, statement: Writing) -> key_indexes.Built:
    forget()
    return key_indexes.build(statement, table.snapshot().reached_through(store), table.index())


def prepared(path: Path, monkeypatch: pytest.MonkeyPatch) -> Indexed:
    """A table with many small segments, so that a build merges, and files without entries, for two batches."""
    table = Indexed(path, Random(1), 16)
    for file in range(12):
        table.put([file])
    monkeypatch.setattr(key_indexes, "_ROWS_OF_BATCH", 3)
    monkeypatch.setattr(key_indexes, "_ROW_BYTES", 100)
    return table


def copied(table: Indexed, path: Path) -> Indexed:
    shutil.copytree(table.path, path)
    other = copy.copy(table)
    other.path = str(path)
    return other


def test_every_call_with_every_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = prepared(tmp_path / "begun", monkeypatch)
    table = copied(begun, tmp_path / "whole")
    watched = FaultyStore(STORE)
    statement = Writing(table)
    assert build(table, watched, statement).files == 4
    assert statement.inner_commits == 2
    assert table.check(range(220)) == set(range(16))
    calls = watched.calls
    assert sum(call.writes for call in calls) >= 3
    for at, call in enumerate(calls):
        for fault in [fault for fault in WRITE_FAULTS if allowed(call, fault)]:
            table = copied(begun, tmp_path / f"{at}-{fault.name}")
            store = FaultyStore(STORE, at, fault, lasts=fault is Fault.NO_SPACE)
            with contextlib.suppress(HeadwaterError, Crash):
                build(table, store, Writing(table))
            forget()
            assert table.check(range(220)) >= set(range(12)), (call, fault)
            store.settle()
            build(table, STORE, Writing(table))
            forget()
            assert table.check(range(220)) == set(range(16)), (call, fault)


def test_no_space_is_an_error_that_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = prepared(tmp_path / "t", monkeypatch)
    watched, same = FaultyStore(STORE), copied(table, tmp_path / "same")
    build(same, watched, Writing(same))
    first = next(at for at, call in enumerate(watched.calls) if call.writes)
    with pytest.raises(HeadwaterError) as caught:
        build(table, FaultyStore(STORE, first, Fault.NO_SPACE, lasts=True), Writing(table))
    assert caught.value.condition == "HEADWATER_INDEX_NOT_WRITTEN"
    assert "No space left" in str(caught.value)
    assert "REFRESH INDEX" in str(caught.value)


def test_nothing_is_written_once_the_table_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = prepared(tmp_path / "t", monkeypatch)
    snapshot, index = table.snapshot(), table.index()
    log = Path(table.path) / "_delta_log" / f"{0:020d}.json"
    log.write_text(log.read_text().replace("of-this-table", "another-table"))
    before = sorted(Path(table.folder).glob("*.json"))
    with pytest.raises(HeadwaterError) as caught:
        key_indexes.build(Writing(table), snapshot, index)
    assert caught.value.condition == "DELTA_TABLE_ID_MISMATCH"
    assert sorted(Path(table.folder).glob("*.json")) == before
    forget()
    assert segments.segments(table.snapshot(), index) == []
