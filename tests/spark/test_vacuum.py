"""VACUUM through Spark: its forms, rows and history, and what is refused."""

from __future__ import annotations

import os

import pytest

from headwater.log.snapshot import load_snapshot
from headwater.stores import LocalStore
from headwater.tables import DeltaTable

CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


@pytest.fixture
def path(spark, tmp_path, database, settings):
    """A table ``t`` with marks and change data; what is not of its newest version is a day old."""
    path = tmp_path / "a t"
    spark.sql(
        f"CREATE TABLE t (id INT, p STRING) USING delta PARTITIONED BY (p) LOCATION '{path}' TBLPROPERTIES "
        "('delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true', "
        "'delta.deletedFileRetentionDuration' = 'interval 0 hours')"
    )
    spark.sql("INSERT INTO t SELECT id, 'a b:' || id % 2 FROM range(0, 20, 1, 1)")
    spark.sql("UPDATE t SET id = id + 100 WHERE id % 5 = 0")
    spark.sql("DELETE FROM t WHERE p = 'a b:1' OR id = 2")
    return path


def files(path):
    return {str(f.relative_to(path)) for f in path.rglob("*") if f.is_file() and f.parent.name != "_delta_log"}


def test_deletes_what_is_not_needed(spark, rows, path, fails):
    before, kept = files(path), rows("SELECT * FROM t ORDER BY id")
    shown = spark.sql("VACUUM t DRY RUN")
    assert shown.columns == ["path"]
    garbage = {row.path.removeprefix(f"file:{path}/") for row in shown.collect()}
    assert files(path) == before
    assert any(name.startswith("_change_data/") for name in garbage)
    assert any(name.startswith("deletion_vector_") for name in garbage)
    assert rows("VACUUM t") == [(f"file:{path}",)]
    assert {name for name in before - files(path) if not name.endswith(".crc")} == garbage
    assert rows("SELECT * FROM t ORDER BY id") == kept
    history = [
        (row.operation, row.operationParameters, row.operationMetrics)
        for row in spark.sql("DESCRIBE HISTORY t LIMIT 2").collect()
    ]
    (end, start) = history
    assert (end[0], end[1]) == ("VACUUM END", {"status": "COMPLETED"})
    assert end[2] == {"numDeletedFiles": str(len(garbage)), "numVacuumedDirectories": "1"}
    assert (start[0], start[1]) == ("VACUUM START", {"retentionCheckEnabled": "true", "defaultRetentionMillis": "0"})
    assert start[2]["numFilesToDelete"] == str(len(garbage))
    # Older versions are gone, and it is said so before their files are missed.
    for statement in (
        "SELECT * FROM t VERSION AS OF 1",
        "RESTORE t TO VERSION AS OF 1",
        "SELECT * FROM table_changes('t', 1)",
    ):
        with fails("DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION", "0 hours"):
            spark.sql(statement).collect()
    assert rows(f"SELECT * FROM t VERSION AS OF {load_snapshot(str(path), LocalStore()).version} ORDER BY id") == kept


def test_each_form_of_the_statement_deletes_the_same(spark, rows, path, settings):
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 2 hours')")

    def left(text, **parameters):
        """What a statement deletes of one file that is three hours old."""
        file = path / "left.parquet"
        file.touch()
        os.utime(file, (file.stat().st_mtime - 3 * 3600,) * 2)
        shown = spark.sql(text, **parameters).collect()
        assert len(shown) <= 1, shown
        if "DRY" in text.upper():
            return [row.path for row in shown] == [f"file:{file}"]
        return not file.exists()

    assert left("VACUUM t")
    assert left(f"vacuum delta.`{path}` full retain 2 hours dry run")
    assert left(f"VACUUM '{path}' DRY RUN RETAIN 2.5 HOURS FULL")
    assert not left("VACUUM t RETAIN 4 HOURS")
    assert not left("VACUUM t LITE RETAIN 2 HOURS DRY RUN")
    assert left("VACUUM IDENTIFIER(:t) RETAIN :h HOURS", args={"t": "t", "h": 2})
    assert left("VACUUM IDENTIFIER(?) RETAIN ? HOURS DRY RUN", args=["t", 2.5])
    assert left("EXECUTE IMMEDIATE 'VACUUM t RETAIN ? HOURS' USING 2")
    spark.sql("BEGIN IF true THEN VACUUM t RETAIN 2 HOURS; END IF; END")
    assert not (path / "left.parquet").exists()
    with settings({CHECK: "false"}):
        assert left("VACUUM t RETAIN 1 HOURS")
    listed = f"'file:{path}/left.parquet' AS path, 5L AS length, false AS isDir, 7L AS modificationTime"
    spark.sql(f"CREATE OR REPLACE TEMP VIEW listed AS SELECT {listed}")
    assert left("VACUUM t USING INVENTORY (SELECT * FROM listed WHERE length > 3) DRY RUN")
    assert left("VACUUM t USING INVENTORY listed RETAIN 2 HOURS")
    assert not left("VACUUM t USING INVENTORY (SELECT * FROM listed WHERE length > 5) RETAIN 2 HOURS")
    spark.sql("CREATE TABLE inventory USING delta AS SELECT * FROM listed")
    assert left("VACUUM t USING INVENTORY inventory")
    with settings({"spark.databricks.delta.vacuum.lite.enabled": "true"}):
        assert not left("VACUUM t")
        assert left("VACUUM t FULL")
    table = DeltaTable.forName(spark, "t")
    assert table.vacuum(2).columns == ["path"]
    table.vacuum().collect()


def test_bad_input(spark, fails, path, tmp_path):
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 2 hours')")
    with fails("DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT", "1 hours", "2 hours", CHECK):
        spark.sql("VACUUM t RETAIN 1 HOURS")
    with fails("DELTA_VACUUM_RETENTION_PERIOD_NEGATIVE"):
        spark.sql("VACUUM t RETAIN -1 HOURS DRY RUN")
    with fails("DELTA_ILLEGAL_OPTION", "a week"):
        spark.sql("VACUUM t RETAIN 'a week' HOURS")
    for text in ("VACUUM t RETAIN 1 DAYS", "VACUUM t FULL LITE", "VACUUM t DRY", "VACUUM t USING INVENTORY (SELECT 1"):
        with fails("PARSE_SYNTAX_ERROR", "VACUUM t [FULL | LITE]"):
            spark.sql(text)
    with fails("DELTA_INVALID_INVENTORY_SCHEMA", "path string"):
        spark.sql("VACUUM t USING INVENTORY (SELECT 1 AS path)")
    with fails("TABLE_OR_VIEW_NOT_FOUND", "nosuch"):
        spark.sql("VACUUM t USING INVENTORY nosuch")
    with fails("PARSE_SYNTAX_ERROR"):
        spark.sql("VACUUM t USING INVENTORY (SELEC 1)")
    spark.range(3).write.parquet(str(tmp_path / "p"))
    with fails("DELTA_TABLE_NOT_FOUND"):
        spark.sql(f"VACUUM '{tmp_path / 'p'}'")
    spark.sql("CREATE TABLE csvs (id INT) USING csv")
    with fails("DELTA_ONLY_OPERATION", "VACUUM"):
        spark.sql("VACUUM csvs")
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
    spark.sql("VACUUM t")
