"""How old a cached snapshot may be, how much is kept of how many tables, and what a log does to a reader on it."""

from __future__ import annotations

import json
import logging
import threading
from typing import Any

import pyarrow as pa
import pytest

from headwater.basics import counts
from headwater.basics.errors import HeadwaterError
from headwater.log import checkpoint_reading
from headwater.log.checkpoint_writing import write_checkpoint
from headwater.log.checksums import write_checksum
from headwater.log.snapshot import load_snapshot
from headwater.log.snapshot_cache import SnapshotCache
from headwater.protocol.actions import (
    AddFile,
    CommitInfo,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
    serialize,
)
from headwater.stores import LocalStore, store_for
from support.stores.fake_hadoop import FakeHadoop
from support.stores.memory_store import MemoryStore

PATH = "/t"
LOG = f"{PATH}/_delta_log"
HOUR = 3_600_000


class Watched(MemoryStore):
    """Counts what it lists and reads; ``before_read`` is called before each read."""

    def __init__(self):
        super().__init__()
        self.listings, self.listed, self.reads = 0, 0, 0
        self.before_read = lambda path: None
        self.listed_again = threading.Event()

    def list_from(self, directory, start_name=""):
        found = super().list_from(directory, start_name)
        self.listings += 1
        self.listed += len(found)
        self.listed_again.set()
        return found

    def read(self, path):
        self.before_read(path)
        self.reads += 1
        return super().read(path)


def commit(store, version):
    header = [Protocol(1, 2), Metadata("the-id", '{"type":"struct","fields":[]}', created_time=1)]
    actions = [*(header if version == 0 else []), AddFile(f"f{version}", {}, 10, 1)]
    store.put_if_absent(f"{LOG}/{version:020d}.json", serialize(actions))


@pytest.fixture
def store():
    store = Watched()
    store.make_directory(LOG)
    for version in range(3):
        commit(store, version)
    return store


def test_within_the_limit_the_known_snapshot_is_given_and_the_next_one_is_new(store):
    cache = SnapshotCache()
    first = cache.get(PATH, store)
    commit(store, 3)
    store.listed_again.clear()
    assert cache.get(PATH, store, staleness_limit=HOUR) is first
    assert store.listed_again.wait(60)
    for _ in range(1000):
        if cache.get(PATH, store, staleness_limit=HOUR).version == 3:
            break
        threading.Event().wait(0.01)
    assert cache.get(PATH, store, staleness_limit=HOUR).version == 3


def test_beyond_the_limit_or_without_one_the_newest_is_read(store):
    cache = SnapshotCache()
    cache.get(PATH, store)
    commit(store, 3)
    assert cache.get(PATH, store).version == 3
    commit(store, 4)
    threading.Event().wait(0.02)
    assert cache.get(PATH, store, staleness_limit=1).version == 4


def test_a_store_of_one_session_is_not_used_behind_a_reader(store):
    store.is_shared = False
    cache = SnapshotCache()
    first = cache.get(PATH, store)
    commit(store, 3)
    listings = store.listings
    assert cache.get(PATH, store, staleness_limit=HOUR) is first
    threading.Event().wait(0.05)
    assert store.listings == listings


def test_a_refresh_behind_that_fails_is_a_line_in_the_log(store, caplog):
    cache = SnapshotCache()
    first = cache.get(PATH, store)
    store.files.clear()
    store.directories.clear()
    with caplog.at_level(logging.WARNING):
        assert cache.get(PATH, store, staleness_limit=HOUR) is first
        for _ in range(1000):
            if "could not be refreshed in the background" in caplog.text:
                break
            threading.Event().wait(0.01)
    assert "could not be refreshed in the background" in caplog.text
    with pytest.raises(HeadwaterError):
        cache.get(PATH, store)


def test_what_is_listed_grows_with_what_is_new(store):
    """A table of 2,000 versions: each refresh, and a cold start from a checkpoint, list a few files."""
    for version in range(3, 2000):
        commit(store, version)
    cache = SnapshotCache()
    write_checkpoint(cache.get(PATH, store))
    listed = store.listed
    assert cache.get(PATH, store).version == 1999
    assert store.listed - listed <= 3
    for version in (2000, 2001):
        commit(store, version)
    listed, reads = store.listed, store.reads
    assert cache.get(PATH, store).version == 2001
    # Listed: the known commit, its checkpoint, two new commits, _last_checkpoint. Read: the commits and, since the
    # known snapshot is so far from its checkpoint, _last_checkpoint.
    assert (store.listed - listed, store.reads - reads) == (5, 3)
    listed = store.listed
    assert load_snapshot(PATH, store).num_files == 2002
    assert store.listed - listed <= 5


def test_a_log_that_is_cleaned_up_while_it_is_read_is_listed_anew(store):
    """The commits vanish after the listing; a checkpoint has come instead."""
    expected = load_snapshot(PATH, store)

    def clean_up(path):
        if path.endswith(".json"):
            store.before_read = lambda path: None
            write_checkpoint(expected)
            for version in range(3):
                store.delete(f"{LOG}/{version:020d}.json")

    store.before_read = clean_up
    assert load_snapshot(PATH, store).num_files == 3
    with pytest.raises(HeadwaterError) as raised:
        load_snapshot(PATH, store, 1)
    assert raised.value.condition == "DELTA_VERSION_NOT_FOUND"
    assert raised.value.parameters["earliest"] == "2"


def test_a_commit_that_is_listed_and_never_there_is_an_error_that_names_it(store):
    def vanish(path):
        if path.endswith("1.json"):
            raise FileNotFoundError(path)

    store.before_read = vanish
    with pytest.raises(HeadwaterError) as raised:
        load_snapshot(PATH, store)
    assert raised.value.condition == "DELTA_TRUNCATED_TRANSACTION_LOG"
    assert f"{1:020d}.json" in str(raised.value)


def test_a_snapshot_that_is_not_what_its_checksum_says_is_refused(store):
    snapshot = load_snapshot(PATH, store)
    write_checksum(snapshot.table_path, snapshot.store, snapshot.version, snapshot.checksum())
    path = f"{LOG}/{2:020d}.crc"
    right = json.loads(store.read(path))
    assert load_snapshot(PATH, store).version == 2
    changes: dict[str, dict[str, Any]] = {
        "number of files 4, but the log gives 3": {"numFiles": 4},
        "size in bytes 7, but the log gives 30": {"tableSizeBytes": 7},
        '"minWriterVersion":3}, but the log gives': {"protocol": {"minReaderVersion": 1, "minWriterVersion": 3}},
        'properties {"a":"b"}, but': {"metadata": {**right["metadata"], "configuration": {"a": "b"}}},
    }
    spelled_otherwise = {
        "numFiles": None,
        "metadata": {**right["metadata"], "schemaString": '{"fields": [], "type": "struct"}'},
        "protocol": {**right["protocol"], "readerFeatures": []},
    }
    store.put(path, json.dumps({**right, **spelled_otherwise}).encode())
    assert load_snapshot(PATH, store).version == 2
    base = load_snapshot(PATH, store, 1)
    for text, change in changes.items():
        store.put(path, json.dumps({**right, **change}).encode())
        for known in (None, base):
            with pytest.raises(HeadwaterError) as raised:
                load_snapshot(PATH, store, base=known)
            assert raised.value.condition == "DELTA_TXN_LOG_FAILED_INTEGRITY"
            assert text in str(raised.value)
    assert load_snapshot(PATH, store, 1).version == 1
    store.delete(path)
    assert load_snapshot(PATH, store).version == 2


class OfOneSession(MemoryStore):
    """A handle to files that others have handles to; it is no longer used when its session has ended."""

    is_shared = False

    def __init__(self, of):
        super().__init__()
        self.files, self.directories, self.ended = of.files, of.directories, False

    def _check(self):
        assert not self.ended, "a store of another session was used"

    def list_from(self, directory, start_name=""):
        self._check()
        return super().list_from(directory, start_name)

    def read(self, path):
        self._check()
        return super().read(path)


def test_what_a_session_is_given_reads_through_its_own_store(store):
    sessions: list[Any] = []
    cache = SnapshotCache()
    for number in range(3):
        for session in sessions:
            session.ended = True
        sessions.append(OfOneSession(store))
        found = cache.get(PATH, sessions[-1])
        assert found.store is sessions[-1]
        assert found.version == 2 + number
        commit(store, 3 + number)
        known = cache.get(PATH, sessions[-1], staleness_limit=HOUR)
        assert known.store is sessions[-1]
        earlier = cache.get(PATH, sessions[-1], version=1)
        assert earlier.store is sessions[-1]
        assert earlier.commit_info == known.commit_info


def test_what_was_read_with_options_is_given_to_those_with_the_same(store):
    def reached(identity: str) -> OfOneSession:
        session = OfOneSession(store)
        session.identity = identity
        return session

    cache = SnapshotCache()
    cache.put(cache.get(PATH, reached("one"), version=1))
    newest = cache.get(PATH, reached("one"))
    for identity in ("", "other"):
        stranger = reached(identity)
        stranger.ended = True  # whatever is read fails, so that what is given was not read
        for asked in ({"version": 1}, {"version": newest.version}, {"staleness_limit": HOUR}):
            with pytest.raises(AssertionError):
                cache.get(PATH, stranger, **asked)
    assert cache.get(PATH, reached("one"), staleness_limit=HOUR).state is newest.state
    commit(store, 3)
    cache.forget(PATH)
    assert cache.get(PATH, reached("one"), staleness_limit=HOUR).version == 3


# Many tables


class ManyTables(Watched):
    """Small tables, ``/0`` and so on, of five files each; ``opened`` is what was opened of their checkpoints."""

    def __init__(self, tables):
        super().__init__()
        self.opened: list[pa.NativeFile] = []
        for table in range(tables):
            self.make_directory(f"/{table}/_delta_log")
            statistics = '{"numRecords":1,"minValues":{"n":%d},"maxValues":{"n":7},"nullCount":{"n":0}}'
            schema = '{"type":"struct","fields":[{"name":"n","type":"integer","nullable":true,"metadata":{}}]}'
            actions = [Protocol(1, 2), Metadata(str(table), schema, created_time=1)]
            actions += [AddFile(f"f{number}", {}, 10, 1, stats=statistics % number) for number in range(5)]
            self.put_if_absent(f"/{table}/_delta_log/{0:020d}.json", serialize(actions))

    def open_input(self, path):
        self.opened.append(super().open_input(path))
        return self.opened[-1]

    def open_files(self):
        return sum(not file.closed for file in self.opened)

    def append(self, table, version):
        self.put_if_absent(f"/{table}/_delta_log/{version:020d}.json", serialize([AddFile(f"v{version}", {}, 10, 1)]))

    def reads_for(self, cache, tables):
        """How many files of logs are read to look at some tables; of those that are kept, none."""
        before = self.reads
        for table in tables:
            cache.get(f"/{table}", self)
        return self.reads - before


def levels():
    taken = counts.take()
    assert taken is not None
    return taken["levels"]


def test_a_thousand_small_tables_stay():
    store, cache = ManyTables(1000), SnapshotCache()
    assert store.reads_for(cache, range(1000)) >= 1000
    assert store.reads_for(cache, range(1000)) == 0
    found = levels()
    assert (found["cachedTables"], found["cachedFiles"]) == (1000, 5000)
    assert 10 << 20 < found["cachedBytes"] < 100 << 20


def test_what_takes_too_much_memory_goes_in_the_order_of_use():
    store = ManyTables(12)
    cache = SnapshotCache()
    cache.get("/0", store)
    each = levels()["cachedBytes"]
    cache = SnapshotCache(most_bytes=4 * each + each // 2)
    first = [cache.get(f"/{table}", store) for table in range(4)]
    assert store.reads_for(cache, [0]) == 0
    cache.get("/4", store)
    assert (levels()["cachedTables"], store.reads_for(cache, [0, 2, 3, 4])) == (4, 0)
    assert cache.get("/1", store) is not first[1]
    assert cache.get("/2", store) is first[2]
    assert cache.get("/0", store) is not first[0]
    assert store.reads_for(cache, range(12)) > 0
    found = levels()
    assert (found["cachedTables"], found["cachedFiles"], found["cachedBytes"]) == (4, 20, 4 * each)


def test_a_table_that_takes_more_than_all_may_is_kept_while_it_is_the_last():
    store, cache = ManyTables(2), SnapshotCache(most_bytes=1)
    cache.get("/0", store)
    assert store.reads_for(cache, [0]) == 0
    cache.get("/1", store)
    assert store.reads_for(cache, [1]) == 0
    assert store.reads_for(cache, [0]) > 0


def test_earlier_versions_go_before_tables_do():
    store = ManyTables(3)
    cache = SnapshotCache()
    for table in range(3):
        cache.get(f"/{table}", store)
    limit = levels()["cachedBytes"] * 4 // 3
    cache = SnapshotCache(most_bytes=limit)
    for table in range(3):
        cache.get(f"/{table}", store)
    for version in range(1, 5):
        store.append(2, version)
        assert cache.get("/2", store).version == version
    assert levels()["cachedBytes"] <= limit
    assert store.reads_for(cache, [0, 1, 2]) == 0


def test_what_a_statement_derives_counts():
    store, cache = ManyTables(100), SnapshotCache()
    snapshot = cache.get("/0", store)
    before = levels()["cachedBytes"]
    snapshot.statistics([("n",)])
    cache.get("/0", store)
    derived = levels()["cachedBytes"] - before
    assert derived > 1000
    cache.forget("/0")
    for table in range(100):
        cache.get(f"/{table}", store).statistics([("n",)])
    # Of those used once, it counts when as many more have come as are looked at again at a time.
    assert levels()["cachedBytes"] > 100 * before + 50 * derived


def test_what_is_forgotten_does_not_count():
    store, cache = ManyTables(3), SnapshotCache()
    cache.get("/0", store)
    alone = levels()
    for table in (1, 2):
        cache.get(f"/{table}", store)
        cache.put(load_snapshot(f"/{table}", store))
        cache.forget(f"/{table}")
    cache.get("/0", store)
    assert levels() == alone


def test_places_without_a_table_take_no_tables_place():
    store, cache = ManyTables(2), SnapshotCache(capacity=2)
    for table in range(2):
        cache.get(f"/{table}", store)
    for number in range(10):
        for version in (None, 0):
            with pytest.raises(HeadwaterError):
                cache.get(f"/nothing/{number}", store, version)
    assert store.reads_for(cache, [0, 1]) == 0


def test_no_more_tables_are_kept_than_may_be():
    store, cache = ManyTables(4), SnapshotCache(capacity=2)
    for table in (0, 1, 0, 2):
        cache.get(f"/{table}", store)
    assert levels()["cachedTables"] == 2
    assert store.reads_for(cache, [0, 2]) == 0
    assert store.reads_for(cache, [1]) > 0


def test_what_a_log_has_beside_files_counts():
    """A long schema, tombstones, commits that are listed, transactions."""
    wide = json.dumps({"type": "struct", "fields": [{"name": "x" * 9000, "type": "long", "nullable": True}]})
    removes = [RemoveFile(f"a file of a rather long name, number {number}", 1) for number in range(500)]
    transactions = [SetTransaction(str(number), 1) for number in range(100)]
    cases: dict[str, tuple[str, list[list[Any]]]] = {
        "plain": ('{"type":"struct","fields":[]}', [[], []]),
        "schema": (wide, [[], []]),
        "tombstones": ('{"type":"struct","fields":[]}', [removes, []]),
        "commits": ('{"type":"struct","fields":[]}', [[]] * 12),
        "transactions": ('{"type":"struct","fields":[]}', [transactions, []]),
    }
    sizes = {}
    for name, (schema, commits) in cases.items():
        store = Watched()
        store.make_directory(LOG)
        for version, actions in enumerate(commits):
            header: list[Any] = [Protocol(1, 2), Metadata("the-id", schema, created_time=1)] if version == 0 else []
            store.put_if_absent(f"{LOG}/{version:020d}.json", serialize([CommitInfo({}), *header, *actions]))
        SnapshotCache().get(PATH, store)
        sizes[name] = levels()["cachedBytes"]
    assert sizes["schema"] > sizes["plain"] + 9000
    assert sizes["tombstones"] > sizes["plain"] + 20_000
    assert sizes["commits"] > sizes["plain"] + 1000
    assert sizes["transactions"] > sizes["plain"] + 5000


def test_a_small_checkpoint_keeps_no_file_open_and_no_footer():
    store, cache = ManyTables(3), SnapshotCache()
    for table in range(3):
        write_checkpoint(load_snapshot(f"/{table}", store))
        store.append(table, 1)
    found = [cache.get(f"/{table}", store) for table in range(3)]
    assert all(snapshot.segment.checkpoint is not None for snapshot in found)
    assert (len(store.opened), store.open_files()) == (3, 0)
    for table, snapshot in enumerate(found):
        for name in [name for name in store.files if name.startswith(f"/{table}/") and "checkpoint" in name]:
            store.delete(name)
        assert snapshot.statistics([("n",)])["min.0"].to_pylist() == [0, 1, 2, 3, 4, None]
        assert snapshot.files["stats"].null_count == 1
        assert snapshot.tombstones().num_rows == 0
        (file,) = [live.block.statistics._file for live in snapshot.state.blocks if not live.block.in_memory]
        assert file._opened is None
    assert len(store.opened) == 3


def test_copies_of_large_checkpoints_take_so_much_disk_and_no_more(monkeypatch, tmp_path):
    """On a store of another machine, whose checkpoints are copied before they are read."""
    monkeypatch.setattr(checkpoint_reading, "_KEPT_BYTES", 0)
    size = 0
    for table in range(5):
        path = f"{tmp_path}/{table}"
        (tmp_path / str(table) / "_delta_log").mkdir(parents=True)
        metadata = Metadata(str(table), '{"type":"struct","fields":[]}', created_time=1)
        content = serialize([Protocol(1, 2), metadata, AddFile("f", {}, 1, 1)])
        LocalStore().put_if_absent(f"{path}/_delta_log/{0:020d}.json", content)
        write_checkpoint(load_snapshot(path, LocalStore()))
        (checkpoint,) = (tmp_path / str(table) / "_delta_log").glob("*.parquet")
        size = checkpoint.stat().st_size
    most = 2 * size + size // 2
    for store, base, kept in (
        (store_for("hdfs://x", FakeHadoop(tmp_path))[0], "hdfs://", 2),
        (LocalStore(), f"{tmp_path}/", 5),
    ):
        cache = SnapshotCache(most_copied_bytes=most)
        for table in range(5):
            cache.get(f"{base}{table}", store)
        assert levels()["cachedTables"] == kept


def test_large_checkpoints_keep_so_many_files_open_and_no_more(monkeypatch):
    monkeypatch.setattr(checkpoint_reading, "_KEPT_BYTES", 0)
    store, cache = ManyTables(5), SnapshotCache(most_open_files=2)
    for table in range(5):
        write_checkpoint(load_snapshot(f"/{table}", store))
    for table in range(5):
        cache.get(f"/{table}", store).statistics([("n",)])
    assert levels()["cachedTables"] == 2
    assert store.reads_for(cache, [3, 4]) == 0
    assert len(store.opened) == 5
    assert store.reads_for(cache, [0]) > 0
