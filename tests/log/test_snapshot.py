from __future__ import annotations

import os
import shutil
import threading
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.basics.errors import HeadwaterError
from headwater.log.snapshot import table_exists
from headwater.log.snapshot_cache import SnapshotCache
from headwater.protocol.actions import CommitInfo, DeletionVector, DomainMetadata, Metadata, Protocol, SetTransaction
from headwater.protocol.file_names import commit_name
from headwater.stores import LocalStore
from support.log_writer import add, paths, remove, schema_json

DV_PROTOCOL = Protocol(3, 7, frozenset(["deletionVectors"]), frozenset(["deletionVectors"]))


def vector(number):
    return DeletionVector("u", f"{number:020d}", 4, number, 1)


def keys(snapshot):
    rows = snapshot.select(["path", "deletion_vector"]).to_pylist()
    return sorted((row["path"], row["deletion_vector"] and row["deletion_vector"]["cardinality"] or 0) for row in rows)


def test_the_newest_protocol_metadata_transaction_and_domain_win(log):
    log.create(
        actions=[SetTransaction("a", 1), SetTransaction("b", 1), DomainMetadata("x", "1"), DomainMetadata("y", "1")]
    )
    log.commit(1, SetTransaction("a", 2), DomainMetadata("x", "2"), DomainMetadata("y", "", True))
    log.commit(2, Protocol(1, 3), Metadata("other", schema_json({"name": "string"})))
    snapshot = log.load()
    assert snapshot.protocol == Protocol(1, 3)
    assert snapshot.metadata.id == "other"
    assert snapshot.schema.sql() == "struct<name:string>"
    assert {app: txn.version for app, txn in snapshot.set_transactions.items()} == {"a": 2, "b": 1}
    assert snapshot.domain_metadata == {"x": DomainMetadata("x", "2")}


def test_a_file_with_a_new_deletion_vector_is_another_logical_file(log):
    log.create(protocol=DV_PROTOCOL, actions=[add("a")])
    log.commit(1, remove("a"), add("a", deletion_vector=vector(1)))
    log.commit(2, remove("a", deletion_vector=vector(1)), add("a", deletion_vector=vector(2)))
    assert keys(log.load(0)) == [("a", 0)]
    assert keys(log.load(1)) == [("a", 1)]
    assert keys(log.load(2)) == [("a", 2)]
    assert not log.load(0).has_deletion_vectors
    assert log.load(1).has_deletion_vectors
    assert log.load().tombstones().num_rows == 2


@pytest.mark.parametrize(
    ("added", "removed"),
    [("p=a%20b/x", "p=a b/x"), ("p=a b/x", "p=a%20b/x"), ("file:/t/x", "/t/x"), ("/t/x", "file:///t/x"), ("%41", "A")],
)
@pytest.mark.parametrize("checkpoint", [False, True])
def test_one_file_may_be_spelled_in_several_ways(log, added, removed, checkpoint):
    log.create(actions=[add(added), add("other%20file")])
    if checkpoint:
        log.checkpoint(0, *log.header(), add(added), add("other%20file"))
    log.commit(1, remove(removed))
    assert paths(log.load()) == ["other%20file"]


def test_what_only_looks_alike_is_another_file(log):
    log.create(actions=[add("a%20b"), add("a%2520b")])
    log.checkpoint(0, *log.header(), add("a%20b"), add("a%2520b"))
    log.commit(1, remove("a%2520b"))
    assert paths(log.load()) == ["a%20b"]


def test_sizes_and_counts(log):
    log.create(actions=[add(str(number)) for number in range(10)])
    log.checkpoint(0, *log.header(), *(add(str(number)) for number in range(10)))
    log.commit(1, remove("3"), remove("nothing"), add("x"))
    snapshot = log.load()
    assert (snapshot.num_files, snapshot.size_in_bytes, snapshot.files.num_rows) == (10, 100, 10)


def test_a_file_removed_and_added_again_is_no_tombstone(log):
    log.create(actions=[add("a")])
    log.checkpoint(0, *log.header(), add("a"), remove("b"), remove("c"))
    log.commit(1, remove("a"), add("b"))
    log.commit(2, add("a"))
    base = log.load(0)
    for snapshot in (log.load(), log.load(base=log.load(1, base=base))):
        assert paths(snapshot) == ["a", "b"]
        assert snapshot.tombstones().column("path").to_pylist() == ["c"]


def test_a_compaction_gives_what_its_commits_do(log):
    log.create(actions=[add("a")])
    log.commit(1, remove("a"), add("b"))
    log.commit(2, remove("b"), add("c"))
    plain = log.load()
    log.compact(1, 2, remove("a"), remove("b"), add("c"))
    compacted = log.load()
    assert [(r.first, r.last) for r in compacted.segment.ranges] == [(0, 0), (1, 2)]
    assert paths(compacted) == paths(plain) == ["c"]


def test_a_damaged_compaction_is_replaced_by_its_commits(log):
    log.create(actions=[add("a")])
    log.commit(1, add("b"))
    log.raw("00000000000000000000.00000000000000000001.compacted.json", b'{"add')
    assert paths(log.load()) == ["a", "b"]


def test_a_log_without_metadata_is_no_table_state(log):
    log.commit(0, Protocol(1, 2))
    with pytest.raises(HeadwaterError) as error:
        log.load()
    assert error.value.condition == "DELTA_STATE_RECOVER_ERROR"


def test_a_field_of_the_wrong_type_names_its_file(log):
    log.create()
    log.raw(commit_name(1), b'{"add":{"path":"x","partitionValues":{},"size":"big","modificationTime":1}}\n')
    with pytest.raises(HeadwaterError) as error:
        log.load()
    assert error.value.condition == "DELTA_INVALID_COMMIT"
    assert error.value.parameters["path"].endswith(commit_name(1))
    assert log.load(0).num_files == 0


def test_a_torn_commit_is_an_error_and_earlier_versions_are_not(log):
    log.create(actions=[add("a")])
    log.raw(commit_name(1), b'{"add":{"path":"x","partitionValues":{},"size":1,"modificationTime":1}}\n{"add":{"pa')
    with pytest.raises(HeadwaterError) as error:
        log.load()
    assert error.value.parameters["place"] == "line 2"
    assert paths(log.load(0)) == ["a"]


def test_unreadable_features_are_refused_at_once(log):
    log.create(protocol=Protocol(3, 7, frozenset(["fromTheFuture"]), frozenset()))
    with pytest.raises(HeadwaterError) as error:
        log.load()
    assert error.value.condition == "DELTA_UNSUPPORTED_FEATURES_FOR_READ"


def test_the_timestamp_is_the_files_or_the_commits_own(log):
    log.create()
    os.utime(log.log / commit_name(0), ns=(0, 5_000_000_000))
    assert log.load().timestamp == 5_000
    log.commit(
        1, CommitInfo({"inCommitTimestamp": 77}), *log.header(configuration={"delta.enableInCommitTimestamps": "true"})
    )
    assert log.load().timestamp == 77
    log.checkpoint(1, *log.header(configuration={"delta.enableInCommitTimestamps": "true"}))
    assert log.load().timestamp == 77


def test_the_newest_commit_info_is_the_snapshots(log):
    log.create(actions=[CommitInfo({"operation": "CREATE"})])
    log.commit(1, CommitInfo({"operation": "WRITE"}))
    assert log.load().commit_info == {"operation": "WRITE"}
    log.compact(0, 1, *log.header())
    assert log.load().commit_info == {"operation": "WRITE"}
    log.checkpoint(2, *log.header())
    for file in log.log.glob("*.json"):
        file.unlink()
    assert log.load().commit_info is None


def test_a_newer_snapshot_is_built_from_the_last(log):
    log.create(actions=[add("a"), add("b")])
    first = log.load()
    assert log.load(base=first) is first
    log.commit(1, remove("a"), add("c"))
    second = log.load(base=first)
    assert paths(second) == ["b", "c"]
    assert paths(first) == ["a", "b"]
    assert second.state.blocks[0].block is first.state.blocks[0].block or len(second.state.blocks) == 1


def test_a_segment_advanced_to_begins_at_the_newest_checkpoint(log, monkeypatch):
    monkeypatch.setattr(LocalStore, "following", lambda store, paths: None)
    log.create(actions=[add("a")])
    base = log.load()
    for version in (1, 2, 3):
        log.commit(version, add(str(version)))
    log.checkpoint(2, *log.header(), add("a"), add("1"), add("2"))
    advanced = log.load(base=base)
    assert paths(advanced) == ["1", "2", "3", "a"]
    assert advanced.segment.checkpoint.version == 2
    assert [(r.first, r.last) for r in advanced.segment.ranges] == [(3, 3)]


def test_statistics_of_unchanged_files_are_parsed_once(log, monkeypatch):
    from headwater.log.statistics import columns as statistics

    log.create(actions=[add(str(i), f'{{"numRecords":{i}}}') for i in range(100)])
    log.checkpoint(0, *log.header(), *(add(str(i), f'{{"numRecords":{i}}}') for i in range(100)))
    first = log.load()
    first.statistics([("id",)])
    parsed = []
    plain = statistics.values_of
    monkeypatch.setattr(
        statistics,
        "values_of",
        lambda texts, wanted: parsed.append(len(texts)) or plain(texts, wanted),  # type: ignore[func-returns-value]
    )
    log.commit(1, remove("5"), add("x", '{"numRecords":1000}'))
    second = log.load(base=first)
    assert second.statistics([("id",)])["num_records"].to_pylist() == [*(i for i in range(100) if i != 5), 1000]
    assert parsed == [1]


def test_another_table_at_the_path_is_noticed(log):
    log.create(actions=[add("a")])
    log.commit(1, add("b"))
    base = log.load()
    shutil.rmtree(log.path)
    log.create(actions=[add("other")])
    for version in (1, 2):
        log.commit(version, add(f"new and longer {version}"))
    assert paths(log.load(base=base)) == ["new and longer 1", "new and longer 2", "other"]


def test_a_base_whose_next_commits_are_cleaned_up_is_not_used(log):
    log.create(actions=[add("a")])
    month_ago = log.load().timestamp / 1000 - 30 * 24 * 3600
    os.utime(log.log / commit_name(0), (month_ago, month_ago))
    base = log.load()
    log.commit(3, add("b"))
    log.checkpoint(3, *log.header(), add("z"))
    assert paths(log.load(base=base)) == ["z"]


def test_an_older_version_is_read_from_the_log_whatever_the_base(log):
    log.create(actions=[add("a")])
    log.commit(1, add("b"))
    base = log.load()
    assert paths(log.load(0, base=base)) == ["a"]
    assert log.load(1, base=base) is base
    with pytest.raises(HeadwaterError) as error:
        log.load(2, base=base)
    assert error.value.condition == "DELTA_VERSION_NOT_FOUND"


def test_many_small_commits_leave_few_blocks(log):
    log.create()
    snapshot = log.load()
    for version in range(1, 60):
        log.commit(
            version,
            add(f"f{version}", f'{{"numRecords":{version}}}'),
            *([remove("f30")] if version == 50 else []),
        )
        snapshot = log.load(base=snapshot)
        snapshot.statistics([])
    assert len(snapshot.state.blocks) <= 7
    assert paths(snapshot) == sorted(f"f{version}" for version in range(1, 60) if version != 30)
    counted = zip(snapshot.files["path"].to_pylist(), snapshot.statistics([])["num_records"].to_pylist(), strict=True)
    assert all(path == f"f{count}" for path, count in counted)


def test_a_table_exists_where_its_log_has_something(log):
    assert not table_exists(log.path, log.store)
    log.raw("_last_checkpoint", b"")
    log.raw("00000000000000000000.crc", b"")
    assert not table_exists(log.path, log.store)
    log.create()
    assert table_exists(log.path, log.store)


class CountingStore(LocalStore):
    def __init__(self):
        self.reads = []

    def read(self, path):
        self.reads.append(path)
        return super().read(path)


def test_the_cache_reads_only_what_is_new(log):
    store, cache = CountingStore(), SnapshotCache()
    log.create(actions=[add("a")])
    first = cache.get(log.path, store)
    assert cache.get(log.path, store) is first
    log.commit(1, add("b"))
    store.reads.clear()
    assert paths(cache.get(log.path, store)) == ["a", "b"]
    assert [path.rpartition("/")[2] for path in store.reads] == [commit_name(1)]
    assert cache.get(log.path, store, 0).version == 0
    assert cache.get(log.path, store).version == 1


def test_the_cache_forgets_the_table_not_used_for_longest(log, tmp_path):
    cache = SnapshotCache(capacity=2)
    log.create()
    copies = []
    for name in "xyz":
        shutil.copytree(log.path, tmp_path / name)
        copies.append(str(tmp_path / name))
    first = cache.get(copies[0], log.store)
    cache.get(copies[1], log.store)
    assert cache.get(copies[0], log.store) is first
    cache.get(copies[2], log.store)
    assert cache.get(copies[0], log.store) is first
    cache.forget(copies[0])
    assert cache.get(copies[0], log.store) is not first


def test_the_cache_takes_what_a_writer_knows(log):
    cache = SnapshotCache()
    log.create()
    old = cache.get(log.path, log.store)
    log.commit(1, add("a"))
    new = log.load()
    cache.put(new)
    assert cache.get(log.path, log.store) is new
    cache.put(replace(old))
    assert cache.get(log.path, log.store) is new


def test_the_cache_serves_threads_while_commits_go_on(log):
    cache = SnapshotCache()
    log.create()
    failures = []
    done = threading.Event()

    def read():
        last = -1
        while not done.is_set():
            snapshot = cache.get(log.path, log.store)
            if snapshot.num_files != snapshot.version or snapshot.version < last:
                failures.append(snapshot.version)
            last = snapshot.version

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for version in range(1, 40):
        log.store.put_if_absent(
            f"{log.path}/_delta_log/{commit_name(version)}", b'{"add":{"path":"%d","size":1}}\n' % version
        )
    done.set()
    for thread in threads:
        thread.join()
    assert not failures
    assert cache.get(log.path, log.store).num_files == 39


_actions = st.lists(
    st.tuples(st.booleans(), st.sampled_from(["a", "b%20c", "d"]), st.integers(0, 2)), min_size=1, max_size=4
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(_actions, min_size=1, max_size=8),
    st.sets(st.integers(0, 7)),
    st.sets(st.integers(0, 7)),
)
def test_any_history_gives_what_a_plain_replay_gives(log, commits, checkpoints, kept):
    """Against a model, a dictionary of the newest reference to each file; with checkpoints, and incrementally."""
    shutil.rmtree(log.path, ignore_errors=True)
    log.create(protocol=DV_PROTOCOL)
    model: dict[tuple[str, int], bool] = {}
    base = log.load()
    for version, actions in enumerate(commits, 1):
        actions = list({(path, number): (is_add, path, number) for is_add, path, number in actions}.values())
        log.commit(
            version,
            *(
                (add if is_add else remove)(path, deletion_vector=vector(number) if number else None)
                for is_add, path, number in actions
            ),
        )
        model |= {(path, number): is_add for is_add, path, number in actions}
        live = sorted(key for key, is_add in model.items() if is_add)
        dead = sorted(key for key, is_add in model.items() if not is_add)
        if version in checkpoints:
            files = [add(path, deletion_vector=vector(number) if number else None) for path, number in live]
            removes = [remove(path, deletion_vector=vector(number) if number else None) for path, number in dead]
            log.checkpoint(version, *log.header(protocol=DV_PROTOCOL), *files, *removes)
        if version in kept:
            base = log.load(base=base)
        for snapshot in (log.load(), log.load(base=base)):
            assert keys(snapshot) == live
            tombstones = snapshot.tombstones().select(["path", "deletion_vector"]).to_pylist()
            assert (
                sorted((t["path"], (t["deletion_vector"] or {"cardinality": 0})["cardinality"]) for t in tombstones)
                == dead
            )


def test_a_version_a_statement_began_with_is_not_read_again(log):
    log.create(actions=[add("a")])
    store, cache = CountingStore(), SnapshotCache()
    first = cache.get(log.path, store)
    log.commit(1, add("b"))
    assert cache.get(log.path, store).version == 1
    assert cache.get(log.path, store, 0) is first


def test_an_earlier_version_of_a_table_made_anew_is_read(log):
    log.create(actions=[add("a")])
    cache = SnapshotCache()
    cache.get(log.path, LocalStore())
    log.commit(1, add("b"))
    cache.get(log.path, LocalStore())
    shutil.rmtree(log.path)
    log.create(actions=[add("another table's file")])
    log.commit(1, add("and one more"))
    assert paths(cache.get(log.path, LocalStore(), 0)) == ["another table's file"]


def test_earlier_versions_go_first_and_the_table_used_last_stays(log):
    log.create(actions=[add(str(i)) for i in range(10)])
    cache = SnapshotCache(most_bytes=40_000)
    first = cache.get(log.path, LocalStore())
    log.commit(1, *(remove(str(i)) for i in range(10)), *(add(f"new {i}") for i in range(10)))
    second = cache.get(log.path, LocalStore())
    assert cache.get(log.path, LocalStore()) is second
    assert cache.get(log.path, LocalStore(), 0) is not first
