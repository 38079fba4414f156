"""ALTER TABLE … DROP FEATURE without Spark: its commits, races, waits and refusals."""

from __future__ import annotations

import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from headwater.basics.errors import HeadwaterError
from headwater.log import deletion_vectors
from headwater.log.checkpoint_writing import write_checkpoint
from headwater.protocol.actions import AddFile, RemoveFile, SetTransaction
from headwater.protocol.features import FEATURES
from headwater.statements.maintenance.file_rewrites import OldTypes
from headwater.statements.tables.feature_traces import REMOVALS
from headwater.stores import LocalStore
from headwater.transaction import wait_for_maintenance
from support.commits import commit, edit_log, later, live, newest
from support.requests import actions, alter_table, called, create_request, create_table, data_file, schema_json

run = called("drop_feature")
ROWS = '{"numRecords":10}'


def drop(path, statement, feature, truncate_history=False):
    arguments = {"feature": feature, "truncateHistory": truncate_history}
    return run({"table": str(path), "name": "t", "arguments": arguments}, statement)


@pytest.fixture
def make(tmp_path, statement):
    def create(schema=None, **properties):
        path = tmp_path / "t"
        given = {f"delta.{key.replace('__', '.')}": value for key, value in properties.items()}
        create_table(create_request(path, schema or schema_json(a="integer"), properties=given), statement)
        return path

    return create


def add(name, **more):
    return AddFile(name, {}, 100, 1, True, ROWS, **more)


def sets(path, statement, key, value):
    change = {"kind": "set_property", "key": key, "value": value}
    return lambda: alter_table({"table": str(path), "name": "t", "changes": [change]}, statement)


def names(path):
    return sorted(newest(path).protocol.writer_features or ())


def operations(path):
    return [actions(path, v, "commitInfo")[0]["operation"] for v in range(newest(path).version + 1)]


def with_vector(path, name="a.parquet", gone=(1,)):
    """A file with a deletion vector in a file of its own; returns that file's name."""
    vector = deletion_vectors.write_file([BitMap64(gone)], str(path), LocalStore())[0]
    commit(path, add(name, deletion_vector=vector))
    return deletion_vectors.absolute_location(vector, str(path)).rpartition("/")[2]


def test_clustering_columns_that_another_writer_chooses_meanwhile_can_be_read(tmp_path, statement, make_statement):
    """They are of a column that is called otherwise in files, as long as the table maps columns."""
    path, columns = tmp_path / "t", schema_json(a="integer", b="integer")
    create_table(create_request(path, columns, partitioning=["cluster_by(a)"]), statement)
    sets(path, statement, "delta.columnMapping.mode", "name")()
    table = {"table": str(path), "name": "t"}
    added = {"kind": "add_column", "path": ["c"], "type": '"integer"', "nullable": True}
    alter_table({**table, "changes": [added]}, statement)
    clustered = {**table, "changes": [{"kind": "cluster_by", "columns": [["c"]]}]}
    statement.before_commits = [lambda: alter_table(clustered, make_statement())]
    with pytest.raises(HeadwaterError, match="DELTA_CONCURRENT_WRITE"):
        drop(path, statement, "columnMapping")
    assert newest(path).clustering_columns == (("c",),)
    drop(path, statement, "columnMapping")
    assert newest(path).clustering_columns == (("c",),)


def test_only_the_last_commit_is_announced(make, statement):
    path = make(feature__vacuumProtocolCheck="supported")
    statement.begun.clear()
    drop(path, statement, "vacuumprotocolcheck")
    assert operations(path)[1:] == ["Empty Commit"] * 3 + ["DROP FEATURE"]
    assert [commit and commit["version"] for commit in statement.begun] == [None, None, None, 4]
    assert statement.inner_commits == 3
    parameters = actions(path, 4, "commitInfo")[0]["operationParameters"]
    assert parameters == {"featureName": "vacuumProtocolCheck", "truncateHistory": "false"}
    assert names(path) == ["appendOnly", "checkpointProtection", "invariants"]


def test_files_with_vectors_are_rewritten_and_their_vectors_kept(make, statement):
    path = make(enableDeletionVectors="true")
    commit(path, add("plain.parquet"))
    vector = with_vector(path)
    all_gone = with_vector(path, "gone.parquet", range(10))
    statement.written = [[data_file("part-00000-new.parquet", 9, [[1, 9, 0]])]]
    drop(path, statement, "deletionVectors")
    assert live(path) == ["part-00000-new.parquet", "plain.parquet"]
    assert [[row[0].rpartition("/")[2] for row in files] for _, _, files in statement.relations] == [
        ["a.parquet", "gone.parquet"]
    ]
    kept = [a for a in actions(path, 6, "remove") if "deletionVector" not in a]
    assert {file["path"] for file in kept} == {vector, all_gone}
    assert {file["dataChange"] for file in kept} == {False}
    assert "delta.enableDeletionVectors" not in newest(path).metadata.configuration
    # Vectors whose data files went long ago are of no use to anyone.
    statement.written = []
    sets(path, statement, "delta.deletedFileRetentionDuration", "0 seconds")()
    sets(path, statement, "delta.feature.deletionVectors", "supported")()
    version = newest(path).version
    old = with_vector(path, "old.parquet", range(10))
    drop(path, statement, "deletionVectors")
    assert operations(path)[version + 2 :] == ["REORG", *["Empty Commit"] * 3, "DROP FEATURE"]
    assert old not in str(actions(path, version + 2, "remove")[0]["path"])


def test_a_lost_row_is_an_error_and_the_files_stay(make, statement):
    path = make(enableDeletionVectors="true")
    with_vector(path)
    statement.written = [[data_file("part-00000-new.parquet", 8, [[1, 9, 0]])]]
    with pytest.raises(HeadwaterError, match="have 9 rows, but 8 were read"):
        drop(path, statement, "deletionVectors")
    assert newest(path).files["path"].to_pylist() == ["a.parquet"]
    assert "deletionVectors" in names(path)


def test_a_writer_that_takes_a_file_away_meanwhile(make, statement):
    path = make(enableDeletionVectors="true")
    with_vector(path)
    with_vector(path, "b.parquet")
    statement.written = [
        [data_file("part-00000-1.parquet", 18, [[1, 9, 0]])],
        [data_file("part-00000-2.parquet", 9, [[1, 9, 0]])],
    ]
    vector = next(file for file in newest(path).files.to_pylist() if file["path"] == "a.parquet")["deletion_vector"]
    gone = RemoveFile("a.parquet", int(time.time() * 1000), True, deletion_vector=_descriptor(vector))
    statement.before_commits = [lambda: None, later(path, gone)]
    drop(path, statement, "deletionVectors")
    assert newest(path).files["path"].to_pylist() == ["part-00000-2.parquet"]
    assert statement.discarded == 1  # what was written for the lost race alone
    assert len(statement.relations) == 2


def test_mapping_that_loses_to_an_append_copies_what_is_new(make, statement):
    path = make(columnMapping__mode="name")
    commit(path, add("a.parquet"), add("b.parquet"))
    statement.written = [
        [data_file(f"part-00000-{name}", rows, [[1, 9, 0]])] for name, rows in (("ab", 20), ("c", 10), ("d", 10))
    ]
    kept = add("b.parquet")
    gone = RemoveFile("a.parquet", int(time.time() * 1000), True)
    statement.before_commits = [later(path, add("c.parquet")), later(path, gone)]
    statement.written.append([data_file("part-00000-b", 10, [[1, 9, 0]])])
    statement.written[2] = statement.written.pop()
    drop(path, statement, "columnMapping")
    copied = [[row[0].rpartition("/")[2] for row in files] for _, _, files in statement.relations]
    assert copied == [["a.parquet", "b.parquet"], ["c.parquet"], [kept.path]]
    assert live(path) == ["part-00000-b", "part-00000-c"]
    assert statement.discarded == 0


def _descriptor(value):
    return deletion_vectors.DeletionVector(
        value["storage_type"], value["path_or_inline"], value["size"], value["cardinality"], value["offset"]
    )


def test_an_append_moves_the_last_commit(make, statement):
    path = make(feature__vacuumProtocolCheck="supported")
    statement.before_commits = [lambda: None] * 3 + [later(path, add("x.parquet"))]
    drop(path, statement, "vacuumProtocolCheck")
    now = newest(path)
    assert operations(path)[4:] == ["WRITE", "DROP FEATURE"]
    assert now.metadata.configuration["delta.requireCheckpointProtectionBeforeVersion"] == str(now.version) == "5"


@pytest.mark.parametrize("rearranges", [True, False])
def test_a_commit_without_rows_moves_the_last_one(make, statement, rearranges):
    path = make(feature__vacuumProtocolCheck="supported")
    files = [AddFile("x.parquet", {}, 100, 1, False, ROWS)] if rearranges else [SetTransaction("app", 1)]
    statement.before_commits = [lambda: None] * 3 + [later(path, *files)]
    drop(path, statement, "vacuumProtocolCheck")
    now = newest(path)
    assert operations(path)[4:] == ["WRITE", "DROP FEATURE"]
    assert now.metadata.configuration["delta.requireCheckpointProtectionBeforeVersion"] == str(now.version) == "5"


def test_vectors_that_a_rearrangement_brings_back(make, statement):
    path = make(feature__deletionVectors="supported")
    vector = deletion_vectors.write_file([BitMap64([1])], str(path), LocalStore())[0]
    again = AddFile("x.parquet", {}, 100, 1, False, ROWS, deletion_vector=vector)
    statement.before_commits = [lambda: None] * 3 + [later(path, again)]
    with pytest.raises(HeadwaterError, match="files have deletion vectors again"):
        drop(path, statement, "deletionVectors")
    assert "deletionVectors" in names(path)


def test_who_uses_the_feature_again_is_named(make, statement, make_statement):
    path = make(enableInCommitTimestamps="true")
    again = sets(path, make_statement(), "delta.enableInCommitTimestamps", "true")
    statement.before_commits = [lambda: None, again]
    with pytest.raises(HeadwaterError, match="in-commit timestamps are switched on again") as raised:
        drop(path, statement, "inCommitTimestamp")
    assert raised.value.condition == "DELTA_FEATURE_DROP_CONFLICT_REVALIDATION_FAIL"
    assert "inCommitTimestamp" in names(path)


def test_two_that_drop_features_at_once(make, statement, make_statement):
    path = make(feature__vacuumProtocolCheck="supported", feature__v2Checkpoint="supported")
    statement.before_commits = [lambda: None] * 3 + [lambda: drop(path, make_statement(), "v2Checkpoint")]
    drop(path, statement, "vacuumProtocolCheck")
    now = newest(path)
    assert names(path) == ["appendOnly", "checkpointProtection", "invariants"]
    assert now.metadata.configuration["delta.requireCheckpointProtectionBeforeVersion"] == str(now.version)
    # The same feature, dropped by another meanwhile, is what was asked for.
    sets(path, statement, "delta.feature.v2Checkpoint", "supported")()
    statement.before_commits = [lambda: None] * 3 + [lambda: drop(path, make_statement(), "v2Checkpoint")]
    drop(path, statement, "v2Checkpoint")
    assert operations(path).count("DROP FEATURE") == 3


def test_a_feature_beside_its_preview(make, statement):
    path = make(**{"feature.typeWidening-preview": "supported", "feature.typeWidening": "supported"})
    widen(path, statement)
    with pytest.raises(HeadwaterError, match="DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT"):
        drop(path, statement, "deletionVectors")
    drop(path, statement, "typeWidening-preview")
    assert "typeWidening" in names(path)
    assert "typeWidening-preview" not in names(path)
    assert "typeChanges" in newest(path).metadata.schema_string  # the other one needs it
    drop(path, statement, "typeWidening")
    assert "typeChanges" not in newest(path).metadata.schema_string


def test_row_ids_go_in_batches(make, make_statement):
    path = make(enableRowTracking="true")
    for number in range(3):
        commit(path, add(f"{number}.parquet"))
    statement = make_statement({"spark.databricks.delta.rowTracking.backfill.maxNumFilesPerCommit": "2"})
    drop(path, statement, "rowTracking")
    assert operations(path)[4:] == ["SET TBLPROPERTIES", *["ROW TRACKING UNBACKFILL"] * 2, "DROP FEATURE"]
    assert actions(path, newest(path).version, "domainMetadata")[0]["removed"] is True
    drop(path, statement, "domainMetadata")
    assert newest(path).protocol.min_writer_version == 2


def test_domains_that_nobody_owns_go_with_their_feature(make, statement):
    from headwater.protocol.actions import DomainMetadata

    path = make(feature__domainMetadata="supported")
    commit(path, DomainMetadata("my.domain", "{}"))
    drop(path, statement, "domainMetadata")
    assert newest(path).domain_metadata == {}
    assert operations(path)[2:] == ["DOMAIN METADATA CLEANUP", "DROP FEATURE"]


class TestHistory:
    def test_waits_for_versions_of_the_retention(self, make, statement, make_statement):
        path = make(
            enableDeletionVectors="true",
            logRetentionDuration="interval 2 days",
            deletedFileRetentionDuration="interval 1 day",
        )
        began = time.time()
        slow = make_statement({"spark.databricks.delta.tableFeatures.fastDropFeature.enabled": "false"})
        for given, truncates, hours in ((slow, False, 48), (statement, True, 24)):
            sets(path, statement, "delta.enableDeletionVectors", "true")()
            with pytest.raises(HeadwaterError) as raised:
                drop(path, given, "deletionVectors", truncates)
            assert raised.value.condition == "DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD"
            until = _seconds(raised.value.parameters["until"])
            day = 0 if truncates else 24  # that retention begins at midnight
            assert began + hours * 3600 - 1 <= until <= time.time() + (hours + day) * 3600 + 1
            assert ("TRUNCATE" in raised.value.text) == truncates
        assert "deletionVectors" in names(path)

    @pytest.mark.parametrize("feature", ["columnMapping", "v2Checkpoint", "typeWidening", "deletionVectors"])
    def test_is_looked_at_commit_by_commit(self, make, statement, feature):
        path = make(feature__deletionVectors="supported", feature__typeWidening="supported")
        version = {
            "columnMapping": lambda: sets(path, statement, "delta.columnMapping.mode", "name")(),
            "v2Checkpoint": lambda: sets(path, statement, "delta.checkpointPolicy", "v2")(),
            "typeWidening": lambda: widen(path, statement),
            "deletionVectors": lambda: with_vector(path, gone=range(10)),
        }
        version[feature]()
        used = newest(path).version
        with pytest.raises(HeadwaterError, match="WAIT_FOR_RETENTION_PERIOD"):
            drop(path, statement, feature, True)
        with pytest.raises(HeadwaterError, match="HISTORICAL_VERSIONS_EXIST") as raised:
            drop(path, statement, feature, True)
        # Before the last trace went, the feature was switched off, or a file with a vector removed, which names it.
        assert int(raised.value.parameters["version"]) == used + (feature in ("deletionVectors", "typeWidening"))
        assert _seconds(raised.value.parameters["until"]) == pytest.approx(time.time() + 24 * 3600, abs=20)
        sets(path, statement, "delta.dropFeatureTruncateHistory.retentionDuration", "0 seconds")()
        drop(path, statement, feature, True)
        wait_for_maintenance(10)
        assert feature not in names(path)
        assert "checkpointProtection" not in names(path)

    def test_a_checkpoint_that_is_left_counts(self, make, statement):
        path = make(checkpointPolicy="v2")
        commit(path, add("a.parquet"))
        write_checkpoint(newest(path))
        sets(path, statement, "delta.checkpointPolicy", "classic")()
        for version in range(2):
            (path / "_delta_log" / f"{version:020d}.json").unlink()
        write_checkpoint(newest(path))
        with pytest.raises(HeadwaterError, match="HISTORICAL_VERSIONS_EXIST") as raised:
            drop(path, statement, "v2Checkpoint", True)
        assert raised.value.parameters["version"] == "1"

    @pytest.mark.parametrize(
        ("policy", "trace"), [("v2", "its newest checkpoint is a V2 checkpoint"), ("classic", None)]
    )
    def test_a_v2_checkpoint_may_have_a_classic_name(self, make, statement, policy, trace):
        path = make(checkpointPolicy=policy, feature__v2Checkpoint="supported")
        write_checkpoint(newest(path))
        (written,) = (path / "_delta_log").glob("*.checkpoint*.parquet")
        written.rename(path / "_delta_log" / f"{0:020d}.checkpoint.parquet")
        sets(path, statement, "delta.checkpointPolicy", "classic")()
        assert REMOVALS["v2Checkpoint"].trace(newest(path)) == trace

    def test_that_never_used_the_feature_is_no_reason_to_wait(self, make, statement):
        path = make(feature__deletionVectors="supported")
        drop(path, statement, "deletionVectors", True)
        assert newest(path).protocol.min_reader_version == 1
        assert operations(path) == ["CREATE TABLE", "Empty Commit", "DROP FEATURE"]


def widen(path, statement):
    change = {"kind": "column_type", "path": ["a"], "type": '"long"'}
    sets(path, statement, "delta.enableTypeWidening", "true")()
    alter_table({"table": str(path), "name": "t", "changes": [change]}, statement)


def field(name, kind=pa.int32, number=None):
    return pa.field(name, kind(), metadata=None if number is None else {"PARQUET:field_id": str(number)})


@pytest.mark.parametrize(
    ("mode", "fields", "is_old"),
    [
        ("none", [field("a")], True),
        ("none", [field("A")], True),
        ("none", [field("A", pa.int64)], False),
        ("none", [field("a", pa.int64), field("A")], True),  # only a reader knows which is meant
        ("none", [field("b")], False),  # older than the column
        ("id", [field("other", number=1)], True),
        ("id", [field("other", pa.int64, 1)], False),
        ("id", [field("other", pa.int64, 1), field("a", number=2)], False),
        ("id", [field("b", number=2)], False),
        ("id", [field("a", pa.int64)], True),
    ],
)
def test_old_types_are_found_as_readers_find_columns(make, statement, mode, fields, is_old):
    path = make(**({"columnMapping__mode": mode} if mode != "none" else {}))
    widen(path, statement)
    rows = pa.table([pa.array([1], each.type) for each in fields], schema=pa.schema(fields))
    pq.write_table(rows, path / "f.parquet")
    commit(path, AddFile("f.parquet", {}, (path / "f.parquet").stat().st_size, 1, True, '{"numRecords":1}'))
    assert OldTypes().files(newest(path)).num_rows == is_old


@pytest.mark.parametrize("lists", [pa.list_, pa.large_list])
@pytest.mark.parametrize("kind", [pa.int32(), pa.int64()], ids=str)
def test_old_types_in_arrays(make, statement, lists, kind):
    array = {"type": "array", "elementType": "integer", "containsNull": True}
    path = make(schema_json(a=array))
    sets(path, statement, "delta.enableTypeWidening", "true")()
    change = {"kind": "column_type", "path": ["a", "element"], "type": '"long"'}
    alter_table({"table": str(path), "name": "t", "changes": [change]}, statement)
    pq.write_table(pa.table({"A": pa.array([[1]], lists(kind))}), path / "f.parquet")
    commit(path, AddFile("f.parquet", {}, (path / "f.parquet").stat().st_size, 1, True, '{"numRecords":1}'))
    assert OldTypes().files(newest(path)).num_rows == (kind == pa.int32())


@pytest.mark.parametrize(
    ("content", "condition"),
    [(None, "DELTA_FILE_NOT_FOUND_DETAILED"), (b"x" * 100, "HEADWATER_DATA_FILE_DAMAGED")],
    ids=["missing", "damaged"],
)
def test_files_whose_types_cannot_be_read_are_named(make, statement, content, condition):
    path = make()
    widen(path, statement)
    commit(path, add("f.parquet"))
    if content is not None:
        (path / "f.parquet").write_bytes(content)
    with pytest.raises(HeadwaterError, match=r"f\.parquet") as raised:
        drop(path, statement, "typeWidening")
    assert raised.value.condition == condition


def _seconds(text):
    from datetime import datetime, timezone

    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S.%f UTC").replace(tzinfo=timezone.utc).timestamp()


def test_a_checkpoint_that_cannot_be_written(make, statement, monkeypatch):
    path = make(feature__vacuumProtocolCheck="supported")
    asked = []

    def full(now):
        asked.append(now.version)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("headwater.statements.tables.drop_feature.write_checkpoint", full)
    with pytest.raises(HeadwaterError, match="No space left") as raised:
        drop(path, statement, "vacuumProtocolCheck")
    assert raised.value.condition == "DELTA_FEATURE_DROP_CHECKPOINT_FAILED"
    assert asked == [1, 1, 1]
    assert "vacuumProtocolCheck" in names(path)


def test_a_checkpoint_that_cannot_be_written_after_the_feature_is_gone(make, statement, monkeypatch, caplog):
    path = make(feature__vacuumProtocolCheck="supported")

    def full_at_last(now):
        if now.version == 4:
            raise OSError(28, "No space left on device")
        write_checkpoint(now)

    monkeypatch.setattr("headwater.statements.tables.drop_feature.write_checkpoint", full_at_last)
    assert drop(path, statement, "vacuumProtocolCheck")["version"] == 4
    assert "No space left" in caplog.text
    assert "vacuumProtocolCheck" not in names(path)


@pytest.mark.parametrize(
    ("feature", "condition"),
    [
        ("catalogManaged", "DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT"),
        ("clustering", "DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE"),
        ("domainMetadata", "DELTA_FEATURE_DROP_DEPENDENT_FEATURE"),
        ("nonsense", "DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE"),
        ("delta.appendOnly", "DELTA_FEATURE_DROP_FEATURE_IS_DELTA_PROPERTY"),
    ],
)
def test_what_is_refused(make, statement, feature, condition):
    path = make()
    named = ["appendOnly", "clustering", "domainMetadata", "invariants"]
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": named}
    edit_log(path, lambda line: line.update(protocol=protocol) if "protocol" in line else None)
    with pytest.raises(HeadwaterError) as raised:
        drop(path, statement, feature)
    assert raised.value.condition == condition
    assert "Did you mean" not in raised.value.text
    assert operations(path) == ["CREATE TABLE"]


def test_features_that_need_more_than_there_is(make, statement, tmp_path):
    path = make()
    named = ["catalogManaged", "inCommitTimestamp", "vacuumProtocolCheck", "myFeature"]
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": named}
    edit_log(path, lambda line: line.update(protocol=protocol) if "protocol" in line else None)
    for feature, condition in {
        "catalogManaged": "DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE",
        "myfeature": "DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE",
        "vacuumProtocolCheck": "DELTA_FEATURE_DROP_DEPENDENT_FEATURE",
    }.items():
        with pytest.raises(HeadwaterError) as raised:
            drop(path, statement, feature)
        assert raised.value.condition == condition, feature


@pytest.mark.parametrize("name", sorted(REMOVALS))
def test_nothing_is_left_of_what_a_feature_declares_as_its_own(make, statement, name):
    """Whatever the feature: a new one is covered by its declaration."""
    feature = FEATURES[name]
    asked = {switch.name: "true" for switch in feature.switches}
    asked |= {known.name: values[0] for known, values in feature.choices}
    asked |= {f"delta.feature.{name}": "supported"}
    path = make(**{key.removeprefix("delta.").replace(".", "__"): value for key, value in asked.items()})
    drop(path, statement, name, truncate_history=name == "checkpointProtection")
    left = newest(path)
    assert not feature.is_left_in(left.metadata)
    assert not [known.name for known in feature.own_properties if left.definition.sets(known)]
    assert not left.domain_metadata.keys() & set(feature.own_domains)
    assert name not in left.definition.features


def test_shapes(make, statement):
    path = make(schema_json(a="integer", s="geometry(OGC:CRS84)"))
    with pytest.raises(HeadwaterError) as raised:
        drop(path, statement, "geospatial")
    assert (raised.value.condition, raised.value.parameters["column"]) == ("HEADWATER_FEATURE_IN_USE", "s")


def test_shapes_that_are_gone(make, statement):
    path = make(feature__geospatial="supported")
    drop(path, statement, "geospatial")
    assert "geospatial" not in (newest(path).protocol.reader_features or ())
