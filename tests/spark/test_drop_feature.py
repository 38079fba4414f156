"""ALTER TABLE … DROP FEATURE: rows stay, traces go, the protocol is what is left, and errors say what to do."""

from __future__ import annotations

import threading
import time

import pyarrow.parquet as pq
import pytest

from headwater.log.snapshot import load_snapshot
from headwater.stores import LocalStore
from headwater.tables import DeltaTable
from support.requests import actions


@pytest.fixture
def make(spark, tmp_path):
    """``make(columns, ending)`` creates a table of that name and returns its path."""

    def create(columns="id INT, v STRING", ending="", **properties):
        path = tmp_path / "t"
        pairs = ", ".join(f"'delta.{key.replace('__', '.')}' = '{value}'" for key, value in properties.items())
        spark.sql(f"CREATE TABLE t ({columns}) USING delta {ending} LOCATION '{path}' TBLPROPERTIES ({pairs})")
        return path

    return create


def snapshot(path):
    return load_snapshot(str(path), LocalStore())


def operations(rows):
    return [row[4] for row in reversed(rows("DESCRIBE HISTORY t"))]


def features(path):
    protocol = snapshot(path).protocol
    return (
        protocol.min_reader_version,
        protocol.min_writer_version,
        *(sorted(names or ()) for names in (protocol.reader_features, protocol.writer_features)),
    )


def test_deletion_vectors(spark, rows, database, make):
    path = make("id INT, v STRING, p INT", "PARTITIONED BY (p)", enableDeletionVectors="true")
    spark.sql("INSERT INTO t SELECT id, 'x', id % 2 FROM range(0, 100, 1, 1)")
    spark.sql("DELETE FROM t WHERE id % 10 = 3")
    before = rows("SELECT * FROM t ORDER BY id")
    spark.sql("ALTER TABLE t DROP FEATURE DeletionVectors")
    assert rows("SELECT * FROM t ORDER BY id") == before
    assert len(before) == 90
    assert operations(rows)[3:] == [
        "UNSET TBLPROPERTIES",
        "REORG",
        "Deletion Vector Tombstones",
        *["Empty Commit"] * 3,
        "DROP FEATURE",
    ]
    assert features(path) == (1, 7, [], ["appendOnly", "checkpointProtection", "invariants"])
    now = snapshot(path)
    assert now.metadata.configuration == {"delta.requireCheckpointProtectionBeforeVersion": "9"}
    assert not now.has_deletion_vectors
    # Only the file that had a vector was written again, and the vector's file has a tombstone of its own.
    rewritten = actions(path, 4, "remove")
    assert len(rewritten) == 1
    assert rewritten[0]["deletionVector"]
    assert [file["dataChange"] for file in (*rewritten, *actions(path, 4, "add"))] == [False, False]
    vector = next(path.glob("deletion_vector_*.bin"))
    assert [file["path"] for file in actions(path, 5, "remove")] == [vector.name]
    checkpoints = sorted(int(file.name[:20]) for file in (path / "_delta_log").glob("*.checkpoint.parquet"))
    assert checkpoints == [6, 7, 8, 9]
    assert len(rows("SELECT * FROM t VERSION AS OF 2")) == 90
    assert len(rows("SELECT * FROM t VERSION AS OF 1")) == 100
    # It may come back; and then nothing is protected twice.
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql("DELETE FROM t")
    spark.sql("ALTER TABLE t DROP FEATURE 'deletionVectors'")
    assert rows("SELECT * FROM t") == []
    protected = snapshot(path).metadata.configuration["delta.requireCheckpointProtectionBeforeVersion"]
    assert int(protected) == snapshot(path).version


def test_column_mapping(spark, rows, database, make, fails):
    path = make(
        "id INT, s STRUCT<a: INT, b: ARRAY<STRUCT<c: INT>>>, p STRING",
        "PARTITIONED BY (p)",
        columnMapping__mode="name",
        enableRowTracking="true",
        enableChangeDataFeed="true",
    )
    spark.sql("INSERT INTO t VALUES (1, named_struct('a', 2, 'b', array(named_struct('c', 3))), 'x'), (2, NULL, NULL)")
    spark.sql("ALTER TABLE t RENAME COLUMN id TO `the id`")
    spark.sql("ALTER TABLE t RENAME COLUMN p TO part")
    spark.sql("ALTER TABLE t RENAME COLUMN s.b TO list")
    with fails("DELTA_INVALID_COLUMN_NAMES_WHEN_REMOVING_COLUMN_MAPPING", "`the id`"):
        spark.sql("ALTER TABLE t DROP FEATURE columnMapping")
    spark.sql("ALTER TABLE t RENAME COLUMN `the id` TO key")
    spark.sql("ALTER TABLE t ADD COLUMN late INT")
    spark.sql("UPDATE t SET late = 5 WHERE key = 1")
    shown = "SELECT *, _metadata.row_id, _metadata.row_commit_version FROM t ORDER BY key"
    before = rows(shown)
    spark.sql("ALTER TABLE t DROP FEATURE columnMapping")
    assert rows(shown) == before
    files = snapshot(path).files.to_pylist()
    stored = pq.read_schema(path / files[0]["path"])
    assert [name for name in stored.names if not name.startswith("_")] == ["key", "s", "late"]
    assert {key for file in files for key, _ in file["partition_values"]} == {"part"}
    assert "delta.columnMapping" not in snapshot(path).metadata.schema_string
    assert "columnMapping" not in features(path)[3]
    with fails("DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE", "column mapping was removed"):
        spark.sql("SELECT * FROM table_changes('t', 6)").collect()
    spark.sql("INSERT INTO t VALUES (3, NULL, 'z', 1)")
    assert "requireCheckpointProtection" not in rows("SHOW CREATE TABLE t")[0][0]
    assert rows("SELECT key, part FROM t WHERE part = 'z' OR key = 1 ORDER BY key") == [(1, "x"), (3, "z")]


@pytest.mark.parametrize("columns", ["id INT, clustered INT"])
def test_column_mapping_of_a_clustered_table(spark, rows, database, make, columns):
    path = make(columns, "CLUSTER BY (clustered)", columnMapping__mode="id")
    spark.sql("INSERT INTO t VALUES (1, 2)")
    spark.sql("ALTER TABLE t RENAME COLUMN clustered TO c")
    spark.sql("ALTER TABLE t DROP FEATURE columnMapping")
    assert '[["c"]]' in snapshot(path).domain_metadata["delta.clustering"].configuration
    assert rows("SELECT c FROM t") == [(2,)]


def test_type_widening(spark, rows, database, make):
    path = make(
        "a SMALLINT, b ARRAY<INT>, m MAP<STRING, DECIMAL(5, 2)>, p INT", "PARTITIONED BY (p)", enableTypeWidening="true"
    )
    values = "(1, array(2), map('k', 3.5), 4)"
    spark.sql(f"INSERT INTO t VALUES {values}")
    spark.sql("ALTER TABLE t ALTER COLUMN a TYPE INT, b.element TYPE BIGINT, p TYPE BIGINT")
    spark.sql(f"INSERT INTO t VALUES {values}")
    spark.sql("ALTER TABLE t ALTER COLUMN m.value TYPE DECIMAL(7, 2)")
    spark.sql(f"INSERT INTO t VALUES {values}")
    newest = actions(path, snapshot(path).version, "add")[0]["path"]
    before = rows("SELECT * FROM t")
    spark.sql("ALTER TABLE t DROP FEATURE typeWidening")
    assert rows("SELECT * FROM t") == before
    kept = [file["path"] for file in snapshot(path).files.to_pylist()]
    assert newest in kept  # its footer has the types of today
    for file in kept:
        stored = pq.read_schema(path / file)
        assert [str(stored.field("a").type), str(stored.field("b").type.value_type)] == ["int32", "int64"]
        assert str(stored.field("m").type.item_type) == "decimal128(7, 2)"
    assert "typeChanges" not in snapshot(path).metadata.schema_string
    assert features(path) == (1, 7, [], ["appendOnly", "checkpointProtection", "invariants"])


def test_row_tracking_and_its_domain(spark, rows, database, make, fails):
    path = make(enableRowTracking="true")
    spark.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    spark.sql("UPDATE t SET v = 'c' WHERE id = 1")
    with fails("DELTA_FEATURE_DROP_DEPENDENT_FEATURE", "domainMetadata", "rowTracking"):
        spark.sql("ALTER TABLE t DROP FEATURE domainMetadata")
    with fails("DELTA_FEATURE_DROP_HISTORY_TRUNCATION_NOT_ALLOWED", "rowTracking"):
        spark.sql("ALTER TABLE t DROP FEATURE rowTracking TRUNCATE HISTORY")
    spark.sql("ALTER TABLE t DROP FEATURE rowTracking")
    now = snapshot(path)
    assert (now.metadata.configuration, now.domain_metadata) == ({}, {})
    assert {file["base_row_id"] for file in now.files.to_pylist()} == {None}
    assert features(path) == (1, 7, [], ["appendOnly", "domainMetadata", "invariants"])
    spark.sql("INSERT INTO t VALUES (3, 'd')")
    assert "baseRowId" not in actions(path, snapshot(path).version, "add")[0]
    DeltaTable.forName(spark, "t").dropFeatureSupport("domainMetadata")
    assert features(path) == (1, 2, [], [])
    assert rows("SELECT * FROM t ORDER BY id") == [(1, "c"), (2, "b"), (3, "d")]


def test_v2_checkpoints(spark, rows, database, make):
    path = make(checkpointPolicy="v2", checkpointInterval="2")
    for number in range(4):
        spark.sql(f"INSERT INTO t VALUES ({number}, 'a')")
    spark.sql("ALTER TABLE t DROP FEATURE v2Checkpoint")
    assert snapshot(path).metadata.configuration["delta.checkpointPolicy"] == "classic"
    assert features(path) == (1, 7, [], ["appendOnly", "checkpointProtection", "invariants"])
    for file in (path / "_delta_log").glob("*.crc"):
        file.unlink()
    assert snapshot(path).segment.checkpoint.files[0].name.endswith(".checkpoint.parquet")
    assert len(rows("SELECT * FROM t")) == 4


def test_features_of_writers_alone(spark, rows, database, make, fails):
    path = make(enableInCommitTimestamps="true", enableChangeDataFeed="true")
    spark.sql("ALTER TABLE t ADD CONSTRAINT few CHECK (id < 9)")
    spark.sql("INSERT INTO t VALUES (1, 'a')")
    spark.sql("ALTER TABLE t DROP FEATURE inCommitTimestamp")
    assert snapshot(path).metadata.configuration["delta.enableInCommitTimestamps"] == "false"
    with fails("DELTA_CANNOT_DROP_CHECK_CONSTRAINT_FEATURE", "few"):
        spark.sql("ALTER TABLE t DROP FEATURE checkConstraints")
    spark.sql("ALTER TABLE t DROP CONSTRAINT few")
    version = snapshot(path).version
    # In scripts, with parameters, and by path.
    spark.sql("ALTER TABLE identifier(:t) DROP FEATURE checkConstraints", args={"t": f"delta.`{path}`"})
    assert features(path) == (1, 7, [], ["appendOnly", "changeDataFeed", "invariants"])
    assert snapshot(path).version == version + 1
    with fails("DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT", "checkConstraints", "changeDataFeed"):
        spark.sql(f"ALTER TABLE delta.`{path}` DROP FEATURE checkConstraints")
    with fails("DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE", "changeDataFeed"):
        spark.sql("ALTER TABLE t DROP FEATURE changeDataFeed")


def test_truncating_the_history(spark, rows, database, make, fails):
    path = make(enableDeletionVectors="true", checkpointInterval="100")
    spark.sql("INSERT INTO t SELECT id, 'x' FROM range(0, 9, 1, 1)")
    spark.sql("DELETE FROM t WHERE id = 3")
    with fails("DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD", "interval 24 hours", "UTC", "TRUNCATE HISTORY again"):
        spark.sql("ALTER TABLE t DROP FEATURE deletionVectors TRUNCATE HISTORY")
    assert not snapshot(path).has_deletion_vectors
    with fails("DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST", "version 4 uses it", "UTC"):
        spark.sql("ALTER TABLE t DROP FEATURE deletionVectors TRUNCATE HISTORY")
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.dropFeatureTruncateHistory.retentionDuration' = '0 seconds')")
    spark.sql("ALTER TABLE t DROP FEATURE deletionVectors TRUNCATE HISTORY")
    assert features(path) == (1, 2, [], [])
    assert min(int(file.name[:20]) for file in (path / "_delta_log").glob("*.json")) > 4
    assert len(rows("SELECT * FROM t")) == 8


def test_checkpoint_protection_goes_with_the_history(spark, rows, database, make, fails):
    path = make(**{"feature.vacuumProtocolCheck": "supported"})
    spark.sql("INSERT INTO t VALUES (1, 'a')")
    spark.sql("ALTER TABLE t DROP FEATURE vacuumProtocolCheck")
    with fails(
        "DELTA_FEATURE_CAN_ONLY_DROP_CHECKPOINT_PROTECTION_WITH_HISTORY_TRUNCATION",
        "DROP FEATURE checkpointProtection TRUNCATE HISTORY",
    ):
        spark.sql("ALTER TABLE t DROP FEATURE checkpointProtection")
    with fails("DELTA_FEATURE_DROP_CHECKPOINT_PROTECTION_WAIT_FOR_RETENTION_PERIOD", "before 5", "UTC"):
        spark.sql("ALTER TABLE t DROP FEATURE checkpointProtection TRUNCATE HISTORY")
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.dropFeatureTruncateHistory.retentionDuration' = '0 seconds')")
    spark.sql("ALTER TABLE t DROP FEATURE checkpointProtection TRUNCATE HISTORY")
    assert features(path) == (1, 2, [], [])
    assert list(snapshot(path).metadata.configuration) == ["delta.dropFeatureTruncateHistory.retentionDuration"]
    assert rows("SELECT * FROM t") == [(1, "a")]


@pytest.mark.parametrize(
    ("written", "condition", "text"),
    [
        ("deletionVector", "DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE", "Did you mean deletionVectors?"),
        ("delta.enableDeletionVectors", "PARSE_SYNTAX_ERROR", "name of a table feature"),
        ("'delta.enableDeletionVectors'", "DELTA_FEATURE_DROP_FEATURE_IS_DELTA_PROPERTY", "UNSET TBLPROPERTIES"),
        ("typeWidening-preview", "DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT", "appendOnly"),
        ("appendOnly", "DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE", "appendOnly"),
        ("v2Checkpoint HISTORY", "PARSE_SYNTAX_ERROR", "TRUNCATE HISTORY"),
    ],
)
def test_what_is_refused_changes_nothing(spark, database, make, fails, written, condition, text):
    path = make(enableDeletionVectors="false")
    with fails(condition, text):
        spark.sql(f"ALTER TABLE t DROP FEATURE {written}")
    assert snapshot(path).version == 0


def test_cancelled_between_two_commits(spark, rows, database, make):
    path = make(enableDeletionVectors="true")
    spark.sql("INSERT INTO t SELECT id, 'x' FROM range(0, 9, 1, 1)")
    spark.sql("DELETE FROM t WHERE id = 3")
    raised = []

    def run():
        try:
            spark.sql("ALTER TABLE t DROP FEATURE deletionVectors")
        except Exception as error:  # Spark's own where it cancelled a job
            raised.append(str(error))

    running = threading.Thread(target=run)
    running.start()
    first = path / "_delta_log" / f"{3:020d}.json"
    while running.is_alive() and not first.exists():
        time.sleep(0.001)
    while running.is_alive():
        spark.interruptAll()
        time.sleep(0.01)
    assert "committed nothing" not in str(raised)
    assert operations(rows)[3] == "UNSET TBLPROPERTIES"
    assert len(rows("SELECT * FROM t")) == 8
    if raised and "deletionVectors" in features(path)[3]:
        spark.sql("ALTER TABLE t DROP FEATURE deletionVectors")
    assert "deletionVectors" not in features(path)[3]
    assert len(rows("SELECT * FROM t")) == 8


def test_rows_of_an_append_only_table_may_be_rewritten(spark, rows, database, make):
    path = make(enableDeletionVectors="true")
    spark.sql("INSERT INTO t SELECT id, 'x' FROM range(0, 9, 1, 1)")
    spark.sql("DELETE FROM t WHERE id = 3")
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
    spark.sql("ALTER TABLE t DROP FEATURE deletionVectors")
    assert len(rows("SELECT * FROM t")) == 8
    assert not snapshot(path).has_deletion_vectors
