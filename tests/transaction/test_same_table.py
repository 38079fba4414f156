"""A table that is deleted, and perhaps made anew, under a transaction: nothing of it gets into the other table."""

from __future__ import annotations

import os
import shutil
import threading
from dataclasses import replace
from typing import Any

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.log.snapshot import load_snapshot
from headwater.log.snapshot_cache import SnapshotCache
from headwater.protocol.actions import Protocol
from headwater.stores import LocalStore
from headwater.transaction import Provenance, Transaction, maintenance, wait_for_maintenance
from support.commits import add_file, append, create, metadata, remove_file


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "t")


def grown(path, versions):
    """A table of so many appends."""
    snapshot = create(path).snapshot
    for number in range(versions):
        snapshot = append(snapshot, f"old-{number}").snapshot
    wait_for_maintenance()
    return snapshot


def another(path):
    """Another table at the same path."""
    shutil.rmtree(path)
    txn = Transaction(path, LocalStore(), None)
    txn.update_protocol(Protocol(1, 2))
    txn.update_metadata(replace(metadata(), id="another-id"))
    return txn.commit(Provenance("CREATE TABLE")).snapshot


def made_anew(path, versions):
    """Another table at the same path, of so many appends."""
    snapshot = another(path)
    for number in range(versions):
        snapshot = append(snapshot, f"new-{number}").snapshot
    wait_for_maintenance()
    return snapshot


def write(snapshot, *, removes=()):
    txn = Transaction(snapshot.table_path, snapshot.store, snapshot)
    txn.add([add_file("mine")])
    txn.remove(remove_file(path) for path in removes)
    return txn


@pytest.mark.parametrize("versions", [0, 2, 3, 5], ids=["shorter", "one shorter", "as long", "longer"])
@pytest.mark.parametrize("removes", [(), ("old-0",)], ids=["append", "rewrite"])
def test_nothing_is_written_to_the_new_table(path, versions, removes):
    """Whether the version that would come next is free there or taken."""
    txn = write(grown(path, 3), removes=removes)
    made_anew(path, versions)
    with pytest.raises(HeadwaterError) as raised:
        txn.commit(Provenance("WRITE"))
    assert raised.value.condition == "DELTA_TABLE_ID_MISMATCH"
    assert "another-id" in str(raised.value)
    now = load_snapshot(path, LocalStore())
    assert now.version == versions
    assert now.select(["path"])["path"].to_pylist() == [f"new-{number}" for number in range(versions)]


def test_made_anew_after_a_lost_race(path):
    snapshot = grown(path, 1)
    txn = write(snapshot)
    times: list[Any] = []

    def on_begin(version, _):
        if not times:
            append(snapshot, "winner")
            wait_for_maintenance()
        elif len(times) == 1:
            pytest.fail("a second attempt")
        times.append(version)
        made_anew(path, 4)

    with pytest.raises(HeadwaterError) as raised:
        txn.commit(Provenance("WRITE"), on_begin=on_begin)
    assert raised.value.condition == "DELTA_TABLE_ID_MISMATCH"
    assert load_snapshot(path, LocalStore()).version == 4


def test_a_table_that_is_gone(path):
    txn = write(grown(path, 1))
    shutil.rmtree(path)
    with pytest.raises(HeadwaterError) as raised:
        txn.commit(Provenance("WRITE"))
    assert raised.value.condition == "DELTA_TABLE_NOT_FOUND"
    assert not os.path.exists(path)


def test_a_table_put_back_from_a_backup(path):
    """The same table, some versions ago: a commit would leave a gap."""
    snapshot = grown(path, 3)
    txn = write(snapshot)
    for version in (2, 3):
        os.unlink(f"{path}/_delta_log/{version:020d}.json")
    with pytest.raises(HeadwaterError) as raised:
        txn.commit(Provenance("WRITE"))
    assert raised.value.condition == "DELTA_VERSION_NOT_FOUND"
    assert not os.path.exists(f"{path}/_delta_log/{4:020d}.json")


def test_a_log_whose_files_were_only_touched_or_cleaned_up(path):
    """A file of another time, or none any more where a checkpoint stands in: still the same table."""
    snapshot = grown(path, 10)
    tip = f"{path}/_delta_log/{10:020d}.json"
    os.utime(tip, (1_000_000_000, 1_000_000_000))
    assert write(snapshot).commit(Provenance("WRITE")).version == 11
    wait_for_maintenance()
    for version in range(11):
        os.unlink(f"{path}/_delta_log/{version:020d}.json")
    assert write(snapshot).commit(Provenance("WRITE")).version == 12


def test_a_cached_snapshot_is_not_of_the_table_that_was(path):
    """A reader keeps a snapshot; each look after the table was made anew shows the new one alone."""
    cache, store = SnapshotCache(), LocalStore()
    for versions in (3, 0, 3, 6, 3):
        grown(path, 3) if not os.path.exists(path) else made_anew(path, versions)
        newest = cache.get(path, store)
        assert newest.version == load_snapshot(path, store).version
        for version in range(newest.version + 1):
            some = cache.get(path, store, version)
            assert some.metadata.id == newest.metadata.id
            expected = load_snapshot(path, store, version).select(["path"])["path"].to_pylist()
            assert some.select(["path"])["path"].to_pylist() == expected


def test_the_old_tables_maintenance_is_not_done_in_the_new_ones_log(path, monkeypatch):
    """A checkpoint of the old table would be the new one's state."""
    snapshot = grown(path, 9)
    started, may_go = threading.Event(), threading.Event()

    def held(*_):
        started.set()
        assert may_go.wait(30)

    monkeypatch.setattr(maintenance, "write_checksum", held)
    assert maintenance.checkpoint_is_due(append(snapshot, "old-9").snapshot)
    assert started.wait(30)
    another(path)
    may_go.set()
    assert wait_for_maintenance(30)
    assert os.listdir(f"{path}/_delta_log") == [f"{0:020d}.json"]
    assert load_snapshot(path, LocalStore()).metadata.id == "another-id"
