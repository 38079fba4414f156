"""Tables by path: delta.`/path` wherever a table's name may stand, and paths of every look."""

from __future__ import annotations

import pytest

ODD = [
    "with space",
    "per%cent",
    "en%20coded",
    "ha#sh",
    "key=value",
    "plus+and&",
    "quo'te",
    "ümläut-日本",
    "qu?estion",
    "co:lon",
    "brace{d}[x]",
    "sem;icolon,comma",
    "tild~e@v",
]


def test_every_statement_takes_a_path(spark, rows, tmp_path, fails):
    table = f"delta.`{tmp_path}/t`"
    spark.sql(f"CREATE TABLE {table} (id INT, name STRING) USING delta")
    spark.sql(f"CREATE TABLE IF NOT EXISTS {table} (id INT, name STRING) USING delta")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    assert rows(f"SELECT * FROM {table} WHERE id = 2") == [(2, "b")]
    assert rows(f"SELECT t.id FROM {table} AS t JOIN {table} AS u ON t.id = u.id", ordered=False) == [(1,), (2,)]
    assert rows(f"DESCRIBE {table}") == [("id", "int", None), ("name", "string", None)]
    assert rows(f"SHOW COLUMNS IN {table}") == [("id",), ("name",)]
    assert rows(f"DESCRIBE HISTORY {table}")[0][4] == "WRITE"
    assert ("k", "v") not in rows(f"SHOW TBLPROPERTIES {table}")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('k' = 'v')")
    assert ("k", "v") in rows(f"SHOW TBLPROPERTIES {table}")
    spark.sql(f"ALTER TABLE {table} ADD COLUMNS (more DATE)")
    spark.sql(f"COMMENT ON TABLE {table} IS 'by path'")
    assert spark.sql(f"DESCRIBE DETAIL {table}").first()["description"] == "by path"
    assert f"LOCATION '{tmp_path}/t'" in rows(f"SHOW CREATE TABLE {table}")[0][0]
    spark.sql(f"INSERT OVERWRITE {table} VALUES (3, 'c', DATE'2024-01-01')")
    assert rows(f"SELECT id FROM {table}") == [(3,)]
    spark.sql(f"TRUNCATE TABLE {table}")
    assert rows(f"SELECT count(*) FROM {table}") == [(0,)]
    spark.sql(f"REFRESH TABLE {table}")
    assert spark.table(table).count() == 0
    assert spark.catalog.tableExists(table)
    with fails("DELTA_OPERATION_ON_PATH_NOT_ALLOWED", "DROP TABLE", str(tmp_path), "delete the directory"):
        spark.sql(f"DROP TABLE {table}")
    with fails("DELTA_OPERATION_ON_PATH_NOT_ALLOWED", "RENAME", str(tmp_path)):
        spark.sql(f"ALTER TABLE {table} RENAME TO other")


def test_create_and_replace_by_path(spark, rows, tmp_path, fails):
    table = f"delta.`{tmp_path}/t`"
    spark.sql(f"CREATE TABLE {table} USING delta PARTITIONED BY (p) AS SELECT 1 AS id, 2 AS p")
    with fails("TABLE_OR_VIEW_ALREADY_EXISTS", state="42P07"):
        spark.sql(f"CREATE TABLE {table} USING delta AS SELECT 1 AS id")
    spark.sql(f"REPLACE TABLE {table} USING delta AS SELECT 3 AS id")
    assert rows(f"SELECT * FROM {table}") == [(3,)]
    spark.sql(f"CREATE OR REPLACE TABLE {table} (a STRING) USING delta")
    assert rows(f"SELECT * FROM {table}") == []
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/u` LIKE {table}")
    assert spark.table(f"delta.`{tmp_path}/u`").schema.simpleString() == "struct<a:string>"


def test_path_with_a_scheme(spark, rows, tmp_path):
    spark.sql(f"CREATE TABLE delta.`file:{tmp_path}/t` (id INT) USING delta")
    spark.sql(f"INSERT INTO delta.`file://{tmp_path}/t` VALUES (1)")
    assert rows(f"SELECT * FROM delta.`{tmp_path}/t`") == [(1,)]
    assert rows(f"SELECT * FROM delta.`{tmp_path}/t/`") == [(1,)]


@pytest.mark.parametrize(
    "name", [*ODD[::3], *(pytest.param(n, marks=pytest.mark.soak) for i, n in enumerate(ODD) if i % 3)]
)
def test_paths_of_every_look(spark, rows, database, tmp_path, name):
    path = f"{tmp_path}/{name}"
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT, p STRING) USING delta PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'a b'), (2, 'c%d=/#')")
    assert (tmp_path / name / "_delta_log").is_dir()
    assert rows(f"SELECT * FROM delta.`{path}` ORDER BY id") == [(1, "a b"), (2, "c%d=/#")]
    spark.range(1).selectExpr("CAST(3 AS INT) AS id", "'x' AS p").write.format("delta").mode("append").save(path)
    assert spark.read.format("delta").load(path).count() == 3
    spark.sql(f'CREATE TABLE t USING delta LOCATION "{path}"')
    assert rows("SELECT id FROM t WHERE p = 'c%d=/#'") == [(2,)]
    spark.sql("INSERT INTO t VALUES (4, NULL)")
    assert rows("SELECT id FROM t WHERE p IS NULL") == [(4,)]
    assert spark.sql("DESCRIBE DETAIL t").first()["location"] == f"file:{path}"
    spark.sql("DROP TABLE t")


def test_a_schema_named_delta_goes_before_paths(spark, rows, tmp_path):
    spark.sql("CREATE DATABASE delta")
    try:
        spark.sql("CREATE TABLE delta.t (id INT) USING delta")
        spark.sql("INSERT INTO delta.t VALUES (1)")
        assert rows("SELECT * FROM delta.t") == [(1,)]
    finally:
        spark.sql("DROP DATABASE delta CASCADE")


def test_files_of_other_formats_by_path(spark, rows, tmp_path):
    spark.range(2).write.parquet(f"{tmp_path}/p")
    assert rows(f"SELECT count(*) FROM parquet.`{tmp_path}/p`") == [(2,)]
