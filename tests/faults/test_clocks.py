"""Clocks that go backwards, and clocks of two writers that are a day apart."""

from __future__ import annotations

import itertools

import pytest
from memory_store import MemoryStore
from scenario import FEATURES, Kind

from headwater.log.actions import AddFile
from headwater.log.history import history, version_at
from headwater.log.snapshot import load_snapshot
from headwater.transaction import Transaction, wait_for_upkeep

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
    monkeypatch.setattr("headwater.transaction.transaction._now", lambda: next(clock))
    txn = Transaction(path, store, None)
    txn.update_protocol(kind.protocol)
    txn.update_metadata(kind.metadata)
    committed = txn.commit("CREATE TABLE", {})
    told = [committed.timestamp]
    for version in range(1, 9):
        txn = Transaction(path, store, committed.snapshot if version % 3 else load_snapshot(path, store, 0))
        txn.add([AddFile(str(version), {}, 1, 1)])
        committed = txn.commit("WRITE", {})
        told.append(committed.timestamp)
    assert wait_for_upkeep(60)
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
