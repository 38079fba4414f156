"""What follows a commit belongs to its table: if another table is at the path by then, nothing of the old one gets
there, whenever the table goes; and what got there all the same, by another program, is not read.
"""

from __future__ import annotations

import os
import random
import shutil
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.log import manifests
from headwater.log.checkpoint_writing import Layout, write_checkpoint
from headwater.log.checksums import read_checksum, write_checksum
from headwater.log.cleanup import truncate
from headwater.log.log_compaction import write_compaction
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.log.snapshot_cache import SnapshotCache
from headwater.protocol.actions import Protocol
from headwater.stores import LocalStore
from headwater.stores.hadoop import hadoop_store
from headwater.transaction import Provenance, Transaction, wait_for_maintenance
from headwater.transaction.same_table import writing_to_same_table
from support.commits import add_file, append, create, metadata
from support.stores.fake_hadoop import FakeHadoop

SECONDS = float(os.environ.get("HEADWATER_TEST_SECONDS", "3"))
PLAIN, V2 = Protocol(1, 2), Protocol(3, 7, frozenset({"v2Checkpoint"}), frozenset({"v2Checkpoint"}))


def made(path: str, versions: int, protocol: Protocol = PLAIN, **settings: str) -> Snapshot:
    """A new table, of so many appends after its first version."""
    txn = Transaction(path, LocalStore(), None)
    txn.update_protocol(protocol)
    name = uuid.uuid4().hex[:8]
    txn.update_metadata(replace(metadata(**settings), id=name))
    snapshot = txn.commit(Provenance("CREATE TABLE")).snapshot
    for number in range(versions):
        snapshot = append(snapshot, f"{name}-{number}").snapshot
    assert wait_for_maintenance(30)
    return snapshot


def files(path: str) -> set[str]:
    return set(load_snapshot(path, LocalStore()).select(["path"])["path"].to_pylist())


def contents(path: str) -> dict[Path, bytes]:
    return {found: found.read_bytes() for found in Path(path).rglob("*") if found.is_file()}


class Interrupted(LocalStore):
    """A store of whose writes the ``at``-th one has something happen right before it, or right after it."""

    def __init__(self, at: int, is_after: bool, what: Callable[[], None]) -> None:
        self.at, self.is_after, self.what = at, is_after, what
        self.count = 0
        self.happened = False

    def _passes(self, is_after: bool) -> None:
        self.count += is_after
        if not self.happened and (self.count - is_after, is_after) == (self.at, self.is_after):
            self.happened = True
            self.what()

    def put(self, path: str, data: bytes) -> None:
        self._passes(False)
        super().put(path, data)
        self._passes(True)

    def put_if_absent(self, path: str, data: bytes) -> None:
        self._passes(False)
        super().put_if_absent(path, data)
        self._passes(True)

    def delete(self, path: str) -> None:
        # Between a look and a deletion, no more than a system call passes; and nothing takes a deletion back.
        super().delete(path)
        self._passes(True)


#: What follows a commit; and the properties of a table that it follows.
FOLLOWERS: dict[str, tuple[Callable[[Snapshot], object], dict[str, str]]] = {
    "checksum": (lambda s: write_checksum(s.table_path, s.store, s.version, s.checksum("me")), {}),
    "checkpoint": (write_checkpoint, {}),
    "checkpoint in parts": (lambda s: write_checkpoint(s, layout=Layout(4)), {}),
    "checkpoint of V2": (lambda s: write_checkpoint(s, layout=Layout(4)), {"delta_checkpointPolicy": "v2"}),
    "compacted log": (write_compaction, {}),
    "manifests": (lambda s: manifests.write(s, manifests.manifests(s, None)), {}),
    "cleanup": (lambda s: truncate(s, 0), {}),
}


@pytest.mark.covering
@pytest.mark.parametrize("event", ["dropped", "shorter", "longer", "swapped"])
@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("follower", FOLLOWERS)
def test_it_ends_where_the_table_goes(tmp_path, monkeypatch, follower, is_after, event):
    """Between the last look and each write, and between the write and the next look."""
    monkeypatch.setattr("headwater.log.log_compaction.COMMITS", 12)
    follow, settings = FOLLOWERS[follower]
    path, other = str(tmp_path / "t"), str(tmp_path / "u")
    happened = True
    at = 0
    while happened:
        for place in (path, other):
            shutil.rmtree(place, ignore_errors=True)
        newest = made(path, 12, V2 if settings else PLAIN, delta_checkpointInterval="5", **settings)
        os.unlink(f"{path}/_delta_log/{newest.version:020d}.crc")
        if event == "swapped":
            made(other, 14)
        became: dict[Path, bytes] = {}

        def happen(became=became) -> None:
            if event == "swapped":
                os.rename(path, f"{path}-{uuid.uuid4()}")
                os.rename(other, path)
            else:
                shutil.rmtree(path)
                if event != "dropped":
                    made(path, {"shorter": 3, "longer": 14}[event])
            became.update(contents(path))

        store = Interrupted(at, is_after, happen)
        snapshot = writing_to_same_table(load_snapshot(path, store))
        try:
            follow(snapshot)
        except (HeadwaterError, OSError):
            assert store.happened
        happened = store.happened
        at += 1
        if not happened:
            break
        now = contents(path)
        assert now.keys() <= became.keys()
        assert all(became[name] == content for name, content in now.items())
        # What had the same name may have been replaced, and was then taken back: never a commit.
        assert all("checkpoint" in name.name for name in became.keys() - now.keys())
        if event != "dropped":
            assert files(path)
            assert not files(path) & set(newest.select(["path"])["path"].to_pylist())
    assert at > 1 or (follower, is_after) == ("cleanup", False), "nothing was written"


class Looks(LocalStore):
    """Counts looks at the log, and has something happen after so many files were written."""

    def __init__(self, after: int = -1, what: Callable[[], None] = lambda: None) -> None:
        self.after, self.what = after, what
        self.looks = self.count = 0
        self.lock = threading.Lock()

    def following(self, paths):
        self.looks += 1
        return super().following(paths)

    def put(self, path: str, data: bytes) -> None:
        with self.lock:
            super().put(path, data)
            self.count += 1
            if self.count == self.after:
                self.what()

    def make_directory(self, path: str) -> None:
        with self.lock:  # what happens takes two steps
            super().make_directory(path)


def of_partitions(path: str, count: int) -> Snapshot:
    txn = Transaction(path, LocalStore(), None)
    txn.update_protocol(PLAIN)
    txn.update_metadata(replace(metadata(partitioned=True), id=uuid.uuid4().hex))
    txn.add(add_file(f"{txn.table_path}-{day}", day=str(day)) for day in range(count))
    snapshot = txn.commit(Provenance("CREATE TABLE")).snapshot
    assert wait_for_maintenance(30)
    return snapshot


def test_many_manifests_share_their_looks_at_the_log(tmp_path, monkeypatch):
    monkeypatch.setattr("headwater.transaction.same_table._LOOKED_AFTER_TOGETHER", 40)
    store = Looks()
    table = writing_to_same_table(of_partitions(str(tmp_path), 100).reached_through(store))
    manifests.write(table, manifests.manifests(table))
    assert (store.count, store.looks) == (100, 6)


@pytest.mark.parametrize("after", [1, 40, 100])
def test_of_many_manifests_none_is_left_where_the_table_goes(tmp_path, after):
    path, other = str(tmp_path / "t"), str(tmp_path / "other")
    old, new = of_partitions(path, 100), of_partitions(other, 50)
    before = contents(other).values()

    def swap() -> None:
        os.rename(path, f"{path}-gone")
        os.rename(other, path)

    table = writing_to_same_table(old.reached_through(Looks(after, swap)))
    with pytest.raises((HeadwaterError, OSError)):
        manifests.write(table, manifests.manifests(table))
    assert load_snapshot(path, LocalStore()).metadata.id == new.metadata.id
    assert sorted(contents(path).values()) == sorted(before)


def test_what_a_process_left_at_the_place_of_a_table_is_not_read(tmp_path):
    """Any file of the old table's log but its commits, whatever version the new table has come to."""
    old = made(str(tmp_path / "old"), 24, delta_checkpointInterval="10")
    write_compaction_of(old)
    left = [f for f in Path(old.table_path, "_delta_log").iterdir() if f.suffix != ".json" or "compacted" in f.name]
    assert {"crc", "parquet", "_last_checkpoint", "json"} <= {file.name.rpartition(".")[2] for file in left}
    for versions in (0, 9, 10, 11, 20, 24, 26):
        path = str(tmp_path / f"new-{versions}")
        new = made(path, versions, delta_checkpointInterval="1000")
        expected = files(path)
        for file in left:
            shutil.copy2(file, f"{path}/_delta_log/{file.name}")
        assert files(path) == expected
        for version in range(versions + 1):
            assert load_snapshot(path, LocalStore(), version).num_files == version
        # The next commit's files are its own again.
        newest = append(load_snapshot(path, LocalStore()), "more").snapshot
        assert wait_for_maintenance(30)
        found = read_checksum(path, newest.store, newest.version)
        assert found is not None
        assert found.metadata.id == new.metadata.id
        write_checkpoint(newest)
        assert files(path) == {*expected, "more"}


def write_compaction_of(snapshot: Snapshot) -> None:
    """One of all but its first commits."""
    from headwater.log import log_compaction

    commits = log_compaction.COMMITS
    log_compaction.COMMITS = snapshot.version
    try:
        assert write_compaction(snapshot)
    finally:
        log_compaction.COMMITS = commits


def test_a_hint_at_a_version_that_the_log_has_not_moves_back(tmp_path):
    old, new = made(str(tmp_path / "old"), 20), made(str(tmp_path / "new"), 9)
    hint = "_delta_log/_last_checkpoint"
    shutil.copy2(f"{old.table_path}/{hint}", f"{new.table_path}/{hint}")
    append(new, "more")
    assert wait_for_maintenance(30)
    assert '"version":10,' in Path(new.table_path, hint).read_text()


@pytest.mark.parametrize("left", [{0}, {0, 1, 4}, {4}])
def test_a_checkpoint_without_its_commit_is_the_newest_version_of_its_own_table(tmp_path, caplog, left):
    """A cleanup by another program may take the commits in any order."""
    table = made(str(tmp_path / "t"), 5, delta_checkpointInterval="5")
    for version in set(range(6)) - left:
        os.unlink(f"{table.table_path}/_delta_log/{version:020d}.json")
    for hint in (True, False):
        newest = load_snapshot(table.table_path, LocalStore())
        assert (newest.version, files(table.table_path)) == (5, {f"{table.metadata.id}-{n}" for n in range(5)})
        if hint:
            os.unlink(f"{table.table_path}/_delta_log/_last_checkpoint")
    assert not caplog.records
    assert append(newest, "more").version == 6


@pytest.mark.parametrize("first", [0, 5], ids=["whole", "cleaned up"])
def test_a_checkpoint_of_another_table_beyond_an_own_one_is_not_read(tmp_path, caplog, first):
    """Listings begin at the own checkpoint, so they do not show the first commit."""
    old = made(str(tmp_path / "old"), 10, delta_checkpointInterval="10")
    new = made(str(tmp_path / "new"), 6, delta_checkpointInterval="5")
    for version in range(first):
        os.unlink(f"{new.table_path}/_delta_log/{version:020d}.json")
    expected = files(new.table_path)
    name = f"_delta_log/{10:020d}.checkpoint.parquet"
    shutil.copy2(f"{old.table_path}/{name}", f"{new.table_path}/{name}")
    assert files(new.table_path) == expected
    assert len(caplog.records) == 1
    assert "another table" in caplog.text
    newest = append(load_snapshot(new.table_path, LocalStore()), "more").snapshot
    assert (newest.version, files(new.table_path)) == (7, {*expected, "more"})


@pytest.mark.parametrize("first", [0, 8], ids=["whole", "cleaned up"])
def test_a_checkpoint_of_another_table_is_not_read_once_the_log_has_its_version(tmp_path, first):
    """Nor does it stand in for commits that a cleanup deletes."""
    old = made(str(tmp_path / "old"), 10, delta_checkpointInterval="10")
    new = made(str(tmp_path / "new"), 9, delta_checkpointInterval="4")
    log = Path(new.table_path, "_delta_log")
    for version in range(first):
        (log / f"{version:020d}.json").unlink()
        (log / f"{version:020d}.checkpoint.parquet").unlink(missing_ok=True)
    left = f"{10:020d}.checkpoint.parquet"
    shutil.copy2(f"{old.table_path}/_delta_log/{left}", log / left)
    os.utime(log / left, (1_600_000_000, 1_600_000_000))
    snapshot, expected = load_snapshot(new.table_path, LocalStore()), files(new.table_path)
    for number in range(2):
        snapshot = append(snapshot, f"more-{number}").snapshot
    expected |= {"more-0", "more-1"}
    assert wait_for_maintenance(30)
    assert files(new.table_path) == expected
    truncate(snapshot, 0)
    for _ in range(2):
        newest = load_snapshot(new.table_path, LocalStore())
        assert (newest.version, newest.metadata.id) == (11, new.metadata.id)
        assert files(new.table_path) == expected
        (log / "_last_checkpoint").unlink(missing_ok=True)


def test_a_checkpoint_that_is_about_to_be_taken_back_is_not_read(tmp_path):
    """It was put while another table took the path, so it is younger than the commit of its version."""
    old = made(str(tmp_path / "old"), 2, delta_checkpointInterval="2")
    new = made(str(tmp_path / "new"), 3)
    expected = files(new.table_path)
    name = f"_delta_log/{2:020d}.checkpoint.parquet"
    shutil.copy(f"{old.table_path}/{name}", f"{new.table_path}/{name}")
    assert files(new.table_path) == expected


@pytest.mark.parametrize("left", [b"", b'{"metaData":', b"\0" * 100], ids=["empty", "cut off", "zeros"])
def test_a_first_commit_that_is_damaged_does_not_matter_beside_a_new_checkpoint(tmp_path, left):
    table = made(str(tmp_path / "t"), 5, delta_checkpointInterval="5")
    expected = files(table.table_path)
    Path(table.table_path, f"_delta_log/{0:020d}.json").write_bytes(left)
    assert files(table.table_path) == expected


def test_of_a_large_first_commit_only_the_head_is_read(tmp_path):
    """Whose table a new checkpoint is of is asked on each opening, and the commit may have a million files."""

    class Reading(LocalStore):
        bytes = 0

        def read(self, path):
            self.bytes += os.path.getsize(path)
            return super().read(path)

        def read_range(self, path, offset, length):
            self.bytes += length
            return super().read_range(path, offset, length)

    many = [add_file(f"{number:0100}") for number in range(5000)]
    table = create(tmp_path, *many, delta_checkpointInterval="1").snapshot
    append(table, "more")
    assert wait_for_maintenance(30)
    store = Reading()
    assert load_snapshot(str(tmp_path), store).num_files == 5001
    assert store.bytes < os.path.getsize(tmp_path / f"_delta_log/{0:020d}.json") / 2


def test_an_unreadable_checkpoint_after_the_newest_commit_is_an_error(tmp_path):
    """Not an old version that passes for the newest one."""
    table = made(str(tmp_path / "t"), 5, delta_checkpointInterval="5")
    log = Path(table.table_path, "_delta_log")
    for version in range(1, 6):
        (log / f"{version:020d}.json").unlink()
    (log / f"{5:020d}.checkpoint.parquet").write_bytes(b"PAR1")
    with pytest.raises(HeadwaterError) as error:
        load_snapshot(table.table_path, LocalStore())
    assert error.value.condition == "DELTA_CHECKPOINT_UNREADABLE"


def test_a_copied_log_is_read_from_its_checkpoint(tmp_path, caplog):
    """Copies keep no order of times, so those of a checkpoint prove nothing by themselves."""
    table = made(str(tmp_path / "t"), 12)
    log = Path(table.table_path, "_delta_log")
    for number, file in enumerate(sorted(log.iterdir())):
        os.utime(file, (1_000_000 + number, 1_000_000 + number))
    for version in range(1, 10):  # as a cleanup may leave it that was cut off
        (log / f"{version:020d}.json").unlink()
    assert files(str(tmp_path / "t")) == set(table.select(["path"])["path"].to_pylist())
    assert not caplog.records


class OneSecond(FakeHadoop):
    """A store with times of whole seconds, all of whose files are of one second."""

    second = int(time.time()) * 1000

    def _status(self, path):
        size, _, tag = super()._status(path)
        return size, self.second, tag


def test_a_table_made_again_within_a_second_is_another_one(tmp_path):
    """Path, size and time of each file are the same, and who made it again is another process."""
    hadoop = OneSecond(tmp_path)
    path = "s3a://t"
    store = hadoop_store("s3a", path, hadoop)
    cache = SnapshotCache()
    # Tables with as many versions as the one before, then with as many as it has after a commit through the store.
    for round_, appends in enumerate((2, 2, 3, 4, 0, 3)):
        local = str(tmp_path / "t")
        shutil.rmtree(local, ignore_errors=True)
        made(local, appends)
        newest = cache.get(path, store)
        assert set(newest.select(["path"])["path"].to_pylist()) == files(local)
        for version in range(newest.version + 1):
            assert cache.get(path, store, version).metadata.id == newest.metadata.id
        if round_ == 0:
            continue
        before, own = files(local), f"own-{round_:06d}"
        append(cache.get(path, store), own)
        assert files(local) == before | {own}
        assert set(cache.get(path, store).select(["path"])["path"].to_pylist()) == files(local)


def test_the_cache_takes_the_first_version_of_a_table_that_replaced_another(tmp_path):
    cache = SnapshotCache()
    path = str(tmp_path / "t")
    old = made(path, 3)
    cache.put(old)
    shutil.rmtree(path)
    new = made(path, 0)
    cache.put(new)
    assert cache.get(path, LocalStore(), staleness_limit=10**6).metadata.id == new.metadata.id
    assert cache.get(path, LocalStore(), 0).metadata.id == new.metadata.id


@pytest.mark.random
def test_a_story_of_tables_that_come_and_go_beside_maintenance(tmp_path):
    """DROP, CREATE, writes, and the swap of two names, with what follows each commit under way."""
    chance = random.Random(0 if SECONDS <= 3 else None)
    names = ["t", "u"]
    model: dict[str, set[str]] = {}
    known: dict[str, Snapshot] = {}
    stop = time.monotonic() + SECONDS
    steps = 0

    def at(name: str) -> str:
        return str(tmp_path / name)

    def create(name: str) -> None:
        txn = Transaction(at(name), LocalStore(), None)
        txn.update_protocol(Protocol(1, 2))
        txn.update_metadata(replace(metadata(delta_checkpointInterval="2"), id=uuid.uuid4().hex))
        known[name], model[name] = txn.commit(Provenance("CREATE TABLE")).snapshot, set()

    def drop(name: str) -> None:
        until = time.monotonic() + 10
        while os.path.exists(at(name)) and time.monotonic() < until:
            shutil.rmtree(at(name), ignore_errors=True)
        del known[name], model[name]

    def swap() -> None:
        for a, b in (("t", "old"), ("u", "t"), ("old", "u")):
            os.rename(at(a), at(b))
        model["t"], model["u"] = model["u"], model["t"]
        for name in names:
            known[name] = load_snapshot(at(name), LocalStore())

    while time.monotonic() < stop:
        steps += 1
        name = chance.choice(names)
        if name not in known:
            create(name)
        for _ in range(chance.choice((0, 1, 1, 2, 5))):
            file = uuid.uuid4().hex
            known[name] = append(known[name], file).snapshot
            model[name].add(file)
        if chance.random() < 0.3:
            time.sleep(chance.random() / 100)
        what = chance.random()
        if what < 0.3 and name in known:
            drop(name)
        elif what < 0.5 and len(known) == 2:
            swap()
        for each, expected in model.items():
            assert files(at(each)) == expected, f"after {steps} steps"
    assert wait_for_maintenance(60)
    for each, expected in model.items():
        assert files(at(each)) == expected
        newest = load_snapshot(at(each), LocalStore())
        for version in range(newest.version + 1):
            there = read_checksum(at(each), newest.store, version)
            assert there is None or there.metadata.id == newest.metadata.id
    assert steps > 10
