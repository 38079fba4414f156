"""RESTORE through Spark: its forms, rows and files of then, what goes on from now, and errors that say what to do."""

from __future__ import annotations

import pytest

from headwater.log.snapshot import load_snapshot
from headwater.stores import LocalStore
from headwater.tables import DeltaTable
from support.requests import actions

COLUMNS = [
    "table_size_after_restore",
    "num_of_files_after_restore",
    "num_removed_files",
    "num_restored_files",
    "removed_files_size",
    "restored_files_size",
]


@pytest.fixture
def path(spark, tmp_path, database):
    """A table ``t`` with change data, marks and four versions."""
    path = tmp_path / "a t"
    spark.sql(
        f"CREATE TABLE t (id INT, v STRING, p STRING) USING delta PARTITIONED BY (p) LOCATION '{path}' TBLPROPERTIES "
        "('delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true')"
    )
    spark.sql("INSERT INTO t SELECT id, 'x', 'a b:' || id % 2 FROM range(0, 20, 1, 1)")
    spark.sql("DELETE FROM t WHERE id % 5 = 0")
    spark.sql("INSERT OVERWRITE t VALUES (100, 'y', 'z')")
    return path


def snapshot(path):
    return load_snapshot(str(path), LocalStore())


def kept(rows):
    return rows("SELECT * FROM t ORDER BY id")


def test_rows_files_and_history(spark, rows, path):
    then = rows("SELECT * FROM t VERSION AS OF 2 ORDER BY id")
    found = spark.sql("RESTORE TABLE t TO VERSION AS OF 2")
    size = sum(f["size"] for f in snapshot(path).files.to_pylist())
    gone = actions(path, 3, "add")[0]["size"]
    assert found.columns == COLUMNS
    assert [tuple(row) for row in found.collect()] == [(size, 2, 1, 2, gone, size)]
    assert kept(rows) == then
    adds, removes = actions(path, 4, "add"), actions(path, 4, "remove")
    assert (len(adds), len(removes)) == (2, 1)
    assert all(file["dataChange"] for file in (*adds, *removes))
    (info,) = actions(path, 4, "commitInfo")
    assert (info["operation"], info["operationParameters"]) == ("RESTORE", {"version": "2"})
    assert info["operationMetrics"] == {
        "tableSizeAfterRestore": str(size),
        "numOfFilesAfterRestore": "2",
        "numRemovedFiles": "1",
        "numRestoredFiles": "2",
        "removedFilesSize": str(gone),
        "restoredFilesSize": str(size),
    }
    # A file with another vector is another file: version 1 takes the marks away, and copies nothing.
    spark.sql("RESTORE t VERSION AS OF 1")
    assert len(kept(rows)) == 20
    assert [file["path"] for file in actions(path, 5, "add")] == [file["path"] for file in actions(path, 5, "remove")]
    changes = rows("SELECT _change_type, count(*) FROM table_changes('t', 5, 5) GROUP BY 1")
    assert changes == [("insert", 4)]
    # The version that it is already is no new version; one with the same files is.
    spark.sql("RESTORE t TO VERSION AS OF 5")
    assert snapshot(path).version == 5
    assert spark.sql("RESTORE t TO VERSION AS OF 1").collect()[0].num_restored_files == 0
    assert snapshot(path).version == 6


def test_each_form_of_the_statement_restores(spark, rows, path):
    def restored(text, **parameters):
        found = spark.sql(text, **parameters).collect()
        assert len(found) == 1, text
        return len(kept(rows))

    time = rows("DESCRIBE HISTORY t")[1][1]  # of version 2
    assert restored(f"RESTORE delta.`{path}` TO VERSION AS OF 1") == 20
    assert restored(f"RESTORE TABLE '{path}' TO VERSION AS OF '2'") == 16
    assert restored("RESTORE TABLE t FOR SYSTEM_VERSION AS OF 1 + 0") == 20
    assert restored(f"RESTORE t TO TIMESTAMP AS OF '{time}'") == 16
    assert restored(f"RESTORE t FOR SYSTEM_TIME AS OF TIMESTAMP '{time}' + INTERVAL 0 SECONDS") == 16
    assert restored("RESTORE IDENTIFIER(:t) TO VERSION AS OF :v", args={"t": "t", "v": 1}) == 20
    assert restored("RESTORE TABLE IDENTIFIER(?) TO TIMESTAMP AS OF ?", args=["t", str(time)]) == 16
    assert restored("EXECUTE IMMEDIATE 'RESTORE t TO VERSION AS OF ?' USING 1") == 20
    spark.sql("BEGIN IF true THEN RESTORE TABLE t TO VERSION AS OF 2; END IF; END")
    assert len(kept(rows)) == 16
    spark.sql("BEGIN RESTORE IDENTIFIER(:t) TO VERSION AS OF :v; END", args={"t": "t", "v": 1})
    assert len(kept(rows)) == 20
    spark.sql("DECLARE OR REPLACE VARIABLE wanted = 2")
    assert restored("RESTORE t TO VERSION AS OF wanted") == 16
    table = DeltaTable.forName(spark, "t")
    assert table.restoreToVersion(1).columns == COLUMNS
    assert len(kept(rows)) == 20
    table.restoreToTimestamp(str(time)).collect()
    assert len(kept(rows)) == 16


def test_bad_input(spark, fails, path):
    with fails("DELTA_CANNOT_RESTORE_TABLE_VERSION", "version 77", "0 to 3"):
        spark.sql("RESTORE t TO VERSION AS OF 77")
    for version in ("-1", "'one'", "NULL", "1.5"):
        with fails("DELTA_TIME_TRAVEL_INVALID_BEGIN_VALUE"):
            spark.sql(f"RESTORE t TO VERSION AS OF {version}")
    with fails("DELTA_CANNOT_RESTORE_TIMESTAMP_EARLIER", "2001"):
        spark.sql("RESTORE t TO TIMESTAMP AS OF '2001-01-01'")
    with fails("DELTA_CANNOT_RESTORE_TIMESTAMP_GREATER", "2101"):
        spark.sql("RESTORE t TO TIMESTAMP AS OF '2101-01-01'")
    with fails("DELTA_TIMESTAMP_INVALID", "yesterday"):
        spark.sql("RESTORE t TO TIMESTAMP AS OF 'yesterday evening'")
    with fails("PARSE_SYNTAX_ERROR", "RESTORE [TABLE] t"):
        spark.sql("RESTORE TABLE t TO 1")
    with fails("UNRESOLVED_COLUMN.WITHOUT_SUGGESTION", "nosuch"):
        spark.sql("RESTORE t TO VERSION AS OF nosuch")
    with fails("UNBOUND_SQL_PARAMETER", "v"):
        spark.sql("RESTORE t TO VERSION AS OF :v", args={"w": 1})
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
    with fails("DELTA_CANNOT_MODIFY_APPEND_ONLY"):
        spark.sql("RESTORE t TO VERSION AS OF 1")
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.appendOnly' = 'false')")
    gone = sorted(path.glob("p=*/*.parquet"), key=lambda file: file.stat().st_mtime)[0]
    gone.unlink()
    with fails("HEADWATER_RESTORE_FILES_MISSING", "1 of the 3 files", gone.name):
        spark.sql("RESTORE t TO VERSION AS OF 2")
    assert snapshot(path).version == 5


def test_what_is_ignored_where_it_is_missing(spark, rows, path):
    for file in path.glob("p=a*/*.parquet"):
        file.unlink()
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        assert spark.sql("RESTORE t TO VERSION AS OF 1").collect()[0].num_restored_files == 2
        assert kept(rows) == []
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")


def test_the_definition_goes_back_and_the_protocol_does_not(spark, rows, tmp_path, database):
    path = tmp_path / "t"
    spark.sql(
        "CREATE TABLE t (id BIGINT GENERATED BY DEFAULT AS IDENTITY, v INT COMMENT 'first') USING delta "
        f"LOCATION '{path}' TBLPROPERTIES ('delta.enableRowTracking' = 'true', 'x' = '1')"
    )
    spark.sql("INSERT INTO t (v) VALUES (1), (2)")
    before = snapshot(path)
    ids = rows("SELECT id, v, _metadata.row_id FROM t ORDER BY id")
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'x' = '2')")
    spark.sql("ALTER TABLE t CLUSTER BY (v)")
    spark.sql("ALTER TABLE t RENAME COLUMN v TO w")
    spark.sql("ALTER TABLE t ADD CONSTRAINT c CHECK (w < 100)")
    spark.sql("INSERT INTO t (w) VALUES (3), (4)")
    middle = snapshot(path)
    spark.sql("RESTORE t TO VERSION AS OF 1")
    now = snapshot(path)
    assert rows("SELECT id, v, _metadata.row_id FROM t ORDER BY id") == ids
    assert now.metadata.configuration == before.metadata.configuration
    assert now.protocol == middle.protocol
    assert now.domain_metadata["delta.clustering"].configuration.startswith('{"clusteringColumns": []')
    spark.sql("INSERT INTO t (v) VALUES (5000)")
    assert rows("SELECT max(id), max(_metadata.row_id) FROM t") == [(5, 4)]
    spark.sql(f"RESTORE t TO VERSION AS OF {middle.version}")
    after = snapshot(path)
    assert after.metadata.configuration == middle.metadata.configuration
    assert after.domain_metadata["delta.clustering"] == middle.domain_metadata["delta.clustering"]
    assert rows("SELECT w FROM t ORDER BY w") == [(1,), (2,), (3,), (4,)]
    spark.sql("INSERT INTO t (w) VALUES (6)")
    assert rows("SELECT max(id), max(_metadata.row_id) FROM t") == [(6, 5)]
    with pytest.raises(Exception, match="DELTA_VIOLATE_CONSTRAINT"):
        spark.sql("INSERT INTO t (w) VALUES (600)")


def test_row_tracking_that_was_dropped_comes_back_with_its_ids(spark, rows, tmp_path, database):
    path = tmp_path / "t"
    spark.sql(
        f"CREATE TABLE t (v INT) USING delta LOCATION '{path}' TBLPROPERTIES ('delta.enableRowTracking' = 'true')"
    )
    spark.sql("INSERT INTO t SELECT id FROM range(0, 4, 1, 2)")
    ids = rows("SELECT v, _metadata.row_id FROM t ORDER BY v")
    spark.sql("ALTER TABLE t DROP FEATURE rowTracking")
    spark.sql("RESTORE t TO VERSION AS OF 1")
    assert rows("SELECT v, _metadata.row_id FROM t ORDER BY v") == ids
    spark.sql("INSERT INTO t VALUES (9)")
    assert rows("SELECT _metadata.row_id FROM t WHERE v = 9") == [(4,)]
