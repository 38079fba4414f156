"""With ``spark.sql.sources.default = delta``, tables and paths are Delta where nothing says otherwise."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def delta_by_default(settings):
    with settings({"spark.sql.sources.default": "delta"}):
        yield


def provider(rows, table):
    return dict(row[:2] for row in rows(f"DESCRIBE EXTENDED {table}") if row[0] == "Provider")["Provider"]


@pytest.mark.parametrize(
    "create",
    [
        "CREATE TABLE t (a INT, b STRING)",
        "CREATE TABLE t (a INT, b STRING) PARTITIONED BY (b)",
        "CREATE TABLE t AS SELECT 1 AS a, 'x' AS b",
        "CREATE OR REPLACE TABLE t (a INT, b STRING)",
        "CREATE TABLE IF NOT EXISTS t (a INT, b STRING) TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
    ],
)
def test_tables_of_statements(spark, rows, database, create):
    spark.sql(create)
    assert provider(rows, "t") == "delta"
    spark.sql("INSERT INTO t VALUES (2, 'y')")
    assert (2, "y") in rows("SELECT a, b FROM t")
    assert rows("DESCRIBE HISTORY t")[0][4] == "WRITE"


def test_tables_of_writers(spark, rows, database):
    spark.sql("SELECT 1 AS a").write.saveAsTable("saved")
    spark.sql("SELECT 2 AS a").writeTo("made").create()
    assert [provider(rows, name) for name in ("saved", "made")] == ["delta", "delta"]
    spark.sql("SELECT 3 AS a").write.mode("append").saveAsTable("saved")
    spark.sql("SELECT 4 AS a").write.insertInto("saved")
    assert rows("SELECT a FROM saved ORDER BY a") == [(1,), (3,), (4,)]


def test_paths(spark, tmp_path):
    path = str(tmp_path / "t")
    spark.sql("SELECT 1 AS a").write.save(path)
    spark.sql("SELECT 2 AS a").write.mode("append").save(path)
    assert (tmp_path / "t" / "_delta_log" / f"{1:020d}.json").is_file()
    assert spark.read.load(path).count() == 2
    assert spark.read.option("versionAsOf", 0).load(path).collect() == [(1,)]


def test_what_is_said_goes_first(spark, rows, database, tmp_path):
    spark.sql("CREATE TABLE other USING parquet AS SELECT 1 AS a")
    spark.sql("SELECT 1 AS a").write.format("parquet").save(str(tmp_path / "p"))
    assert provider(rows, "other") == "parquet"
    assert not (tmp_path / "p" / "_delta_log").exists()
    assert spark.read.format("parquet").load(str(tmp_path / "p")).count() == 1
