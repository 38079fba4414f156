"""How often a query asks the handler: about all of its tables at once, not about each."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest


@pytest.fixture
def star(spark, database):
    """A fact table of ten files in two partitions, and three small ones."""
    spark.conf.set("spark.sql.files.maxRecordsPerFile", 100)
    spark.sql(
        "CREATE TABLE fact USING delta PARTITIONED BY (half) AS "
        "SELECT id, id % 7 AS a, id % 5 AS b, id % 3 AS c, id DIV 500 AS half FROM range(0, 1000, 1, 1)"
    )
    spark.conf.unset("spark.sql.files.maxRecordsPerFile")
    for name, rows in (("a", 7), ("b", 5), ("c", 3)):
        spark.sql(f"CREATE TABLE dim_{name} USING delta AS SELECT id AS {name}, id * 10 AS v{name} FROM range({rows})")


@contextmanager
def calls(spark, count):
    timer = spark._jvm.org.apache.spark.sql.headwater.bridge.HandlerMetrics.metricRegistry().timer("calls")
    before = timer.getCount()
    yield
    assert timer.getCount() - before == count


STAR = (
    "SELECT count(*), sum(va + vb + vc) FROM fact JOIN dim_a USING (a) JOIN dim_b USING (b) JOIN dim_c USING (c) "
    "WHERE va > 10 AND vb < 40 AND vc >= 10 AND id >= 300"
)


def star_sums(first):
    rows = [(i % 7 * 10, i % 5 * 10, i % 3 * 10) for i in range(first, 1000)]
    kept = [sum(row) for row in rows if row[0] > 10 and row[1] < 40 and row[2] >= 10]
    return [(len(kept), sum(kept))]


def test_a_join_asks_once_about_all_of_its_tables(spark, rows, star):
    with calls(spark, 7):  # four are loaded; then once for their versions, once for their files, once for keys of joins
        assert rows(STAR) == star_sums(300)


def test_a_scan_that_occurs_again_is_answered_again_by_the_same(spark, rows, star):
    query = " UNION ALL ".join([STAR] * 5)
    with calls(spark, 7):
        assert rows(query) == star_sums(300) * 5


def test_a_table_under_several_filters(spark, rows, star):
    """The same relation, as a table of the past has it in all branches of a union, each with files of its own."""
    fact = spark.read.option("versionAsOf", 0).table("fact")
    ranges = ((0, 99), (250, 349), (900, 2000), (50, 60))
    parts = [fact.where(f"id BETWEEN {first} AND {last}") for first, last in ranges]
    union = parts[0].unionAll(parts[1]).unionAll(parts[2]).unionAll(parts[3])
    files = [part.inputFiles() for part in parts]
    assert [len(each) for each in files] == [1, 2, 1, 1]
    with calls(spark, 1):
        found = sorted(row.id for row in union.collect())
    assert found == sorted(i for first, last in ranges for i in range(first, min(last, 999) + 1))


def test_a_limit_and_a_filter_ask_together(spark, rows, star):
    query = (
        "SELECT * FROM (SELECT id FROM fact WHERE half = 1 ORDER BY id DESC LIMIT 3) "
        "UNION ALL SELECT * FROM (SELECT a FROM dim_a WHERE a > 5 LIMIT 9)"
    )
    with calls(spark, 4):
        assert sorted(rows(query)) == [(6,), (997,), (998,), (999,)]


def test_an_error_of_one_table_is_the_querys(spark, rows, star, tmp_path):
    frame = spark.sql(STAR)
    spark.sql("ALTER TABLE dim_b SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    spark.sql("ALTER TABLE dim_b RENAME COLUMN vb TO other")
    with pytest.raises(Exception, match="DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS.*dim_b"):
        frame.collect()
    spark.sql("ALTER TABLE dim_b RENAME COLUMN other TO vb")
    assert rows(STAR) == star_sums(300)


def test_tables_with_options_of_their_own(spark, rows, star):
    """What one is reached with is not told to where another one lies, so they are asked about apart."""
    paths = [rows(f"DESCRIBE DETAIL dim_{name}")[0][4].removeprefix("file:") for name in "ab"]
    options = [{"fs.of.a": "1"}, {"fs.of.b": "2"}]
    a, b = (spark.read.format("delta").options(**own).load(path) for path, own in zip(paths, options, strict=True))
    joined = a.where("a >= 2").crossJoin(b.where("b >= 1")).crossJoin(spark.table("dim_c").where("c = 1"))
    with calls(spark, 6):
        assert joined.count() == 5 * 4


def test_a_long_list_is_read_once_for_all_its_scans(spark, tmp_path):
    """It crosses in a file, which is gone after that."""
    table = tmp_path / "long"
    (table / "_delta_log").mkdir(parents=True)
    schema = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "long", "format": {"provider": "parquet", "options": {}}, "schemaString": json.dumps(schema),
                "partitionColumns": [], "configuration": {},
            }
        },
    ]  # fmt: skip
    for number in range(5000):
        bounds = {"numRecords": 1, "minValues": {"id": number}, "maxValues": {"id": number}, "nullCount": {"id": 0}}
        actions.append(
            {
                "add": {
                    "path": f"{number}.parquet", "partitionValues": {}, "size": 1, "modificationTime": 0,
                    "dataChange": True, "stats": json.dumps(bounds),
                }
            }
        )  # fmt: skip
    (table / "_delta_log" / f"{0:020}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))
    long = spark.read.format("delta").load(str(table))
    for number in range(7):  # those of a short list are looked for
        (table / f"{number}.parquet").touch()
    twice = long.where("id >= 500").unionAll(long.where("id >= 500")).unionAll(long.where("id < 7"))
    assert len(twice.inputFiles()) == 4507
    optimized = twice._jdf.queryExecution().optimizedPlan()
    assert [optimized.children().apply(i).stats().sizeInBytes() for i in range(3)] == [4500, 4500, 7]
