"""Reading: which version a query sees, caching, metadata columns, deletion vectors, wide, nested and mapped tables."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote, unquote

import pytest
from pyroaring import BitMap64
from pyspark.sql import functions as F

from support.inline_vectors import inline

pytestmark = pytest.mark.covering("file")


def path_of(rows, table):
    return rows(f"DESCRIBE DETAIL {table}")[0][4].removeprefix("file:")


def scanned(frame):
    """The physical plan's text, with what its scan reads."""
    return frame._jdf.queryExecution().executedPlan().toString()


# --- versions ---------------------------------------------------------------------------------------------------------


def test_a_frame_that_is_run_again_sees_new_rows(spark, rows, database):
    spark.sql("CREATE TABLE t USING delta AS SELECT 1 AS id")
    by_name, by_path = spark.table("t"), spark.read.format("delta").load(path_of(rows, "t"))
    filtered = by_name.where("id > 1")
    assert (by_name.count(), by_path.count(), filtered.count()) == (1, 1, 0)
    spark.sql("INSERT INTO t VALUES (2)")
    assert (by_name.count(), by_path.count(), filtered.count()) == (2, 2, 1)
    spark.sql("INSERT OVERWRITE t VALUES (7)")
    assert (by_name.collect(), by_path.collect(), filtered.collect()) == ([(7,)], [(7,)], [(7,)])


def test_a_frame_of_an_old_version_stays(spark, rows, database):
    spark.sql("CREATE TABLE t USING delta AS SELECT 1 AS id")
    old = spark.read.option("versionAsOf", 0).table("t")
    spark.sql("INSERT INTO t VALUES (2)")
    assert old.count() == 1
    assert spark.sql("SELECT count(*) FROM t VERSION AS OF 0").first()[0] == 1


def test_a_query_that_names_a_table_twice_sees_one_version(spark, rows, database):
    spark.sql("CREATE TABLE t USING delta AS SELECT id FROM range(4)")
    first = spark.table("t").withColumnRenamed("id", "a")
    spark.sql("INSERT INTO t VALUES (100)")
    second = spark.table("t").withColumnRenamed("id", "b")
    joined = first.join(second, F.col("a") == F.col("b"), "full_outer")
    # The two were defined at different versions, with a column missing from neither.
    assert joined.where("a IS NULL OR b IS NULL").count() == 0
    assert joined.count() == 5
    assert rows("SELECT count(*) FROM t a FULL JOIN t b ON a.id = b.id WHERE a.id IS NULL OR b.id IS NULL") == [(0,)]
    union = spark.table("t").union(spark.table("t"))
    spark.sql("INSERT INTO t VALUES (101)")
    assert union.groupBy("id").count().where("count != 2").count() == 0


def test_two_versions_in_one_query(spark, rows, database):
    spark.sql("CREATE TABLE t USING delta AS SELECT 1 AS id")
    spark.sql("INSERT INTO t VALUES (2)")
    difference = "SELECT id FROM t VERSION AS OF 1 EXCEPT SELECT id FROM t VERSION AS OF 0"
    assert rows(difference) == [(2,)]
    assert rows("SELECT n.id FROM t n LEFT ANTI JOIN t VERSION AS OF 0 o ON n.id = o.id") == [(2,)]


def test_a_frame_whose_table_has_other_columns_now(spark, rows, database, fails):
    spark.sql("CREATE TABLE t USING delta AS SELECT 1 AS id")
    frame = spark.table("t")
    spark.sql("CREATE OR REPLACE TABLE t USING delta AS SELECT 'x' AS name")
    with fails("DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS", "id", "name"):
        frame.collect()
    assert rows("SELECT * FROM t") == [("x",)]


def test_a_frame_whose_table_has_one_more_column(spark, rows, database):
    spark.sql("CREATE TABLE t USING delta AS SELECT 1 AS id")
    frame = spark.table("t").where("id > 0")
    spark.sql("ALTER TABLE t ADD COLUMNS (name STRING FIRST)")
    spark.sql("INSERT INTO t VALUES ('b', 2)")
    assert sorted(frame.collect()) == [(1,), (2,)]
    spark.sql("CREATE VIEW v AS SELECT * FROM t")
    spark.sql("ALTER TABLE t ADD COLUMNS (more STRING)")
    assert rows("SELECT * FROM v", ordered=False) == [("b", 2), (None, 1)]


def test_a_frame_whose_table_was_dropped_and_made_anew(spark, rows, database, fails):
    spark.sql("CREATE TABLE t USING delta AS SELECT 1 AS id")
    frame = spark.table("t")
    spark.sql("DROP TABLE t")
    with fails("DELTA_TABLE_NOT_FOUND"):
        frame.count()
    spark.sql("CREATE TABLE t USING delta AS SELECT 5 AS id")
    assert frame.collect() == [(5,)]


# --- caching ----------------------------------------------------------------------------------------------------------


def test_a_cached_table_shows_new_rows(spark, rows, database):
    spark.sql("CREATE TABLE t USING delta AS SELECT 1 AS id")
    spark.sql("CACHE TABLE t")
    assert rows("SELECT count(id), sum(id) FROM t WHERE id < 100") == [(1, 1)]
    assert "In-memory table" in scanned(spark.sql("SELECT id FROM t"))
    spark.sql("INSERT INTO t VALUES (2)")
    assert rows("SELECT * FROM t", ordered=False) == [(1,), (2,)]
    spark.range(3, 4).selectExpr("CAST(id AS INT) AS id").write.insertInto("t")
    assert rows("SELECT sum(id) FROM t WHERE id > 0") == [(6,)]
    spark.sql("INSERT OVERWRITE t VALUES (9)")
    assert rows("SELECT * FROM t") == [(9,)]
    spark.sql("TRUNCATE TABLE t")
    assert rows("SELECT * FROM t") == []
    spark.sql("UNCACHE TABLE t")


def test_a_cached_query_by_path_shows_new_rows(spark, rows, database, tmp_path):
    path = str(tmp_path / "t")
    spark.range(3).write.format("delta").save(path)
    frame = spark.read.format("delta").load(path).where("id > 0").cache()
    assert frame.count() == 2
    spark.range(5, 7).write.format("delta").mode("append").save(path)
    assert spark.read.format("delta").load(path).where("id > 0").count() == 4
    frame.unpersist()


def test_refresh_after_another_program_wrote(spark, rows, database, tmp_path):
    deltalake = pytest.importorskip("deltalake")
    import pyarrow as pa

    path = str(tmp_path / "t")
    spark.range(2).write.format("delta").save(path)
    assert rows(f"SELECT count(*) FROM delta.`{path}`") == [(2,)]
    deltalake.write_deltalake(path, pa.table({"id": pa.array([7], pa.int64())}), mode="append")
    assert rows(f"SELECT count(*) FROM delta.`{path}`") == [(3,)]
    assert rows(f"SELECT id FROM delta.`{path}` WHERE id > 5") == [(7,)]


# --- metadata columns -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "properties", ["", "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"], ids=["plain", "mapped"]
)
def test_metadata_columns(spark, rows, database, tmp_path, properties):
    path = tmp_path / "a b%20"
    spark.sql(f"CREATE TABLE t (id INT, p STRING) USING delta PARTITIONED BY (p) LOCATION '{path}' {properties}")
    spark.sql("INSERT INTO t SELECT id, CASE id % 2 WHEN 0 THEN 'x y%' ELSE 'z:' END FROM range(0, 6, 1, 1)")
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql("DELETE FROM t WHERE id = 0")
    found = spark.sql(
        "SELECT id, _metadata.file_path, input_file_name() AS input, _metadata.file_name, _metadata.file_size, "
        "_metadata.row_index, _metadata.file_block_start, _metadata.file_block_length FROM t"
    ).collect()
    assert len(found) == 5
    for row in found:
        file = Path(unquote(row["file_path"]).removeprefix("file:"))
        assert row["file_path"] == row["input"] == f"file:{quote(str(file), safe='/=')}"
        assert file.is_file()
        assert file.name == row["file_name"]
        assert (row["file_block_start"], row["file_block_length"]) == (0, row["file_size"])
        assert file.stat().st_size == row["file_size"]
    assert len({(row["file_name"], row["row_index"]) for row in found}) == 5
    assert set(spark.table("t").inputFiles()) == {row["input"] for row in found}
    assert rows("SELECT count(*) FROM t WHERE _metadata.file_name LIKE '%.parquet'") == [(5,)]
    assert spark.table("t").select("_metadata").count() == 5


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_statements_that_change_rows_use_metadata_columns(spark, rows, database, vectors):
    spark.sql(
        "CREATE TABLE t (id INT, v STRING) USING delta TBLPROPERTIES ('delta.enableRowTracking' = 'true', "
        f"'delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = '{vectors}')"
    )
    for start in (0, 10):
        spark.sql(f"INSERT INTO t SELECT id, 'a' FROM range({start}, {start + 5}, 1, 1)")
    first, second = [row[0] for row in rows("SELECT _metadata.file_path FROM t WHERE id IN (0, 10) ORDER BY id")]
    name = first.rpartition("/")[2]
    spark.sql(f"UPDATE t SET v = _metadata.file_name WHERE _metadata.file_path = '{first}' AND id < 2")
    spark.sql(f"DELETE FROM t WHERE input_file_name() = '{second}' AND id = 12")
    spark.sql("UPDATE t SET v = concat('row ', _metadata.row_id) WHERE _metadata.row_id = 6")
    spark.sql("DELETE FROM t WHERE _metadata.row_id = 8")
    spark.sql("DELETE FROM t WHERE _metadata.base_row_id = 0 AND _metadata.default_row_commit_version = 1 AND id = 4")
    spark.sql(
        "MERGE INTO t USING (SELECT id FROM range(14, 16)) s ON t.id = s.id AND t._metadata.row_id >= 0 "
        "WHEN MATCHED AND t._metadata.file_size > 0 THEN UPDATE SET v = concat('was ', t._metadata.row_id) "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'new') "
        "WHEN NOT MATCHED BY SOURCE AND t._metadata.row_id = 5 THEN DELETE"
    )
    found = dict(rows("SELECT id, v FROM t"))
    expected = {0: name, 1: name, 2: "a", 3: "a", 11: "row 6", 14: "was 9", 15: "new"}
    if vectors == "false":  # the files were written again
        expected[4] = found.get(4)
        expected = {key: value for key, value in expected.items() if value is not None}
    assert found == expected
    assert sorted(rows("SELECT id, _metadata.row_id FROM t WHERE id < 15")) == [
        (key, key if key < 10 else key - 5) for key in sorted(expected) if key < 15
    ]


# --- deletion vectors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vectorized", ["true", "false"])
@pytest.mark.parametrize("name", ["table-with-dv-small", "cdf-table-with-cdc-and-dvs"])
def test_deletion_vectors(spark, rows, shared, settings, name, vectorized):
    table = f"delta.`{shared}/tables/{name}`"
    with settings({"spark.sql.parquet.enableVectorizedReader": vectorized}):
        values = rows(f"SELECT * FROM {table}", ordered=False)
        assert len(values) == rows(f"SELECT count(*) FROM {table}")[0][0]
        assert len(values) == rows(f"SELECT count(1) FROM {table} WHERE true OR rand() < 2")[0][0]
        first = spark.table(table).columns[0]
        assert sorted(rows(f"SELECT `{first}` FROM {table}")) == sorted((row[0],) for row in values)
        # Positions are those in the file, whatever was deleted before them.
        found = rows(f"SELECT _metadata.file_name, _metadata.row_index, `{first}` FROM {table}")
        assert len({row[:2] for row in found}) == len(values)
        if name == "table-with-dv-small":
            assert {(index, value) for _, index, value in found} == {(value, value) for (value,) in values}
        if values and isinstance(values[0][0], int):
            wanted = values[0][0]
            assert rows(f"SELECT `{first}` FROM {table} WHERE `{first}` = {wanted}") == [(wanted,)]


@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_partitions_with_and_without_vectors(rows, database, settings, vectorized):
    """Files of one scan of which some have a vector: partition values come after the columns of either kind."""
    rows("CREATE TABLE t (a INT, p STRING) USING delta PARTITIONED BY (p)")
    rows("ALTER TABLE t SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    rows("INSERT INTO t SELECT /*+ COALESCE(1) */ CAST(id AS INT), concat('p', id % 2) FROM range(6)")
    log = Path(path_of(rows, "t")) / "_delta_log"
    adds = [json.loads(line).get("add") for line in (log / f"{2:020d}.json").read_text().splitlines()]
    file = next(add for add in adds if add and add["partitionValues"] == {"p": "p1"})
    marked = {**file, "deletionVector": inline(BitMap64([1])).to_json()}
    (log / f"{3:020d}.json").write_text(json.dumps({"remove": file}) + "\n" + json.dumps({"add": marked}))
    with settings({"spark.sql.parquet.enableVectorizedReader": vectorized}):
        expected = [(0, "p0"), (1, "p1"), (2, "p0"), (4, "p0"), (5, "p1")]
        assert rows("SELECT * FROM t WHERE a >= 0", ordered=False) == expected
        assert rows("SELECT DISTINCT p FROM t WHERE rand() < 2", ordered=False) == [("p0",), ("p1",)]


def test_a_vector_over_many_rows_and_splits(spark, rows, settings, tmp_path, shared):
    """Nested and string columns through the filter of deleted rows, with files split into several tasks."""
    with settings({"spark.sql.files.maxPartitionBytes": "1000"}):
        table = f"delta.`{shared}/tables/table-with-dv-small`"
        assert rows(f"SELECT count(*) FROM (SELECT DISTINCT value FROM {table})") == [(8,)]


# --- shapes -----------------------------------------------------------------------------------------------------------


def test_a_wide_table(spark, rows, database):
    columns = ", ".join(f"id + {i} AS c{i}" for i in range(250))
    spark.sql(f"CREATE TABLE t USING delta AS SELECT {columns} FROM range(20)")
    assert len(spark.table("t").columns) == 250
    assert rows("SELECT sum(c249), max(c0) FROM t") == [(20 * 249 + 190, 19)]
    assert rows("SELECT c5 FROM t WHERE c200 = 210") == [(15,)]
    frame = spark.table("t").where("c3 = 8")
    assert len(frame.first()) == 250


def test_only_the_nested_fields_asked_for_are_read(spark, rows, database):
    spark.sql(
        "CREATE TABLE t USING delta AS SELECT id, named_struct('a', id, 'b', named_struct('c', id * 2, 'd', 'x')) "
        "AS s, array(named_struct('e', id, 'f', 'y')) AS l FROM range(3)"
    )
    frame = spark.sql("SELECT s.b.c, l.e FROM t WHERE s.a > 0")
    assert sorted(frame.collect()) == [(2, [1]), (4, [2])]
    plan = scanned(frame)
    assert "ReadSchema: struct<s:struct<a:bigint,b:struct<c:bigint>>,l:array<struct<e:bigint>>>" in plan


def test_partitions_are_pruned_and_filters_pushed(spark, rows, database):
    spark.sql("CREATE TABLE t USING delta PARTITIONED BY (p) AS SELECT id, id % 3 AS p FROM range(30)")
    frame = spark.sql("SELECT id FROM t WHERE p = 1 AND id > 20")
    assert sorted(frame.collect()) == [(22,), (25,), (28,)]
    plan = scanned(frame)
    assert "PartitionFilters: [isnotnull(p" in plan
    assert "GreaterThan(id,20)" in plan
    inside = spark.sql("SELECT t.id FROM t JOIN (SELECT 2 AS p) AS d ON t.p = d.p WHERE t.id < 6")
    assert sorted(inside.collect()) == [(2,), (5,)]
    assert spark.table("t").where("p = 1").inputFiles()


@pytest.mark.parametrize("mode", ["name", "id"])
@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_mapped_columns(spark, rows, database, settings, mode, vectorized):
    spark.sql(
        "CREATE TABLE t (`a b` INT, `s,x` STRUCT<`c.d`: INT, e: STRING>, `m=` MAP<STRING, STRUCT<`k v`: INT>>, "
        f"`p q` STRING) USING delta PARTITIONED BY (`p q`) TBLPROPERTIES ('delta.columnMapping.mode' = '{mode}')"
    )
    spark.sql(
        "INSERT INTO t VALUES (1, named_struct('c.d', 2, 'e', 'x'), map('k', named_struct('k v', 3)), 'one'), "
        "(4, NULL, NULL, NULL)"
    )
    with settings({"spark.sql.parquet.enableVectorizedReader": vectorized}):
        assert rows("SELECT `a b`, `s,x`.`c.d`, `m=`['k'].`k v`, `p q` FROM t ORDER BY 1") == [
            (1, 2, 3, "one"),
            (4, None, None, None),
        ]
        assert rows("SELECT `a b` FROM t WHERE `s,x`.`c.d` = 2 AND `p q` = 'one'") == [(1,)]
        assert rows("SELECT `a b` FROM t WHERE `p q` IS NULL") == [(4,)]
        assert rows("SELECT count(*), max(`a b`) FROM t") == [(2, 4)]
    names = [name for name in (p.name for p in Path(path_of(rows, "t")).rglob("*.parquet")) if name]
    assert names


def test_mapped_table_of_another_engine(spark, rows, shared):
    table = f"delta.`{shared}/tables/table_with_column_mapping`"
    assert rows(f"SELECT count(*) FROM {table}")[0][0] == len(rows(f"SELECT * FROM {table}"))


def test_every_type_round_trips(spark, rows, database):
    spark.sql(
        "CREATE TABLE t USING delta AS SELECT CAST(1 AS TINYINT) a, CAST(2 AS SMALLINT) b, 3 c, 4L d, 1.5f e, 2.5d f, "
        "CAST(1.25 AS DECIMAL(38, 10)) g, 'é' h, X'0102' i, true j, DATE'1969-12-31' k, "
        "TIMESTAMP'1900-01-01 00:00:00.000001' l, TIMESTAMP_NTZ'9999-12-31 23:59:59.999999' m, "
        "array(1, NULL) n, "
        "map('k', CAST(NULL AS INT)) o, named_struct('x', CAST(NULL AS INT)) p, parse_json('{\"a\": [1, 2]}') q"
    )
    spark.sql("INSERT INTO t (a) VALUES (9)")
    (full,) = rows("SELECT a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, to_json(q) FROM t WHERE a = 1")
    again = rows(
        "SELECT CAST(1 AS TINYINT), CAST(2 AS SMALLINT), 3, 4L, 1.5f, 2.5d, CAST(1.25 AS DECIMAL(38, 10)), "
        "'é', X'0102', true, DATE'1969-12-31', TIMESTAMP'1900-01-01 00:00:00.000001', "
        "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', array(1, NULL), map('k', NULL), "
        "named_struct('x', CAST(NULL AS INT)), '{\"a\":[1,2]}'"
    )
    assert [full] == again
    assert rows("SELECT count(*) FROM t WHERE b IS NULL AND q IS NULL AND n IS NULL") == [(1,)]


def test_an_empty_table(spark, rows, database):
    spark.sql("CREATE TABLE t (id INT, p INT) USING delta PARTITIONED BY (p)")
    assert rows("SELECT * FROM t") == []
    assert rows("SELECT count(*), max(id), min(p), sum(id) FROM t") == [(0, None, None, None)]
    assert rows("SELECT p, count(*) FROM t GROUP BY p") == []
    assert spark.table("t").inputFiles() == []


def test_aggregates_from_the_log_agree_with_a_scan(spark, rows, database):
    spark.sql(
        "CREATE TABLE t USING delta PARTITIONED BY (p) AS SELECT id, CAST(id % 3 AS INT) AS p, DATE'2020-01-01' + "
        "CAST(id AS INT) AS d, IF(id = 4, NULL, id) AS n FROM range(10)"
    )
    spark.sql("INSERT INTO t VALUES (50, NULL, NULL, NULL)")
    asked = "count(*), count(n), min(id), max(d), min(p), max(n)"
    for condition in ("true", "p = 1", "p IS NULL", "p > 5"):
        from_log = rows(f"SELECT {asked} FROM t WHERE {condition}")
        by_scan = rows(f"SELECT {asked} FROM (SELECT * FROM t WHERE {condition} AND rand() < 2)")
        assert from_log == by_scan
    grouped = rows("SELECT p, count(*), max(id) FROM t GROUP BY p", ordered=False)
    assert grouped == rows("SELECT p, count(*), max(id) FROM t WHERE rand() < 2 GROUP BY p", ordered=False)


def test_a_sample_a_limit_and_an_order(spark, rows, database):
    spark.sql("CREATE TABLE t USING delta AS SELECT id FROM range(100)")
    assert rows("SELECT id FROM t ORDER BY id DESC LIMIT 3") == [(99,), (98,), (97,)]
    assert len(rows("SELECT * FROM t LIMIT 7")) == 7
    assert 0 < spark.table("t").sample(0.5, seed=1).count() < 100
    assert len(spark.table("t").take(5)) == 5
    assert spark.table("t").rdd.getNumPartitions() >= 1
