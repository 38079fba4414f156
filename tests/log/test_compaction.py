"""Compacted logs: when they are written, and that they change nothing but the number of files read."""

from __future__ import annotations

import pytest

from headwater.log.log_compaction import COMMITS, compaction_is_due, write_compaction
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import AddFile, DomainMetadata, Metadata, Protocol, RemoveFile, serialize
from headwater.protocol.file_names import commit_name, compaction_name
from headwater.transaction import Provenance, Transaction, wait_for_maintenance
from support.stores.memory_store import MemoryStore

PATH = "/compacted"
LOG = f"{PATH}/_delta_log"
PROTOCOL = Protocol(1, 7, None, frozenset({"domainMetadata"}))
METADATA = Metadata("the-id", '{"type":"struct","fields":[]}', (), {"delta.checkpointInterval": "1000"}, created_time=1)


def file(name):
    return AddFile(name, {}, 10, 1, stats='{"numRecords":1}', tags={"kept": "as it is"})


@pytest.fixture
def store():
    store = MemoryStore()
    store.make_directory(LOG)
    for version in range(COMMITS + 1):
        actions = [file(f"f{version}")]
        if version == 0:
            actions += [PROTOCOL, METADATA, DomainMetadata("gone", "{}")]
        if version > 3:
            actions.append(RemoveFile(f"f{version - 2}", 9_999_999_999_999, True, True, {}, 10))
        if version == 7:
            actions += [DomainMetadata("gone", "", True), DomainMetadata("here", "{}")]
        store.put_if_absent(f"{LOG}/{commit_name(version)}", serialize(actions))
    return store


def everything(snapshot):
    files = sorted(snapshot.files.to_pylist(), key=lambda row: row["path"])
    gone = sorted(snapshot.tombstones().to_pylist(), key=lambda row: row["path"])
    return files, gone, snapshot.domain_metadata, snapshot.metadata, snapshot.protocol


def test_a_compacted_log_tells_what_its_commits_do(store):
    before = load_snapshot(PATH, store)
    expected = everything(before)
    assert write_compaction(before) == f"{LOG}/{compaction_name(1, COMMITS)}"
    after = load_snapshot(PATH, store)
    assert [(r.first, r.last) for r in after.segment.ranges] == [(0, 0), (1, COMMITS)]
    assert everything(after) == expected
    assert write_compaction(before) is None


def test_none_is_written_of_a_log_with_gaps(store):
    snapshot = load_snapshot(PATH, store)
    store.delete(f"{LOG}/{commit_name(3)}")
    assert write_compaction(snapshot) is None


def test_they_are_written_where_checkpoints_are_far_apart(store):
    snapshot = load_snapshot(PATH, store)
    assert compaction_is_due(snapshot, 1000)
    assert not compaction_is_due(snapshot, 10)
    assert not compaction_is_due(load_snapshot(PATH, store, COMMITS - 1), 1000)


def test_commits_are_followed_by_one(store):
    snapshot = load_snapshot(PATH, store)
    for version in range(COMMITS + 1, 2 * COMMITS + 1):
        txn = Transaction(PATH, store, snapshot)
        txn.add([file(f"f{version}")])
        snapshot = txn.commit(Provenance("WRITE")).snapshot
    assert wait_for_maintenance(60)
    assert f"{LOG}/{compaction_name(COMMITS + 1, 2 * COMMITS)}" in store.files
    ranges = load_snapshot(PATH, store).segment.ranges
    assert [(r.first, r.last) for r in ranges][-1] == (COMMITS + 1, 2 * COMMITS)
