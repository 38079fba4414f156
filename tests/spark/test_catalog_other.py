"""Beside Delta tables: other schemas, other formats, views, and delta as the default format."""

from __future__ import annotations

import uuid

import pytest


@pytest.fixture
def second(spark):
    name = f"second_{uuid.uuid4().hex[:8]}"
    spark.sql(f"CREATE DATABASE {name}")
    yield name
    spark.sql(f"DROP DATABASE IF EXISTS {name} CASCADE")


def test_other_schemas(spark, rows, database, second, fails):
    spark.sql(f"CREATE TABLE {second}.t USING delta AS SELECT 1 AS id")
    spark.sql("CREATE TABLE t USING delta AS SELECT 2 AS id")
    assert rows(f"SELECT * FROM {second}.t") == [(1,)]
    assert rows(f"SELECT * FROM spark_catalog.{second}.t") == [(1,)]
    assert rows(f"SELECT a.id, b.id FROM {second}.t a, t b") == [(1, 2)]
    spark.sql(f"ALTER TABLE {second}.t RENAME TO {second}.u")
    assert rows(f"SHOW TABLES IN {second}") == [(second, "u", False)]
    with fails("SCHEMA_NOT_FOUND", "nowhere", state="42704"):
        spark.sql("CREATE TABLE nowhere.t (id INT) USING delta")
    with fails("SCHEMA_NOT_FOUND", "nowhere", state="42704"):
        spark.sql("CREATE TABLE nowhere.t USING delta AS SELECT 1 AS id")
    spark.sql(f"USE {second}")
    assert rows("SELECT * FROM u") == [(1,)]


def test_dropping_a_schema_takes_its_tables(spark, rows, second, fails, tmp_path):
    spark.sql(f"CREATE TABLE {second}.t USING delta AS SELECT 1 AS id")
    with fails("SCHEMA_NOT_EMPTY", second, state="2BP01"):
        spark.sql(f"DROP DATABASE {second}")
    place = rows(f"DESCRIBE DETAIL {second}.t")[0][4].removeprefix("file:")
    spark.sql(f"DROP DATABASE {second} CASCADE")
    with fails("PATH_NOT_FOUND", place, state="42K03"):
        spark.read.format("delta").load(place)


def test_a_schema_with_a_location(spark, rows, tmp_path):
    name = f"placed_{uuid.uuid4().hex[:8]}"
    spark.sql(f"CREATE DATABASE {name} LOCATION '{tmp_path}/pla ce'")
    try:
        spark.sql(f"CREATE TABLE {name}.t USING delta AS SELECT 1 AS id")
        assert (tmp_path / "pla ce" / "t" / "_delta_log").is_dir()
        assert rows(f"SELECT * FROM {name}.t") == [(1,)]
    finally:
        spark.sql(f"DROP DATABASE {name} CASCADE")


@pytest.mark.parametrize("provider", ["parquet", "csv", "json", "orc"])
def test_other_formats_are_untouched(spark, rows, database, provider, tmp_path):
    spark.sql(f"CREATE TABLE t (id INT, p STRING) USING {provider} PARTITIONED BY (p)")
    spark.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    spark.sql("INSERT OVERWRITE t PARTITION (p = 'a') SELECT 3")
    assert rows("SELECT id, p FROM t", ordered=False) == [(2, "b"), (3, "a")]
    assert rows("SHOW PARTITIONS t") == [("p=a",), ("p=b",)]
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('k' = 'v')")
    spark.sql("ALTER TABLE t ADD COLUMNS (more STRING)")
    assert ("k", "v") in rows("SHOW TBLPROPERTIES t")
    spark.sql("ALTER TABLE t RENAME TO u")
    spark.sql("CREATE TABLE copy LIKE u")
    spark.sql(f"CREATE TABLE filled USING {provider} AS SELECT id FROM u")
    assert rows("SELECT count(*) FROM filled") == [(2,)]
    spark.sql("TRUNCATE TABLE u")
    assert rows("SELECT count(*) FROM u") == [(0,)]
    spark.sql("DROP TABLE u")
    assert [row[1] for row in rows("SHOW TABLES")] == ["copy", "filled"]


def test_data_frames_of_other_formats(spark, rows, database, tmp_path):
    spark.range(3).write.mode("overwrite").saveAsTable("p")
    spark.range(2).write.mode("append").saveAsTable("p")
    spark.range(1).write.insertInto("p")
    assert rows("SELECT count(*) FROM p") == [(6,)]
    assert ("Provider", "parquet", "") in rows("DESCRIBE EXTENDED p")
    spark.range(3).write.csv(str(tmp_path / "c"))
    assert spark.read.csv(str(tmp_path / "c")).count() == 3


def test_views_over_delta_tables(spark, rows, database):
    spark.sql("CREATE TABLE t USING delta AS SELECT id FROM range(3)")
    spark.sql("CREATE VIEW v AS SELECT id * 2 AS twice FROM t")
    spark.sql("CREATE TEMP VIEW tv AS SELECT * FROM t WHERE id > 0")
    spark.sql("INSERT INTO t VALUES (10)")
    assert rows("SELECT * FROM v", ordered=False) == [(0,), (2,), (20,), (4,)]
    assert rows("SELECT * FROM tv", ordered=False) == [(1,), (10,), (2,)]
    spark.sql("ALTER TABLE t ADD COLUMNS (more INT)")
    assert rows("SELECT count(*) FROM v") == [(4,)]
    spark.sql("DROP VIEW v")
    spark.sql("DROP VIEW tv")
    spark.sql("DROP TABLE t")


def test_a_temporary_view_goes_before_a_table(spark, rows, database):
    spark.sql("CREATE TABLE t USING delta AS SELECT 1 AS id")
    spark.sql("CREATE TEMP VIEW t AS SELECT 2 AS id")
    assert rows("SELECT * FROM t") == [(2,)]
    assert rows(f"SELECT * FROM {database}.t") == [(1,)]
    spark.sql("DROP VIEW t")
    assert rows("SELECT * FROM t") == [(1,)]


def test_a_view_is_no_place_to_write(spark, database, fails):
    spark.sql("CREATE VIEW v AS SELECT 1 AS id")
    with fails("EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE", "v", state="42809"):
        spark.sql("ALTER TABLE v ADD COLUMNS (a INT)")
    with fails("TABLE_OR_VIEW_ALREADY_EXISTS", state="42P07"):
        spark.sql("CREATE TABLE v (id INT) USING delta")
    with fails("DELTA_CANNOT_WRITE_INTO_VIEW", "v"):
        spark.sql("CREATE OR REPLACE TABLE v (id INT) USING delta")


def test_delta_as_the_default_format(spark, rows, database, settings):
    with settings({"spark.sql.sources.default": "delta"}):
        spark.sql("CREATE TABLE a (id INT)")
        spark.sql("CREATE TABLE b AS SELECT 1 AS id")
        spark.range(2).write.saveAsTable("c")
        spark.range(2).writeTo("d").create()
        spark.sql("CREATE OR REPLACE TABLE b AS SELECT 2 AS id")
        spark.sql("CREATE TABLE p (id INT) USING parquet")
        for table in "abcd":
            assert spark.sql(f"DESCRIBE DETAIL {table}").first()["format"] == "delta"
        assert ("Provider", "parquet", "") in rows("DESCRIBE EXTENDED p")
        assert rows("SELECT * FROM b") == [(2,)]
        place = rows("DESCRIBE DETAIL c")[0][4].removeprefix("file:")
        assert spark.read.load(place).count() == 2
        spark.range(1).write.mode("append").save(place)
    assert rows("SELECT count(*) FROM c") == [(3,)]


def test_functions_and_subqueries_over_tables(spark, rows, database):
    spark.sql("CREATE TABLE t USING delta AS SELECT id, id % 2 AS p FROM range(6)")
    assert rows("SELECT p, count(*) FROM t GROUP BY p ORDER BY p") == [(0, 3), (1, 3)]
    assert rows("SELECT id FROM t WHERE id = (SELECT max(id) FROM t)") == [(5,)]
    assert rows("SELECT count(*) FROM t WHERE EXISTS (SELECT 1 FROM t u WHERE u.id = t.id + 1)") == [(5,)]
    assert rows("WITH x AS (SELECT * FROM t WHERE p = 1) SELECT sum(id) FROM x") == [(9,)]
