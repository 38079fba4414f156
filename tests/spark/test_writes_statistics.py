"""Statistics of written files: true of the rows, and of use: skipping never loses a row, aggregates from the log are
exact."""

from __future__ import annotations

import itertools
import json
import math
import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions


@pytest.fixture
def location(rows):
    def find(table: str) -> Path:
        return Path(rows(f"DESCRIBE DETAIL {table}")[0][4].removeprefix("file:"))

    return find


def statistics(log, path: Path, version: int) -> list[dict]:
    """Of each file added: its statistics, and its rows under ``rows``."""
    adds = [a["add"] for a in log(path, version) if "add" in a]
    return [{**json.loads(add["stats"]), "rows": pq.ParquetFile(path / add["path"]).read().to_pylist()} for add in adds]


def test_statistics_are_true(spark, log, location, database):
    spark.sql(
        "CREATE TABLE t (i INT, d DOUBLE, s STRING, de DECIMAL(10,2), st STRUCT<x: INT, y: STRUCT<z: STRING>>, b "
        "BOOLEAN, bi BINARY) USING delta"
    )
    spark.sql(
        """INSERT INTO t SELECT IF(id % 7 = 0, NULL, id - 50), id / 8D, concat('t', id), CAST(id / 4 AS DECIMAL(10,2)),
        IF(id % 5 = 0, NULL, named_struct('x', id, 'y', named_struct('z', IF(id % 3 = 0, NULL,
        CAST(id AS STRING))))), id % 2 = 0, X'00'
        FROM range(0, 100, 1, 2)"""
    )
    found = statistics(log, location("t"), 1)
    assert len(found) == 2
    leaves = {("i",), ("d",), ("s",), ("de",), ("st", "x"), ("st", "y", "z")}

    def at(value, path):
        for name in path:
            value = None if value is None else value.get(name)
        return value

    for stats in found:
        assert stats["numRecords"] == len(stats["rows"]) == 50
        for path in leaves:
            values = [at(row, path) for row in stats["rows"]]
            known = [value for value in values if value is not None]
            assert at(stats["nullCount"], path) == len(values) - len(known), path
            assert at(stats["minValues"], path) == type(at(stats["minValues"], path))(min(known)), path
            assert at(stats["maxValues"], path) == type(at(stats["maxValues"], path))(max(known)), path
        assert stats["nullCount"]["b"] == stats["nullCount"]["bi"] == 0
        assert "bi" not in stats["minValues"]


def test_no_file_is_read_again_for_its_statistics(spark, log, location, database):
    def bytes_read() -> int:
        return sum(s.getBytesRead() for s in spark._jvm.org.apache.hadoop.fs.FileSystem.getAllStatistics())

    spark.sql("CREATE TABLE t (i INT, s STRING, p INT) USING delta PARTITIONED BY (p)")
    before = bytes_read()
    spark.sql("INSERT INTO t VALUES (1, 'a', 1), (2, NULL, 1), (NULL, 'b', 2), (NULL, 'c', 2)")
    assert bytes_read() == before
    found = statistics(log, location("t"), 1)
    found = [(s["numRecords"], s["minValues"], s["maxValues"], s["nullCount"]) for s in found]
    assert sorted(found, key=repr) == [
        (2, {"i": 1, "s": "a"}, {"i": 2, "s": "a"}, {"i": 0, "s": 1}),
        (2, {"s": "b"}, {"s": "c"}, {"i": 2, "s": 0}),
    ]
    with pytest.raises(Exception, match="no integer"):
        spark.sql("INSERT INTO t SELECT id, assert_true(id < 30, 'no integer'), id % 3 FROM range(0, 40, 1, 1)")
    closed = spark._jvm.headwater.spark.write.ClosedFiles
    assert closed.size() == 0


def test_long_texts_are_cut(spark, rows, log, location, database):
    spark.sql("CREATE TABLE t (s STRING) USING delta")
    long, last = "a" * 100, "\U0010ffff" * 40
    for text in (long, last, "é" * 50):
        spark.createDataFrame([(text,)], "s STRING").coalesce(1).write.format("delta").mode("append").saveAsTable("t")
    for version, text in enumerate((long, last, "é" * 50), 1):
        (stats,) = statistics(log, location("t"), version)
        assert stats["minValues"]["s"] == text[:32]
        highest = stats["maxValues"].get("s")
        assert highest is None or (highest.encode() >= text.encode() and len(highest) <= 64)
        assert spark.table("t").where(functions.col("s") == text).count() == 1
    assert rows("SELECT min(s) = repeat('a', 100), max(length(s)) FROM t") == [(True, 100)]


def test_nan_and_infinity(spark, rows, log, location, database):
    spark.sql("CREATE TABLE t (d DOUBLE) USING delta")
    for values in ("double('NaN'), 1D", "double('Infinity'), 5D", "-0D, 0D", "double('NaN')"):
        spark.sql(f"INSERT INTO t SELECT explode(array({values}))")
    for condition, expected in {
        "isnan(d)": 2,
        "d > 1": 4,
        "d = 0": 2,
        "d >= double('NaN')": 2,
        "d < 1": 2,
        "d = double('Infinity')": 1,
    }.items():
        assert rows(f"SELECT count(*) FROM (SELECT d FROM t WHERE {condition})") == [(expected,)], condition
    assert math.isnan(rows("SELECT max(d) FROM t")[0][0])
    assert rows("SELECT min(d) FROM t") == [(0.0,)]


def test_indexed_columns(spark, log, location, database):
    spark.sql(
        "CREATE TABLE first (a INT, st STRUCT<b: INT, c: INT>, d INT) USING delta TBLPROPERTIES "
        "('delta.dataSkippingNumIndexedCols' = '2')"
    )
    spark.sql(
        "CREATE TABLE named (a INT, st STRUCT<b: INT, c: INT>, d INT) USING delta TBLPROPERTIES "
        "('delta.dataSkippingStatsColumns' = 'st.c,d')"
    )
    spark.sql("CREATE TABLE none (a INT) USING delta TBLPROPERTIES ('delta.dataSkippingNumIndexedCols' = '0')")
    for table, expected in {"first": {"a": 0, "st": {"b": 0}}, "named": {"st": {"c": 0}, "d": 0}}.items():
        spark.sql(f"INSERT INTO {table} VALUES (1, named_struct('b', 2, 'c', 3), 4)")
        (stats,) = statistics(log, location(table), 1)
        assert stats["nullCount"] == expected
        assert stats["minValues"].keys() == expected.keys()
    spark.sql("INSERT INTO none VALUES (1)")
    (stats,) = statistics(log, location("none"), 1)
    assert stats["numRecords"] == 1
    assert stats["nullCount"] == {}


def files_read(spark, query: str) -> int:
    """The number of files a query's scan reads, as Spark's own metric says."""
    frame = spark.sql(query)
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan()
    plan = plan.executedPlan() if plan.getClass().getSimpleName() == "AdaptiveSparkPlanExec" else plan
    leaves = plan.collectLeaves()
    return sum(leaves.apply(i).metrics().get("numFiles").get().value() for i in range(leaves.size()))


def test_skipping_is_visible(spark, rows, database):
    spark.sql("CREATE TABLE t (id BIGINT, p STRING, st STRUCT<x: STRING>) USING delta PARTITIONED BY (p)")
    for i in range(4):
        spark.sql(
            f"INSERT INTO t SELECT id, 'p{i % 2}', named_struct('x', concat('v', id)) "
            f"FROM range({i * 100}, {i * 100 + 100}, 1, 1)"
        )
    for condition, files in {
        "id = 250": 1, "id IN (5, 305)": 2, "id > 1000": 0, "p = 'p1'": 2, "p = 'p1' AND id < 150": 1,
        "st.x LIKE 'v25%'": 2, "NOT (id < 300)": 1, "id IS NULL": 0, "id % 2 = 0": 4, "CAST(id AS STRING) = '7'": 4,
    }.items():  # fmt: skip
        read = files_read(spark, f"SELECT * FROM t WHERE {condition}")
        assert read == files if condition != "CAST(id AS STRING) = '7'" else 1 <= read <= files, condition
    assert len(spark.table("t").where("id = 250").inputFiles()) == 1  # pruned while optimizing
    assert len(spark.table("t").inputFiles()) == 4


def test_skipping_never_loses_a_row(spark, rows, database):
    """Random rows in many files, random predicates: the same count with skipping as over a plain copy."""
    chance = random.Random(20)
    spark.sql(
        "CREATE TABLE t (i INT, d DOUBLE, s STRING, ts TIMESTAMP, da DATE, st STRUCT<x: INT>, p STRING) USING delta "
        "PARTITIONED BY (p)"
    )

    def value(kind):
        if chance.random() < 0.15:
            return "NULL"
        n = chance.randint(-20, 20)
        return {
            "i": str(n),
            "d": chance.choice([f"{n / 4}D", "double('NaN')", "double('-Infinity')", "-0D"]),
            "s": "'" + chance.choice(["", "a", "ab", "b", "é", "\U0001f600", "x" * 40, "x" * 40 + "y"]) + "'",
            "ts": f"TIMESTAMP'2024-01-{n % 28 + 1:02d} 12:00:00.{abs(n):03d}456'",
            "da": f"DATE'19{n % 90 + 10}-01-01'",
            "st": f"named_struct('x', {n})",
            "p": chance.choice(["'a'", "'b'", "'c d'"]),
        }[kind]

    kinds = ["i", "d", "s", "ts", "da", "st", "p"]

    def row():
        return "(" + ", ".join(value(kind) for kind in kinds) + ")"

    for _ in range(4):
        spark.sql("INSERT INTO t SELECT /*+ REPARTITION(3) */ * FROM VALUES " + ", ".join(row() for _ in range(9)))
    spark.table("t").write.format("parquet").saveAsTable("plain")

    def condition(depth=0):
        pick = chance.random()
        if depth < 2 and pick < 0.35:
            return f"({condition(depth + 1)} {chance.choice(['AND', 'OR'])} {condition(depth + 1)})"
        if depth < 2 and pick < 0.45:
            return f"NOT {condition(depth + 1)}"
        kind = chance.choice(kinds)
        column = "st.x" if kind == "st" else kind
        literal = value("i") if kind == "st" else value(kind)
        if chance.random() < 0.15:
            return f"{column} IS {chance.choice(['', 'NOT '])}NULL"
        if kind in ("s", "p") and chance.random() < 0.3:
            return f"{column} LIKE '{chance.choice(['x', 'a', 'xxx', ''])}%'"
        if chance.random() < 0.2:
            return f"{column} IN ({literal}, {value('i') if kind == 'st' else value(kind)})"
        return f"{column} {chance.choice(['=', '<', '<=', '>', '>=', '<=>', '!='])} {literal}"

    conditions = [condition() for _ in range(40)]
    counts = ", ".join(f"count_if({c})" for c in conditions)
    expected = rows(f"SELECT {counts} FROM plain")[0]
    # One query of many branches: each scans, and skips, on its own.
    union = " UNION ALL ".join(
        f"SELECT {n} AS n, count(i IS NULL) AS c FROM t WHERE {c}" for n, c in enumerate(conditions)
    )
    found = dict(rows(union))
    wrong = [(c, found[n], expected[n]) for n, c in enumerate(conditions) if found[n] != expected[n]]
    assert not wrong


def test_aggregates_from_the_log(spark, rows, database):
    spark.sql("CREATE TABLE t (a INT, s STRING, da DATE, p STRING) USING delta PARTITIONED BY (p)")
    spark.sql(
        "INSERT INTO t SELECT id, concat('s', id), DATE'2024-01-01' + CAST(id AS INT), IF(id < 5, 'x', 'y') FROM "
        "range(10)"
    )
    spark.sql("INSERT INTO t VALUES (NULL, NULL, NULL, NULL)")
    for query, answer in {
        "SELECT count(*), count(a), min(a), max(a) FROM t": "[(11, 10, 0, 9)]",
        "SELECT p, count(*), max(a) FROM t GROUP BY p ORDER BY p": "[(None, 1, None), ('x', 5, 4), ('y', 5, 9)]",
        "SELECT count(*) FROM t WHERE p = 'x'": "[(5,)]",
        "SELECT min(da), max(da) FROM t": "[(datetime.date(2024, 1, 1), datetime.date(2024, 1, 10))]",
    }.items():
        assert repr(rows(query)) == answer, query
        plan = spark.sql(query)._jdf.queryExecution().optimizedPlan().toString()
        assert "LocalRelation" in plan, plan
    assert rows("SELECT count(*) FROM t WHERE a > 4") == [(5,)]


EXISTENCE = [
    "SELECT 1 WHERE EXISTS (SELECT * FROM {t} WHERE p = {p})",
    "SELECT 1 WHERE NOT EXISTS (SELECT a FROM {t} WHERE p = {p})",
    "SELECT 1 WHERE EXISTS (SELECT * FROM {t} WHERE p = {p} AND a > 2)",
    "SELECT id FROM range(2) WHERE EXISTS (SELECT * FROM {t} WHERE p IS NULL OR p = {p})",
    "SELECT 'x' AS x, NULL AS y FROM {t} WHERE p = {p} LIMIT 3",
    "SELECT count(*) FROM (SELECT * FROM {t} WHERE p <=> {p} LIMIT 3)",
    "SELECT DISTINCT p FROM {t} WHERE p <=> {p} OR p = 'y'",
    "SELECT p, count(*), count(a), min(a), max(a) FROM {t} WHERE p <=> {p} GROUP BY p",
]


def test_rows_of_constants_are_as_many_as_a_scan_finds(spark, rows, database):
    spark.sql(
        "CREATE TABLE t (a INT, p STRING) USING delta PARTITIONED BY (p) TBLPROPERTIES "
        "('delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name')"
    )
    spark.sql("INSERT INTO t VALUES (1, 'x'), (2, 'x'), (3, 'y'), (4, NULL), (NULL, 'z'), (5, 'z'), (6, 'w'), (7, '')")
    spark.sql("DELETE FROM t WHERE a = 1 OR a = 6")
    null = "CAST(NULL AS STRING)"
    for table, values in {"t": ("'x'", "'w'"), "t VERSION AS OF 1": (null,), "t VERSION AS OF 0": ("'gone'",)}.items():
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW judge AS SELECT a + 0 AS a, concat(p, '') AS p FROM {table}")
        for query, p in itertools.product(EXISTENCE, values):
            found, expected = (sorted(rows(query.format(t=t, p=p)), key=repr) for t in (table, "judge"))
            assert found == expected, (table, query, p)
    plan = spark.sql("SELECT 1 WHERE EXISTS (SELECT * FROM t WHERE p = 'x')")._jdf.queryExecution().executedPlan()
    assert "FileScan" not in plan.toString()


def test_settings_of_parquet_take_no_statistics_from_the_log(spark, rows, settings, database, log, location):
    """Identity columns take their last value from them too."""
    spark.sql("CREATE TABLE t (id BIGINT GENERATED ALWAYS AS IDENTITY, v INT, w STRING) USING delta")
    off = {"parquet.column.statistics.enabled": "false", "parquet.column.statistics.enabled#v": "false"}
    with settings(off):
        for _ in range(2):
            spark.sql("INSERT INTO t (v, w) VALUES (1, 'a')")
    assert len({number for number, _, _ in rows("SELECT * FROM t")}) == 2
    stats = [json.loads(action["add"]["stats"]) for action in log(location("t"), 2) if "add" in action]
    assert [set(found["maxValues"]) for found in stats] == [{"id", "v", "w"}]
