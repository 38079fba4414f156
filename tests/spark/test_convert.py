"""CONVERT TO DELTA with Spark: rows, columns, partition values and statistics are those that Spark reads of the files,
whoever wrote them; and what is refused leaves folder and catalog as they were.
"""

from __future__ import annotations

import functools
import json
import math
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as f

pytestmark = pytest.mark.spark

#: A column of each type, with values at the ends of what is kept in statistics.
COLUMNS = """
    id, cast(id AS byte) b, cast(id * 300 AS short) sh, cast(id - 2 AS int) i, cast(id / 3 AS float) f,
    IF(id = 3, double('NaN'), id / 3) d, cast(id / 7 AS decimal(5, 2)) small, cast(id / 7 AS decimal(30, 9)) large,
    repeat('ä', int(id) * 20) s, cast(cast(id AS string) AS binary) bin, id % 2 = 0 yes,
    date_add(DATE'2020-01-30', int(id)) day,
    timestamp_micros(1580000000123456 + id * 1000001) at, cast(timestamp_micros(id * 1000003) AS timestamp_ntz) wall,
    IF(id = 1, NULL, named_struct('Xy', id, 'n', named_struct('z', cast(id AS string)))) st,
    array(id, NULL) arr, map('k', id) m, IF(id < 9, NULL, id) none
"""
#: Partition columns: type, values as SQL.
PARTITIONS = {
    "INT": ["7", "-1"],
    "BIGINT": ["9223372036854775807"],
    "STRING": ["'a/b=c%d'", "''", "'ä 1'"],
    "DATE": ["DATE'2020-02-29'", "DATE'1900-01-01'"],
    "TIMESTAMP": ["TIMESTAMP'2020-02-29 12:34:56.000007'", "TIMESTAMP'2019-01-01 00:00:00'"],
    "TIMESTAMP_NTZ": ["TIMESTAMP_NTZ'2020-02-29 12:34:56.000007'"],
    "DOUBLE": ["1.5D", "double('Infinity')"],
    "BOOLEAN": ["true", "false"],
}


def stats(log, path, version=0):
    return {a["add"]["path"]: json.loads(a["add"]["stats"]) for a in log(path, version) if "add" in a}


def same_rows(spark, path, expected):
    found = spark.read.format("delta").load(str(path))
    assert found.columns == expected.columns
    assert sorted(map(repr, found.collect())) == sorted(map(repr, expected.collect()))


def test_columns_and_statistics_are_those_of_rows_written_anew(spark, tmp_path, log, settings):
    plain, anew = tmp_path / "p", tmp_path / "d"
    rows = spark.sql(f"SELECT {COLUMNS} FROM range(0, 6, 1, 1)")
    with settings({"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}):
        rows.write.parquet(str(plain))
    rows.write.format("delta").save(str(anew))
    before = spark.read.parquet(str(plain))
    expected = before.collect()
    spark.sql(f"CONVERT TO DELTA parquet.`{plain}`")
    same_rows(spark, plain, spark.createDataFrame(expected, before.schema))
    assert spark.read.format("delta").load(str(plain)).schema == spark.read.format("delta").load(str(anew)).schema
    (ours,), (theirs,) = stats(log, plain).values(), stats(log, anew).values()
    assert ours == theirs


def test_partition_values_are_those_that_spark_reads(spark, tmp_path, settings):
    path = tmp_path / "t"
    names = [f"p{number}" for number in range(len(PARTITIONS))]
    longest = max(map(len, PARTITIONS.values()))
    rows = [
        ", ".join(f"{values[at] if at < len(values) else 'NULL'} AS {name}"
                  for name, values in zip(names, PARTITIONS.values(), strict=True))
        for at in range(longest + 1)
    ]  # fmt: skip
    frame = spark.sql(" UNION ALL ".join(f"SELECT {at} AS id, {row}" for at, row in enumerate(rows)))
    by_name = dict(zip(names, PARTITIONS, strict=True))
    columns = ", ".join(f"{name} {kind}" for name, kind in by_name.items())
    frame.write.partitionBy(*names).parquet(str(path))
    with settings({"spark.sql.session.timeZone": "Asia/Kathmandu"}):
        # A folder has the text of a time in the zone of who reads it.
        expected = spark.read.schema(f"id INT, {columns}").parquet(str(path))
        expected = spark.createDataFrame(expected.collect(), expected.schema)
        spark.sql(f"CONVERT TO DELTA parquet.`{path}` PARTITIONED BY ({columns})")
        same_rows(spark, path, expected)
        conditions = [
            functools.reduce(
                lambda a, b: a & b,
                [f.col(n).eqNullSafe(f.lit(row[n]).cast(k)) for n, k in by_name.items() if k != "TIMESTAMP_NTZ"],
            )
            for row in expected.collect()
        ]
        assert _counted(spark.read.format("delta").load(str(path)), conditions) == [(at, 1) for at in range(len(rows))]


def test_files_of_other_writers(spark, tmp_path, settings):
    """What a footer says that is not surely so of the rows, as Spark reads them, never leaves a row out."""
    legacy = {
        "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
        "spark.sql.parquet.outputTimestampType": "INT96",
        "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
    }
    with settings(legacy):
        spark.sql(
            "SELECT DATE'1500-01-01' + int(id) * 200000 day, "
            "TIMESTAMP'1500-01-01 00:00:00' + make_dt_interval(int(id) * 200000) at FROM range(0, 2, 1, 1)"
        ).write.parquet(str(tmp_path / "legacy"))
    odd = tmp_path / "odd"
    odd.mkdir()
    table = pa.table({
        "u32": pa.array([1, 2**32 - 1], pa.uint32()),
        "u64": pa.array([1, 2**64 - 1], pa.uint64()),
        "ms": pa.array([1_580_000_000_123, None], pa.timestamp("ms", "UTC")),
        "x": pa.array([1.5, math.nan]),
        "nan": pa.array([math.nan, None], pa.float32()),
        "raw": pa.array([b"\xff\x00", b"\x00"]),
        "dec": pa.array([Decimal("1.50"), Decimal("-7.25")], pa.decimal128(20, 2)),
        "t": pa.array(["\U0010ffff" * 40, ""]),
        "nothing": pa.array([None, None], pa.int64()),
    })  # fmt: skip
    pq.write_table(table, odd / "a.parquet")
    pq.write_table(table.slice(0, 0), odd / "no rows.parquet")
    # Only the log's statistics are to skip files here.
    with settings({"spark.sql.parquet.filterPushdown": "false"}):
        for path in (tmp_path / "legacy", odd):
            before = spark.read.parquet(str(path))
            values = [row.asDict() for row in before.collect()]
            conditions = [
                f.col(name).eqNullSafe(f.lit(value).cast(before.schema[name].dataType))
                for row in values
                for name, value in row.items()
            ]
            counts = _counted(before, conditions)
            expected = spark.createDataFrame(values, before.schema).select(*before.columns)
            spark.sql(f"CONVERT TO DELTA parquet.`{path}`")
            same_rows(spark, path, expected)
            after = spark.read.format("delta").load(str(path))
            assert _counted(after, conditions) == counts
        assert spark.read.format("delta").load(str(odd)).where("x > 100").count() == 1


def _counted(frame, conditions):
    """How many rows meet each condition, each filtered by it alone."""
    found = [frame.where(condition).select(f.lit(at).alias("at")) for at, condition in enumerate(conditions)]
    return sorted(map(tuple, functools.reduce(lambda a, b: a.union(b), found).groupBy("at").count().collect()))


def test_the_sink_of_a_stream(spark, tmp_path):
    source, sink = tmp_path / "source", tmp_path / "sink"
    spark.range(3).write.format("delta").save(str(source))
    stream = spark.readStream.format("delta").load(str(source)).writeStream.format("parquet").trigger(availableNow=True)
    stream.option("checkpointLocation", str(tmp_path / "c")).start(str(sink)).awaitTermination()
    spark.range(7, 8).coalesce(1).write.parquet(str(tmp_path / "stray"))
    (stray,) = (tmp_path / "stray").glob("*.parquet")
    stray.rename(sink / "stray.parquet")
    spark.sql(f"CONVERT TO DELTA parquet.`{sink}`")
    assert sorted(r.id for r in spark.read.format("delta").load(str(sink)).collect()) == [0, 1, 2]


def test_what_is_refused_leaves_folder_and_catalog(spark, tmp_path, database, fails):
    path = tmp_path / "t"
    spark.sql(f"CREATE TABLE t (id BIGINT, k STRING) USING parquet PARTITIONED BY (k) LOCATION '{path}'")
    spark.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    spark.sql("CREATE TEMPORARY VIEW v AS SELECT * FROM t")
    spark.sql("CREATE TABLE c (id INT) USING csv")
    spark.sql("CREATE TABLE empty (id INT, k INT) USING parquet PARTITIONED BY (k)")
    spark.sql("CREATE TABLE d (id INT) USING delta")
    with fails("DELTA_CONVERT_NON_PARQUET_TABLE", "v is a view"):
        spark.sql("CONVERT TO DELTA v")
    with fails("DELTA_CONVERT_NON_PARQUET_TABLE", "csv"):
        spark.sql("CONVERT TO DELTA c")
    with fails("DELTA_CONVERSION_NO_PARTITION_FOUND", "MSCK REPAIR TABLE"):
        spark.sql("CONVERT TO DELTA empty")
    with fails("DELTA_UNEXPECTED_PARTITION_SCHEMA_FROM_USER", "k string", "k int"):
        spark.sql("CONVERT TO DELTA t PARTITIONED BY (k INT)")
    with fails("TABLE_OR_VIEW_NOT_FOUND", state="42P01"):
        spark.sql("CONVERT TO DELTA nowhere")
    with fails("DELTA_MISSING_PROVIDER_FOR_CONVERT", f"parquet.`{path}`"):
        spark.sql(f"CONVERT TO DELTA `{path}`")
    with fails("PARSE_SYNTAX_ERROR", state="42601"):
        spark.sql("CONVERT TO DELTA t PARTITIONED BY (k NOTYPE(")
    with fails("HEADWATER_CONVERT_NO_FILES", "/nothing"):
        spark.sql("CONVERT TO DELTA parquet.`/nothing/at all`")
    spark.sql("CONVERT TO DELTA d")
    wrong = path / "k=b" / "wrong.parquet"
    spark.sql("SELECT 'x' AS id").coalesce(1).write.parquet(str(tmp_path / "w"))
    next((tmp_path / "w").glob("*.parquet")).rename(wrong)
    with fails("DELTA_FAILED_MERGE_SCHEMA_FILE", str(wrong), "column id is string"):
        spark.sql("CONVERT TO DELTA t")
    damaged = b"PAR1 and then nothing"
    wrong.write_bytes(damaged)
    with fails("HEADWATER_CONVERT_FILE_NOT_USABLE", str(wrong)):
        spark.sql("CONVERT TO DELTA t")
    assert not (path / "_delta_log").exists()
    described = {row[0]: row[1] for row in spark.sql("DESCRIBE EXTENDED t").collect()}
    assert described["Provider"] == "parquet"
    wrong.unlink()
    # The log is there, and the catalog does not know it: the next run ends the work.
    spark.sql(f"CONVERT TO DELTA parquet.`{path}` PARTITIONED BY (k STRING)")
    assert spark.sql("SELECT * FROM t").count() == 2
    spark.sql("CONVERT TO DELTA t")
    assert sorted(map(tuple, spark.sql("SELECT * FROM t").collect())) == [(1, "a"), (2, "b")]
    assert spark.sql("DESCRIBE HISTORY t").count() == 1
