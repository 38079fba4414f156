"""Logs that are long, or behind a slow store: what is asked of the store, and how much of it at once."""

from __future__ import annotations

import time
from threading import Lock

import pytest

from headwater.log.checkpoint_writing import write_checkpoint
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import AddFile, Metadata, Protocol, serialize
from headwater.protocol.file_names import commit_name
from headwater.stores import LocalStore, Store
from headwater.transaction import Provenance, Transaction, wait_for_maintenance
from support.stores.memory_store import MemoryStore

REQUEST_SECONDS = 0.02
COMMITS = 1000


class SlowStore(MemoryStore):
    """Each request takes its time, as that of an object store does; any number may be under way."""

    def __init__(self):
        super().__init__()
        self.requests = 0
        self._counting = Lock()

    def _request(self):
        with self._counting:
            self.requests += 1
        time.sleep(REQUEST_SECONDS)

    def list_from(self, directory, start_name=""):
        self._request()
        return super().list_from(directory, start_name)

    def read(self, path):
        self._request()
        return super().read(path)

    read_many = Store.read_many


class Watched(LocalStore):
    def __init__(self):
        self.listings = 0

    def list_from(self, directory, start_name=""):
        self.listings += 1
        return super().list_from(directory, start_name)


def commit(store, path, version):
    header = [Protocol(1, 2), Metadata("the-id", '{"type":"struct","fields":[]}', created_time=1)]
    actions = [*(header if version == 0 else []), AddFile(f"f{version}", {}, 10, 1, stats='{"numRecords":1}')]
    store.put_if_absent(f"{path}/_delta_log/{commit_name(version)}", serialize(actions))


@pytest.mark.alone
def test_a_long_tail_is_read_in_parallel(capfd):
    store = SlowStore()
    store.make_directory("/t/_delta_log")
    for version in range(COMMITS):
        commit(store, "/t", version)
    started = time.perf_counter()
    snapshot = load_snapshot("/t", store)
    taken = time.perf_counter() - started
    assert snapshot.num_files == COMMITS
    assert store.requests == COMMITS + 2
    in_a_row = COMMITS * REQUEST_SECONDS
    with capfd.disabled():
        print(
            f"\n{COMMITS} commits behind {REQUEST_SECONDS * 1000:.0f} ms a request: {taken:.2f} s of {in_a_row:.0f} s"
        )
    assert taken < in_a_row / 10


def test_a_local_log_is_not_listed_for_what_is_new(tmp_path):
    """Its directory is read whole whatever is asked of it, so new commits are looked for by name."""
    store, path = Watched(), str(tmp_path)
    store.make_directory(f"{path}/_delta_log")
    for version in range(5):
        commit(store, path, version)
    snapshot = load_snapshot(path, store)
    store.listings = 0
    for version in (5, 6, 7):
        commit(store, path, version)
    assert load_snapshot(path, store, base=snapshot).version == 7
    for _ in range(3):
        txn = Transaction(path, store, snapshot)
        txn.add([AddFile(txn.id, {}, 1, 1)])
        last = txn.commit(Provenance("WRITE"))  # after a lost race, the winners of which are found by name too
    assert last.version == 10
    assert store.listings == 0
    assert wait_for_maintenance(60)


@pytest.mark.parametrize("interval", [0, 50])
def test_following_a_table_for_long_leaves_a_short_segment(tmp_path, interval):
    """A reader that follows it, now and then or always, begins again at a newer checkpoint where there is one."""
    store, path = Watched(), str(tmp_path)
    store.make_directory(f"{path}/_delta_log")
    commit(store, path, 0)
    always = seldom = load_snapshot(path, store)
    for version in range(1, 420):
        commit(store, path, version)
        always = load_snapshot(path, store, base=always)
        if version % 250 == 0:
            seldom = load_snapshot(path, store, base=seldom)
        if interval and version % interval == 0:
            write_checkpoint(always)
    seldom = load_snapshot(path, store, base=seldom)
    for snapshot in (always, seldom):
        assert snapshot.version == 419
        assert snapshot.num_files == 420
    if interval:
        assert len(always.segment.ranges) < 250
        assert always.segment.checkpoint is not None
    assert len(load_snapshot(path, store).segment.ranges) == (19 if interval else 420)
