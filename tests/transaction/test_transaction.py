import json
import logging
import os
from dataclasses import replace

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.log.snapshot import load_snapshot
from headwater.log.snapshot_cache import SnapshotCache
from headwater.protocol.actions import AddCDCFile, CommitInfo, DomainMetadata, Protocol
from headwater.protocol.clustering import clustering_domain
from headwater.stores import LocalStore
from headwater.transaction import Provenance, Transaction, maintenance, wait_for_maintenance
from support.commits import add_file, append, create, metadata, remove_file
from support.predicate_text import parse_predicate

ICT = {"delta_enableInCommitTimestamps": "true"}
ICT_PROTOCOL = Protocol(1, 7, None, frozenset({"inCommitTimestamp", "domainMetadata", "appendOnly"}))


@pytest.fixture
def path(tmp_path):
    yield str(tmp_path / "t")
    wait_for_maintenance()


def lines(path, version):
    with open(f"{path}/_delta_log/{version:020d}.json", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def info(path, version):
    return lines(path, version)[0]["commitInfo"]


def read_where(txn, *predicates):
    txn.read_where([parse_predicate(text) for text in predicates])


def delete(snapshot, predicates, *files, **options):
    txn = Transaction(snapshot.table_path, snapshot.store, snapshot, **options)
    read_where(txn, *predicates)
    txn.remove(files)
    return txn


def test_a_table_is_created_and_appended_to(path):
    cache = SnapshotCache()
    created = create(path, cache=cache)
    assert (created.version, created.snapshot.num_files) == (0, 0)
    committed = append(created.snapshot, "a", "b")
    assert (committed.version, committed.snapshot.num_files) == (1, 2)
    assert committed.timestamp == committed.snapshot.timestamp
    assert cache.get(path, LocalStore()).version == 1
    assert load_snapshot(path, LocalStore()).files.column("path").to_pylist() == ["a", "b"]


def test_actions_are_in_the_order_of_the_log(path):
    txn = Transaction(path, LocalStore(), create(path, protocol=ICT_PROTOCOL).snapshot)
    txn.add([add_file("a")])
    txn.remove([remove_file("z")])
    txn.add_action(AddCDCFile("_change_data/c", {}, 1))
    txn.add_action(DomainMetadata("mine", "{}"))
    txn.set_transaction("app", 3)
    txn.update_metadata(metadata(delta_x="1"))
    txn.update_protocol(
        replace(ICT_PROTOCOL, writer_features=(ICT_PROTOCOL.writer_features or frozenset()) | {"deletionVectors"})
    )
    txn.commit(Provenance("X"))
    kinds = [kind for line in lines(path, 1) for kind in line]
    assert kinds == ["commitInfo", "protocol", "metaData", "txn", "domainMetadata", "remove", "add", "cdc"]


def test_provenance_is_spelled_as_text(path):
    txn = Transaction(path, LocalStore(), create(path).snapshot)
    txn.read_whole_table()
    txn.add([add_file("a")])
    parameters = {
        "mode": "Append",
        "partitionBy": ["a", "b"],
        "predicate": {"x": "é"},
        "auto": True,
        "n": 1,
        "no": None,
    }
    txn.commit(
        Provenance(
            "WRITE", parameters, {"numFiles": 1, "t": "2"}, user_metadata="u", tags={"k": "v"}, engine_info="E/1"
        )
    )
    found = info(path, 1)
    assert found.pop("timestamp") > 1_600_000_000_000
    assert found == {
        "operation": "WRITE",
        "operationParameters": {
            "mode": "Append", "partitionBy": '["a","b"]', "predicate": '{"x":"é"}', "auto": "true", "n": "1",
        },
        "readVersion": 0,
        "isolationLevel": "WriteSerializable",
        "isBlindAppend": False,
        "operationMetrics": {"numFiles": "1", "t": "2"},
        "userMetadata": "u",
        "tags": {"k": "v"},
        "engineInfo": "E/1",
        "txnId": txn.id,
    }  # fmt: skip
    assert "readVersion" not in info(path, 0)


def test_isolation_levels(path):
    snapshot = append(create(path).snapshot, "a").snapshot
    txn = Transaction(path, LocalStore(), snapshot)
    txn.remove([remove_file("a", data_change=False)])
    txn.add([add_file("b", data_change=False)])
    txn.commit(Provenance("OPTIMIZE"))
    assert info(path, 2)["isolationLevel"] == "SnapshotIsolation"
    assert info(path, 1)["isBlindAppend"] is True
    assert info(path, 2)["isBlindAppend"] is False


def test_appends_of_the_same_snapshot_all_succeed(path):
    snapshot = create(path).snapshot
    versions = [append(snapshot, name).version for name in "abc"]
    assert versions == [1, 2, 3]
    assert load_snapshot(path, LocalStore()).num_files == 3


def test_predicates_are_judged_by_the_winners_statistics(path):
    snapshot = append(create(path, delta_isolationLevel="Serializable").snapshot, "a").snapshot
    txn = Transaction(path, LocalStore(), snapshot)
    txn.add([add_file("far", 100, 200)])
    txn.commit(Provenance("WRITE"))
    assert delete(snapshot, ["id = 5"], remove_file("a")).commit(Provenance("DELETE")).version == 3
    with pytest.raises(HeadwaterError, match="DELTA_CONCURRENT_APPEND"):
        delete(snapshot, ["id = 150"]).commit(Provenance("DELETE"))


def test_files_that_were_not_read_may_go(path):
    snapshot = append(create(path).snapshot, "a").snapshot
    txn = Transaction(path, LocalStore(), snapshot)
    txn.add([add_file("far", 100, 200)])
    snapshot = txn.commit(Provenance("WRITE")).snapshot
    delete(snapshot, ["id = 150"], remove_file("far")).commit(Provenance("DELETE"))
    assert delete(snapshot, ["id = 5"], remove_file("a")).commit(Provenance("DELETE")).version == 4
    with pytest.raises(HeadwaterError, match="DELTA_CONCURRENT_DELETE_READ"):
        delete(snapshot, ["id > 90"]).commit(Provenance("DELETE"))
    with pytest.raises(HeadwaterError, match="DELTA_CONCURRENT_DELETE_READ.*far"):
        delete(snapshot, []).commit(Provenance("DELETE"))


def compact(snapshot, old, new, bounds):
    txn = Transaction(snapshot.table_path, snapshot.store, snapshot)
    txn.remove([remove_file(old, data_change=False)])
    txn.add([add_file(new, *bounds, data_change=False)])
    return txn.commit(Provenance("OPTIMIZE")).snapshot


@pytest.mark.parametrize("compactions", [0, 1, 2])
@pytest.mark.parametrize("predicate", ["id = 5", "id > 90", "id = 150"])
def test_files_that_were_read_are_known_where_compactions_put_their_rows(path, compactions, predicate):
    read = append(create(path).snapshot, "a").snapshot
    other = Transaction(path, LocalStore(), read)
    other.add([add_file("far", 100, 200)])
    snapshot = read = other.commit(Provenance("WRITE")).snapshot
    for number in range(compactions):
        snapshot = compact(snapshot, "far" if number == 0 else f"far{number}", f"far{number + 1}", (100, 200))
    delete(snapshot, ["id = 170"], remove_file(f"far{compactions or ''}")).commit(Provenance("DELETE"))
    txn = delete(read, [predicate])
    txn.add([add_file("new", 300, 400)])
    if predicate == "id = 5":
        assert txn.commit(Provenance("DELETE")).version == 4 + compactions
    else:
        with pytest.raises(HeadwaterError, match="DELTA_CONCURRENT_DELETE_READ"):
            txn.commit(Provenance("DELETE"))


def test_each_read_counts(path):
    """Two reads are an either-or, the predicates of one an as-well-as."""
    snapshot = append(create(path, delta_isolationLevel="Serializable").snapshot, "a").snapshot
    append(snapshot, "b")
    txn = delete(snapshot, ["id = 500"])
    read_where(txn, "id > 30", "id < 40")
    assert txn.commit(Provenance("DELETE")).version == 3
    txn = delete(snapshot, ["id = 500"])
    read_where(txn, "id > 3", "id < 5")
    with pytest.raises(HeadwaterError, match="DELTA_CONCURRENT_APPEND"):
        txn.commit(Provenance("DELETE"))


def test_a_lost_race_leaves_no_trace(path):
    snapshot = append(create(path).snapshot, "a").snapshot
    delete(snapshot, ["id = 5"], remove_file("a")).commit(Provenance("DELETE"))
    before = sorted(name for name in os.listdir(f"{path}/_delta_log") if name.endswith(".json"))
    with pytest.raises(HeadwaterError, match="version 2 .DELETE"):
        delete(snapshot, ["id = 5"], remove_file("a")).commit(Provenance("DELETE"))
    assert sorted(name for name in os.listdir(f"{path}/_delta_log") if name.endswith(".json")) == before


def test_metadata_as_it_will_be(path):
    txn = Transaction(path, LocalStore(), None)
    for unknown in ("metadata", "protocol"):
        with pytest.raises(HeadwaterError) as missing:
            getattr(txn, unknown)
        assert missing.value.condition == "DELTA_TABLE_WITHOUT_METADATA"
    txn.update_metadata(metadata())
    assert txn.metadata == metadata()
    snapshot = create(path).snapshot
    txn = Transaction(path, LocalStore(), snapshot)
    txn.update_metadata(snapshot.metadata)
    assert not txn.has_changes
    txn.update_metadata(metadata(delta_x="1"))
    assert txn.has_changes
    assert txn.metadata.configuration == {"delta.x": "1"}


def test_new_tables_need_protocol_and_metadata(path):
    txn = Transaction(path, LocalStore(), None)
    txn.update_protocol(Protocol(1, 2))
    with pytest.raises(HeadwaterError, match="metadata is missing"):
        txn.commit(Provenance("CREATE TABLE"))
    assert not os.path.exists(path)


def test_only_one_creates_a_table(path):
    create(path)
    with pytest.raises(HeadwaterError, match="DELTA_CONCURRENT_WRITE.*CREATE TABLE"):
        create(path)


def test_a_table_whose_first_version_was_cleaned_up_is_not_created_anew(path):
    append(create(path).snapshot, "a")
    os.remove(f"{path}/_delta_log/{0:020d}.json")
    with pytest.raises(HeadwaterError, match="DELTA_CONCURRENT_WRITE"):
        create(path)


def test_append_only_tables_keep_their_rows(path):
    snapshot = append(create(path, delta_appendOnly="true").snapshot, "a").snapshot
    with pytest.raises(HeadwaterError, match="DELTA_CANNOT_MODIFY_APPEND_ONLY"):
        delete(snapshot, [], remove_file("a")).commit(Provenance("DELETE"))
    txn = Transaction(path, LocalStore(), snapshot)
    txn.remove([remove_file("a", data_change=False)])
    txn.add([add_file("b", data_change=False)])
    assert txn.commit(Provenance("OPTIMIZE")).version == 2


def test_what_cannot_be_committed_is_refused_before_it_is_tried(path):
    snapshot = create(path).snapshot
    cases = {
        "DELTA_DUPLICATE_ACTIONS_FOUND": lambda txn: txn.add([add_file("a%20b"), add_file("a b")]),
        "DELTA_DOMAIN_METADATA_NOT_SUPPORTED": lambda txn: txn.add_action(DomainMetadata("d", "{}")),
        "HEADWATER_PARTITION_VALUES_MISMATCH": lambda txn: txn.add([add_file("a", day="x")]),
        "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE": lambda txn: txn.update_protocol(
            Protocol(1, 7, None, frozenset({"magic"}))
        ),
    }
    for condition, prepare in cases.items():
        txn = Transaction(path, LocalStore(), snapshot)
        prepare(txn)
        with pytest.raises(HeadwaterError, match=condition):
            txn.commit(Provenance("WRITE"))
    assert load_snapshot(path, LocalStore()).version == 0
    with pytest.raises(ValueError, match="commitInfo"):
        txn.add_action(CommitInfo({}))


def test_an_application_writes_once(path):
    snapshot = create(path).snapshot

    def write(version):
        txn = Transaction(path, LocalStore(), snapshot)
        txn.set_transaction("stream", version)
        txn.add([add_file(f"f{version}")])
        return txn.commit(Provenance("STREAMING UPDATE"))

    committed = write(1)
    assert Transaction(path, LocalStore(), committed.snapshot).transaction_version("stream") == 1
    with pytest.raises(HeadwaterError, match="DELTA_CONCURRENT_TRANSACTION.*stream"):
        write(2)
    txn = Transaction(path, LocalStore(), snapshot)
    assert txn.transaction_version("stream") is None
    txn.add([add_file("g")])
    with pytest.raises(HeadwaterError, match="DELTA_CONCURRENT_TRANSACTION"):
        txn.commit(Provenance("WRITE"))


def test_in_commit_timestamps_only_grow(path, monkeypatch):
    clock = iter([5_000, 1_000, 2_000, 3_000, 9_000, 9_000])
    monkeypatch.setattr("headwater.transaction.commit_loop._now", lambda: next(clock))
    snapshot = create(path, protocol=ICT_PROTOCOL, **ICT).snapshot
    assert append(snapshot, "a").timestamp == 5_001
    assert append(snapshot, "b").timestamp == 5_002  # first 5001, then after the winner
    assert append(snapshot, "c").version == 3
    assert [info(path, v)["inCommitTimestamp"] for v in range(4)] == [5_000, 5_001, 5_002, 9_000]
    assert "delta.inCommitTimestampEnablementVersion" not in snapshot.metadata.configuration


def test_in_commit_timestamps_enabled_later_say_since_when(path):
    snapshot = create(path, protocol=ICT_PROTOCOL).snapshot
    append(snapshot, "a")
    future = snapshot.timestamp + 100_000_000
    os.utime(f"{path}/_delta_log/{1:020d}.json", (future / 1000, future / 1000))
    txn = Transaction(path, LocalStore(), snapshot)
    txn.update_metadata(metadata(**ICT))
    committed = txn.commit(Provenance("SET TBLPROPERTIES"))
    configuration = committed.snapshot.metadata.configuration
    assert committed.timestamp > future - 1
    assert configuration["delta.inCommitTimestampEnablementVersion"] == "2"
    assert configuration["delta.inCommitTimestampEnablementTimestamp"] == str(committed.timestamp)
    assert append(committed.snapshot, "b").snapshot.metadata.configuration == configuration


def test_the_definition_to_be_is_one_value_until_it_changes(path):
    """Else what a statement asks it would be parsed and worked out at each ask."""
    txn = Transaction(path, LocalStore(), create(path).snapshot)
    known = [txn.definition]
    for number in range(2):
        txn.update_metadata(metadata(user_number=str(number)))
        known.append(txn.definition)
        assert known[-1].metadata.configuration["user.number"] == str(number)
    txn.update_protocol(Protocol(1, 3))
    known.append(txn.definition)
    assert known[-1].protocol == Protocol(1, 3)
    txn.add_action(clustering_domain([("id",)]))
    known.append(txn.definition)
    assert known[-1].clustering_columns == (("id",),)
    txn.add([add_file("a")])
    assert txn.definition is known[-1]
    assert len(set(map(id, known))) == 5


class ReadsCounted(LocalStore):
    """A local store that notes which commits are read."""

    def __init__(self):
        self.commits: list[int] = []

    def read(self, path):
        if path.endswith(".json"):
            self.commits.append(int(path[-25:-5]))
        return super().read(path)

    def read_many(self, paths):
        return [self.read(path) for path in paths]


@pytest.mark.parametrize("rows", [{}, {"delta_enableRowTracking": "true"}], ids=["plain", "row ids"])
@pytest.mark.parametrize("lost", range(4))
def test_no_commit_is_read_twice_to_know_what_a_commit_made(path, rows, lost):
    """Its own not at all, as its bytes were read before they were put; that of a winner once, for the check, and the
    first one's to see that it is not its own.
    """
    features = frozenset({"rowTracking", "domainMetadata", "appendOnly"})
    protocol = Protocol(3, 7, frozenset(), features) if rows else None
    snapshot = append(create(path, protocol=protocol).snapshot, "a").snapshot
    for number in range(lost):
        append(load_snapshot(path, LocalStore()), f"winner-{number}", f"other-{number}")
    store = ReadsCounted()
    txn = Transaction(path, store, snapshot)
    txn.add([add_file("mine")])
    txn.remove([remove_file("a")])
    txn.add_action(AddCDCFile("cdc", {}, 10))
    committed = txn.commit(Provenance("WRITE"))
    found, fresh = committed.snapshot, load_snapshot(path, LocalStore())
    assert found.version == fresh.version == lost + 2
    assert found.files.to_pylist() == fresh.files.to_pylist()
    assert found.commit_info == fresh.commit_info
    assert found.domain_metadata == fresh.domain_metadata
    assert found.tombstones().to_pylist() == fresh.tombstones().to_pylist()
    assert sorted(store.commits) == sorted([2][:lost] + list(range(2, lost + 2)))


def test_each_attempt_is_announced(path):
    snapshot = create(path).snapshot
    append(snapshot, "a")
    seen = []
    append(snapshot, "b", on_begin=lambda version, txn_id: seen.append((version, txn_id)))
    assert [version for version, _ in seen] == [1, 2]
    assert {txn_id for _, txn_id in seen} == {info(path, 2)["txnId"]}

    def refuse(version, txn_id):
        raise KeyError("cancelled")

    with pytest.raises(KeyError):
        append(snapshot, "c", on_begin=refuse)
    assert load_snapshot(path, LocalStore()).version == 2


def test_a_checkpoint_is_followed_by_a_cleanup(path):
    """Versions that were the newest a month ago go; what is younger stays."""
    snapshot = create(path, delta_checkpointInterval="2", delta_logRetentionDuration="interval 10 days").snapshot
    for version in range(1, 6):
        snapshot = append(snapshot, f"f{version}").snapshot
        wait_for_maintenance()
    old = snapshot.timestamp / 1000 - 30 * 24 * 3600
    for version in range(6):
        os.utime(f"{path}/_delta_log/{version:020d}.json", (old + version, old + version))
    snapshot = append(load_snapshot(path, LocalStore()), "f6").snapshot
    maintenance._cleaned.clear()  # as on another day
    append(append(snapshot, "f7").snapshot, "f8")
    wait_for_maintenance()
    names = os.listdir(f"{path}/_delta_log")
    assert sorted({int(name[:20]) for name in names if name[0] != "_"}) == [4, 5, 6, 7, 8]
    assert load_snapshot(path, LocalStore(), 5).num_files == 5
    assert load_snapshot(path, LocalStore()).num_files == 8


def test_retries_are_bounded(path):
    snapshot = create(path).snapshot
    txn = Transaction(path, LocalStore(), snapshot, max_attempts=3)
    txn.add([add_file("mine")])
    with pytest.raises(HeadwaterError, match="DELTA_MAX_COMMIT_RETRIES_EXCEEDED.*lost 3 races") as raised:
        txn.commit(Provenance("WRITE"), on_begin=lambda version, _: append(snapshot, f"winner-{version}"))
    assert "from version 1 to 4" in str(raised.value)
    assert "the last to version 3 (WRITE, 20" in str(raised.value)
    assert load_snapshot(path, LocalStore()).version == 3


def test_deltalake_reads_what_is_committed(path):
    deltalake = pytest.importorskip("deltalake")
    snapshot = append(create(path, partitioned=False).snapshot, "a", "b").snapshot
    delete(snapshot, ["id = 1"], remove_file("a")).commit(
        Provenance("DELETE", {"predicate": '["id = 1"]'}, {"numDeletedRows": 1})
    )
    table = deltalake.DeltaTable(path)
    assert table.version() == 2
    assert [uri.rpartition("/")[2] for uri in table.file_uris()] == ["b"]
    newest = table.history(1)[0]
    assert (newest["operation"], newest["operationParameters"]) == ("DELETE", {"predicate": '["id = 1"]'})


def test_a_commit_is_one_line_of_the_log(path, caplog):
    snapshot = create(path).snapshot
    with caplog.at_level(logging.INFO, logger="headwater.transaction.transaction"):
        Transaction(str(path), LocalStore(), snapshot)  # begins nothing, says nothing
        append(snapshot, "a", "b")
    said = [record.getMessage() for record in caplog.records if record.name == "headwater.transaction.transaction"]
    assert len(said) == 1
    assert said[0].startswith(f"{path}: version 1 committed by ")
    assert "2 files with" in said[0]
    assert "0 files with 0 rows removed" in said[0]
    assert said[0].endswith("attempts: 1")
