"""How old a cached snapshot may be, and what a log does to a reader on it."""

from __future__ import annotations

import json
import logging
import threading
from typing import Any

import pytest

from headwater.errors import HeadwaterError
from headwater.log.checkpoint_writing import write_checkpoint
from headwater.log.checksums import write_checksum
from headwater.log.snapshot import load_snapshot
from headwater.log.snapshot_cache import SnapshotCache
from headwater.protocol.actions import AddFile, Metadata, Protocol, serialize
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
            if "could not be brought up to date" in caplog.text:
                break
            threading.Event().wait(0.01)
    assert "could not be brought up to date" in caplog.text
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
        "number of files 4, where the log gives 3": {"numFiles": 4},
        "size in bytes 7, where the log gives 30": {"tableSizeBytes": 7},
        "table id other, where the log gives the-id": {"metadata": {**right["metadata"], "id": "other"}},
        '"minWriterVersion":3}, where the log gives': {"protocol": {"minReaderVersion": 1, "minWriterVersion": 3}},
        'properties {"a":"b"}, where': {"metadata": {**right["metadata"], "configuration": {"a": "b"}}},
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
