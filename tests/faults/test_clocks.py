"""Clocks that go backwards, and clocks of two writers that are a day apart."""

from __future__ import annotations

import itertools

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.log.checkpoint_writing import write_checkpoint
from headwater.log.cleanup import clean_up
from headwater.log.history import history, version_at
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import AddFile, RemoveFile
from headwater.transaction import Provenance, Transaction, wait_for_maintenance
from support.faults.scenario import FEATURES, Kind
from support.stores.memory_store import MemoryStore

DAY = 24 * 3600 * 1000
START = 1_700_000_000_000
IN_COMMIT = Kind(FEATURES, {"delta.enableInCommitTimestamps": "true"})
CLOCKS = {
    "going back at each look": itertools.count(START, -10_000),
    "standing still": itertools.repeat(START),
    "of two writers a day apart": itertools.cycle([START, START - DAY]),
    "set back once by a year": itertools.chain([START, START + 5], itertools.count(START - 365 * DAY, 7)),
}


def write(path, store, times, monkeypatch, kind):
    """A table of nine versions, told by this clock; the times each writer was told."""
    clock = iter(times)
    monkeypatch.setattr("headwater.transaction.commit_loop._now", lambda: next(clock))
    txn = Transaction(path, store, None)
    txn.update_protocol(kind.protocol)
    txn.update_metadata(kind.metadata)
    committed = txn.commit(Provenance("CREATE TABLE"))
    told = [committed.timestamp]
    for version in range(1, 9):
        txn = Transaction(path, store, committed.snapshot if version % 3 else load_snapshot(path, store, 0))
        txn.add([AddFile(str(version), {}, 1, 1)])
        committed = txn.commit(Provenance("WRITE"))
        told.append(committed.timestamp)
    assert wait_for_maintenance(60)
    return told


@pytest.mark.parametrize("name", CLOCKS)
def test_in_commit_timestamps_grow_whatever_the_clock(name, monkeypatch):
    store = MemoryStore(itertools.cycle([START, START - DAY, START + DAY]).__next__)
    path = f"/clock {name}"
    told = write(path, store, CLOCKS[name], monkeypatch, IN_COMMIT)
    assert told == sorted(set(told))
    entries = history(path, store)
    assert [entry.timestamp for entry in reversed(entries)] == told
    for version, time in enumerate(told):
        assert version_at(path, store, time) == version
        assert load_snapshot(path, store, version).timestamp == time
    assert version_at(path, store, told[3] + 1) == (4 if told[4] == told[3] + 1 else 3)


def test_file_times_that_go_back_still_give_one_order(monkeypatch):
    """Without in-commit timestamps the store's clock counts, and history never goes back with it."""
    times = itertools.chain([START], itertools.count(START - DAY, 10))
    store = MemoryStore(times.__next__)
    write("/file times", store, itertools.count(START), monkeypatch, Kind())
    shown = [entry.timestamp for entry in reversed(history("/file times", store))]
    assert shown == sorted(set(shown))
    assert [version_at("/file times", store, time) for time in shown] == list(range(9))


class Application:
    """A program whose clock is so many milliseconds ahead of the store's."""

    def __init__(self, disk, ahead, monkeypatch):
        self.disk, self.ahead, self._patch = disk, ahead, monkeypatch

    def write(self, path, name, removes=(), snapshot=None):
        """A commit; tombstones bear the program's own time."""
        clock = self.disk.now + self.ahead
        self._patch.setattr("headwater.basics.clock.milliseconds", lambda: clock)
        txn = Transaction(path, self.disk, snapshot or load_snapshot(path, self.disk))
        txn.add([AddFile(name, {}, 1, 1)])
        txn.remove(RemoveFile(removed, clock, True, True, {}, 1) for removed in removes)
        return txn.commit(Provenance("WRITE", user_metadata=name))

    def keep_up(self, path):
        """A checkpoint of the newest version and a cleanup, by this program's clock."""
        self._patch.setattr("headwater.basics.clock.milliseconds", lambda: self.disk.now + self.ahead)
        snapshot = load_snapshot(path, self.disk)
        write_checkpoint(snapshot)
        clean_up(snapshot)


class TimedStore(MemoryStore):
    """A store whose clock stands still until it is told to go on."""

    def __init__(self):
        super().__init__(lambda: self.now)
        self.now = START


@pytest.mark.parametrize("in_commit", [True, False], ids=["in-commit timestamps", "file times"])
@pytest.mark.parametrize("maintained_by", ["ahead", "right"])
def test_two_applications_a_day_apart(monkeypatch, in_commit, maintained_by):
    """Both commit, time goes one way, and neither's maintenance takes more than a day too much."""
    monkeypatch.setattr("headwater.transaction.maintenance.schedule", lambda *_: None)
    disk, path = TimedStore(), f"/a day apart {in_commit} {maintained_by}"
    kept = {"delta.logRetentionDuration": "interval 4 days", "delta.deletedFileRetentionDuration": "interval 4 days"}
    configuration = {**kept, "delta.checkpointInterval": "100"}
    if in_commit:
        configuration["delta.enableInCommitTimestamps"] = "true"
    kind = Kind(FEATURES if in_commit else Kind().protocol, configuration)
    monkeypatch.setattr("headwater.basics.clock.milliseconds", lambda: disk.now)
    txn = Transaction(path, disk, None)
    txn.update_protocol(kind.protocol)
    txn.update_metadata(kind.metadata)
    first = txn.commit(Provenance("CREATE TABLE")).snapshot
    apps = {"ahead": Application(disk, DAY, monkeypatch), "right": Application(disk, 0, monkeypatch)}
    # Racing from one snapshot, each is the loser once.
    told = [first.timestamp]
    told += [apps[name].write(path, f"race {name}", snapshot=first).timestamp for name in ("ahead", "right")]
    made = [START] * 3
    for step in range(20):
        disk.now += DAY // 2
        writer = apps["ahead" if step % 2 else "right"]
        before = [f"file {step - 1}"] if step else []
        told.append(writer.write(path, f"file {step}", before).timestamp)
        made.append(disk.now)
        if step == 6:
            apps[maintained_by].keep_up(path)
    assert told == sorted(told)
    entries = history(path, disk)
    assert [entry.timestamp for entry in reversed(entries)] == sorted({entry.timestamp for entry in entries})
    if in_commit:
        assert told == sorted(set(told))
    for entry in entries:
        assert version_at(path, disk, entry.timestamp) == entry.version
    apps[maintained_by].keep_up(path)
    after = load_snapshot(path, disk)
    assert after.select(["path"]).num_rows == 3
    tombstones = after.tombstones().column("path").to_pylist()
    # A version's own time bounds what a clock may claim: the store's, or where that counts the writer's.
    days = 3 if in_commit and maintained_by == "ahead" else 4
    for version, time in enumerate(made):
        if time > disk.now - days * DAY:
            assert load_snapshot(path, disk, version).version == version
            assert version < 4 or f"file {version - 4}" in tombstones
    assert "file 0" not in tombstones
    with pytest.raises(HeadwaterError, match="DELTA_VERSION_NOT_FOUND"):
        load_snapshot(path, disk, 1)
    for app in apps.values():
        assert app.write(path, f"afterwards {app.ahead}").version > after.version
