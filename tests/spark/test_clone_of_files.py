"""SHALLOW CLONE of Parquet files, in folders and as tables of the catalog: rows, partition values, statistics, history,
and that nothing done to the clone touches the files.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark


def folder(path):
    return {file: file.read_bytes() for file in Path(path).rglob("*.parquet")}


def adds(log, path, version=0):
    return [action["add"] for action in log(path, version) if "add" in action]


def test_clones_of_tables_and_folders(spark, rows, database, log, fails, settings, tmp_path):
    at = tmp_path / "a p"
    spark.sql(
        f"CREATE TABLE p (id INT, name STRING, day DATE) USING parquet PARTITIONED BY (day) LOCATION '{at}' "
        "TBLPROPERTIES ('mine' = '1')"
    )
    spark.sql("INSERT INTO p VALUES (1, 'a', DATE'2024-05-01'), (2, 'b', DATE'2024-05-02'), (3, NULL, NULL)")
    files, all_rows = folder(at), rows("SELECT * FROM p ORDER BY id")
    size = sum(map(len, files.values()))
    path = tmp_path / "c"
    made = spark.sql(f"CREATE TABLE c SHALLOW CLONE p TBLPROPERTIES ('mine' = '2') LOCATION '{path}'")
    assert [tuple(row) for row in made.collect()] == [(size, 3, 0, 0, 0, 0)]
    assert rows("SELECT * FROM c ORDER BY id") == all_rows
    assert dict(rows("SHOW TBLPROPERTIES c"))["mine"] == "2"
    (info,) = (action["commitInfo"] for action in log(path, 0) if "commitInfo" in action)
    assert info["operation"] == "CLONE"
    assert info["operationParameters"] == {"source": f"spark_catalog.{database}.p", "sourceVersion": "-1"}
    found = adds(log, path)
    assert {add["partitionValues"]["day"] for add in found} == {"2024-05-01", "2024-05-02", None}
    assert all(add["path"].startswith(f"file:{tmp_path}/a%20p/day=") for add in found)
    assert {json.loads(add["stats"])["numRecords"] for add in found} == {1}
    # A folder says no types; one that a table without rows is replaced by.
    spark.sql("CREATE TABLE e (z STRING) USING delta CLUSTER BY (z)")
    spark.sql(f"CREATE OR REPLACE TABLE e SHALLOW CLONE parquet.`{at}` NO STATISTICS PARTITIONED BY (day DATE)")
    assert rows("SELECT * FROM e ORDER BY id") == all_rows
    detail = spark.sql("DESCRIBE DETAIL e").first()
    assert (detail["partitionColumns"], detail["clusteringColumns"]) == (["day"], [])
    assert not any("stats" in add for add in adds(log, detail["location"].removeprefix("file:"), 1))
    # What a clone does stays in the clone.
    spark.sql("UPDATE c SET name = 'z' WHERE id < 3")
    spark.sql("INSERT INTO c VALUES (4, 'd', DATE'2024-05-01')")
    spark.sql("OPTIMIZE c")
    with settings({"spark.databricks.delta.retentionDurationCheck.enabled": "false"}):
        spark.sql("VACUUM c RETAIN 0 HOURS")
    assert rows("SELECT id, name FROM c ORDER BY id") == [(1, "z"), (2, "z"), (3, None), (4, "d")]
    assert (folder(at), rows("SELECT * FROM p ORDER BY id")) == (files, all_rows)
    before = rows("SHOW TABLES", ordered=False)
    for statement, condition, words in (
        (
            f"CREATE TABLE t SHALLOW CLONE parquet.`{at}`",
            "DELTA_UNEXPECTED_NUM_PARTITION_COLUMNS_FROM_FILE_NAME",
            "day",
        ),
        (f"CREATE TABLE t SHALLOW CLONE parquet.`{tmp_path}/no`", "HEADWATER_CONVERT_NO_FILES", "no"),
        (f"CREATE TABLE t SHALLOW CLONE csv.`{at}`", "DELTA_CLONE_UNSUPPORTED_SOURCE", "csv"),
        (f"CREATE TABLE t SHALLOW CLONE parquet.`{path}`", "DELTA_CLONE_UNSUPPORTED_SOURCE", "a Delta table"),
        ("CREATE TABLE t SHALLOW CLONE p VERSION AS OF 0", "DELTA_CLONE_UNSUPPORTED_SOURCE", "no versions"),
        ("CREATE TABLE t DEEP CLONE p", "HEADWATER_DEEP_CLONE_OF_FILES", "SHALLOW"),
        ("CREATE TABLE t SHALLOW CLONE c NO STATISTICS", "HEADWATER_CLONE_OPTION_OF_FILES", "NO STATISTICS"),
        ("CREATE TABLE t SHALLOW CLONE c PARTITIONED BY (a INT)", "HEADWATER_CLONE_OPTION_OF_FILES", "PARTITIONED"),
        (f"CREATE TABLE t SHALLOW CLONE p LOCATION '{at}'", "HEADWATER_CLONE_OF_ITSELF", "t"),
        ("CREATE OR REPLACE TABLE c SHALLOW CLONE p", "DELTA_UNSUPPORTED_NON_EMPTY_CLONE", "TRUNCATE"),
    ):
        with fails(condition, words):
            spark.sql(statement)
    assert rows("SHOW TABLES", ordered=False) == before
    assert not (at / "_delta_log").exists()
