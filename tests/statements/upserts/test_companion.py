"""A companion's files over many batches, without Spark: what is read, written together, and deleted from the disk."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.protocol.actions import SetTransaction
from headwater.protocol.types import PrimitiveType, StructField, StructType
from headwater.sql.composing import Relation
from headwater.statements.upserts import binding
from headwater.statements.upserts.deleted_keys import Companion, Note, Remembering
from headwater.stores import LocalStore
from headwater.transaction import wait_for_maintenance
from support.deleting_batches import clocked, events_with
from support.recording_statement import RecordingStatement
from support.requests import data_file

HOUR = 3600.0
LONG = PrimitiveType("long")


class Batches(RecordingStatement):
    """Batches that each delete a key, one after the other, on a clock of its own."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch, size: int = 1000, **options: str) -> None:
        super().__init__()
        self.now, self.size, self.contents = 1e9, size, dict[str, set[int]]()
        self.companion = Companion("c", str(path), ["key_id"], Note("new", {"key_id": ("id", "id")}, False))
        self.events = events_with(**options)
        self.number = 0
        #: What the table's ``txn`` is.
        self.named = dict[str, SetTransaction]()
        #: How many bytes were written, entries and those that were written again.
        self.bytes = 0
        clocked(monkeypatch, lambda: self.now)

    def write(self, specification: Any) -> Any:
        """A file with the batch's entry, or with those of the files that the query reads."""
        name = f"part-{len(self.contents)}.parquet"
        read = [Path(file[0]).name for relation in self.relations for file in relation[2]]
        self.relations.clear()
        self.contents[name] = set().union(*(self.contents[each] for each in read)) if read else {self.number}
        self.file(name)
        size = self.size * len(self.contents[name])
        self.bytes += size
        described = data_file(name, len(self.contents[name]), [[1, 1, 0]] * 3)
        self.written = [[{**described, "size": size, "modificationTime": int(self.now * 1000)}]]
        return super().write(specification)

    def file(self, name: str) -> Path:
        file = Path(self.companion.path) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"")
        os.utime(file, (self.now, self.now))
        return file

    def batch(self) -> Snapshot:
        """Write one; the version after it."""
        self.number += 1
        remembering, before = Remembering(self.companion, self.events, Relation(0), None, self), None
        while before is not self.named:
            before = self.named
            table: Any = SimpleNamespace(
                version=self.number, state=SimpleNamespace(transactions=before), store=LocalStore()
            )
            number = remembering.bind(table)
        assert number is not None
        application = self.companion.application
        self.named = {application: SetTransaction(application, number)}
        return load_snapshot(self.companion.path, LocalStore())

    def on_disk(self) -> set[str]:
        return {file.name for file in Path(self.companion.path).glob("*.parquet")}

    def entries(self, snapshot: Snapshot) -> set[int]:
        counted = binding.counted(snapshot.files, [txn.version for txn in self.named.values()])
        return set().union(*(self.contents[path] for path in counted["path"].to_pylist()))


def live(snapshot: Snapshot) -> set[str]:
    return set(snapshot.files["path"].to_pylist())


@pytest.fixture(autouse=True)
def quiet():
    yield
    wait_for_maintenance()


@pytest.mark.parametrize("before", [None, LONG], ids=["new", "of another type"])
def test_sequences_and_keys_may_have_any_name(tmp_path, monkeypatch, before):
    """The table's columns may: it maps them. The companion has the names of fields, and the keys' names in files."""
    batches = Batches(tmp_path / "c", monkeypatch)
    batches.companion = replace(batches.companion, columns=["key_my id"])
    if before is not None:
        batches.events = replace(batches.events, sequence=before)
        batches.batch()
    spaced = StructType((StructField("seq no", LONG),))
    batches.events = replace(batches.events, sequence=spaced)
    assert [column.name for column in batches.batch().schema] == ["key_my id", "sequence", "written"]


def test_files_stay_few_and_none_is_missed(tmp_path, monkeypatch):
    """No entry is lost; whoever opened a version within the hour can read it; what nobody needs leaves the disk, files
    of batches that died among it."""
    drawn = random.Random(1)
    batches = Batches(tmp_path / "c", monkeypatch)
    opened: list[tuple[float, set[str]]] = []
    orphans: dict[str, float] = {}
    for number in range(1, 81):
        batches.now += drawn.uniform(30, 300)
        if drawn.random() < 0.1:
            orphans[batches.file(f"orphan-{number}.parquet").name] = batches.now
        snapshot = batches.batch()
        opened.append((batches.now, live(snapshot)))
        assert batches.entries(snapshot) == set(range(1, number + 1))
        assert snapshot.num_files <= 34
        recent = set().union(*(files for at, files in opened if at > batches.now - HOUR))
        recent |= {name for name, at in orphans.items() if at > batches.now - HOUR}
        assert recent <= batches.on_disk()
    # Two rounds of compaction later, all that was there before has gone.
    known = batches.on_disk()
    for _ in range(68):
        batches.now += 60 + HOUR / 34
        snapshot = batches.batch()
    assert batches.on_disk() & known == set()
    assert len(batches.on_disk()) <= 2 * 34


def test_large_files_are_not_written_again(tmp_path, monkeypatch):
    """So the bytes written grow with the entries, not with their square."""
    batches = Batches(tmp_path / "c", monkeypatch, size=4 << 20)
    for _ in range(150):
        snapshot = batches.batch()
    assert batches.entries(snapshot) == set(range(1, 151))
    assert batches.bytes < 3 * 600 << 20
    assert snapshot.num_files < 34 + 150 / 4


def test_what_cannot_be_deleted_fails_no_batch(tmp_path, monkeypatch, caplog):
    """The next round deletes it; nor does one that is cut off do harm."""

    def fail(*_: Any) -> Any:
        raise OSError("no permission")

    batches = Batches(tmp_path / "c", monkeypatch)
    orphan = batches.file("orphan.parquet")
    batches.now += 2 * HOUR
    with monkeypatch.context() as failing:
        failing.setattr(LocalStore, "delete_many", fail)
        for _ in range(34):
            batches.batch()
    assert orphan.exists()
    assert "no permission" in caplog.text
    for _ in range(34):
        batches.batch()
    assert not orphan.exists()


def test_expired_entries_go_without_being_written_again(tmp_path, monkeypatch):
    batches = Batches(tmp_path / "c", monkeypatch, tombstoneretention="2 hours")
    for _ in range(3):
        batches.batch()
    batches.now += HOUR
    batches.batch()
    batches.now += 1.5 * HOUR
    snapshot = batches.batch()
    assert batches.entries(snapshot) == {4, 5}
    assert len(live(snapshot)) == 2


def test_a_writer_that_was_overtaken_removes_nothing_twice(tmp_path, monkeypatch):
    """Another batch has written the small files together meanwhile: both commit, and no entry is lost."""
    batches = Batches(tmp_path / "c", monkeypatch)
    for _ in range(33):
        batches.batch()
    other = Batches(tmp_path / "c", monkeypatch)
    other.contents, other.number, other.now, other.named = batches.contents, 99, batches.now, batches.named

    def overtake() -> None:
        other.batch()
        batches.named = other.named

    batches.before_commits = [overtake]
    snapshot = batches.batch()
    assert batches.entries(snapshot) == {*range(1, 35), 100}
    assert snapshot.num_files <= 3


def test_a_cancelled_batch_is_cut_off_while_it_deletes(tmp_path, monkeypatch):
    batches = Batches(tmp_path / "c", monkeypatch)
    for _ in range(33):
        batches.batch()

    def cancelled() -> None:
        raise HeadwaterError("HEADWATER_STATEMENT_CANCELLED", {})

    monkeypatch.setattr(batches, "check_cancelled", cancelled)
    with pytest.raises(HeadwaterError):
        batches.batch()
    monkeypatch.undo()
    # It is not in the table, so that its own entry does not count.
    assert batches.entries(load_snapshot(str(tmp_path / "c"), LocalStore())) == set(range(1, 34))


def test_companions_of_replaced_tables_go(tmp_path, monkeypatch):
    """Once nothing was written to them for as long as entries are kept, two days at least. Those of the same table by
    other keys stay."""
    paths = [tmp_path / name for name in ("old-1", "new-1", "new-2")]
    all_batches = [Batches(path, monkeypatch, tombstoneretention="1 hour") for path in paths]
    for batches in all_batches:
        batches.batch()
        assert wait_for_maintenance(60)
        for each in (paths[0], *paths[0].rglob("*")):
            os.utime(each, (batches.now, batches.now))
    for hours, is_there in ((47, True), (2, False)):
        for batches in all_batches:
            batches.now += hours * HOUR
        all_batches[1].batch()
        assert paths[0].exists() == is_there
    assert all_batches[1].entries(load_snapshot(str(paths[1]), LocalStore())) == {3}
    assert all_batches[2].on_disk() == live(load_snapshot(str(paths[2]), LocalStore())) != set()
