"""One story of statements about tables by name: what each combination of catalog and client must answer alike."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, CharType, IntegerType, StringType, StructField, StructType

from headwater.tables import DeltaTable

_BEFORE = """
CREATE TABLE t (k INT NOT NULL, v STRING, p INT, CONSTRAINT few CHECK (k < 100)) USING delta PARTITIONED BY (p)
    COMMENT 'a table'
    TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'delta.columnMapping.mode' = 'name', 'a' = 'b');
INSERT INTO t VALUES (1, 'a', 0), (2, 'b', 0), (3, 'c', 1);
INSERT INTO t VALUES (100, 'x', 0);
UPDATE t SET v = 'B' WHERE k = 2;
DELETE FROM t WHERE k = 1;
MERGE INTO t USING (SELECT 3 AS k, 'C' AS v, 1 AS p UNION ALL SELECT 4, 'd', 1) s ON t.k = s.k
    WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
INSERT OVERWRITE t PARTITION (p = 0) SELECT 5, 'e';
ALTER TABLE t ADD COLUMNS (more STRUCT<x: INT>);
ALTER TABLE t RENAME COLUMN v TO w;
SELECT * FROM t ORDER BY k;
SELECT k, v FROM t VERSION AS OF 1 ORDER BY k;
SELECT k, _change_type FROM table_changes('t', 2, 4) ORDER BY _commit_version, k, _change_type;
SELECT k, _change_type FROM t CHANGES FROM VERSION 3 TO VERSION 3;
SELECT k, _change_type FROM t WITH (readChangeFeed = true, startingVersion = 3, endingVersion = 3);
CREATE VIEW w AS SELECT k, w FROM t WHERE k > 3;
SELECT * FROM w ORDER BY k;
SHOW PARTITIONS t;
SHOW COLUMNS IN t;
SHOW TBLPROPERTIES t ('a');
DESCRIBE t;
DESCRIBE EXTENDED t;
SHOW TABLE EXTENDED LIKE 't';
CREATE TABLE l LIKE t;
CREATE OR REPLACE TABLE r USING delta CLUSTER BY (id) AS SELECT 1 AS id;
CREATE OR REPLACE TABLE r USING delta AS SELECT 'x' AS name;
ALTER TABLE r RENAME TO renamed;
SELECT * FROM renamed;
CREATE TABLE pq (id INT) USING parquet;
INSERT INTO pq VALUES (1);
SELECT * FROM pq;
DELETE FROM nowhere WHERE k = 1
"""
#: Tables of Parquet, and where there is a metastore of Hive's, one that Hive's own format describes.
_CONVERTED = """
CREATE TABLE cp (Id INT, d DATE) USING parquet PARTITIONED BY (d) TBLPROPERTIES ('mine' = '1');
INSERT INTO cp VALUES (1, DATE'2020-01-05'), (2, NULL);
CREATE VIEW cv AS SELECT * FROM cp;
SELECT * FROM cp ORDER BY Id;
CONVERT TO DELTA cv;
CONVERT TO DELTA cp PARTITIONED BY (d INT);
CONVERT TO DELTA cp;
CONVERT TO DELTA cp;
INSERT INTO cp VALUES (3, DATE'2020-01-06');
DELETE FROM cp WHERE d IS NULL;
SELECT * FROM cv ORDER BY Id;
SHOW PARTITIONS cp;
DESCRIBE EXTENDED cp;
SHOW CREATE TABLE cp;
CONVERT TO DELTA hv NO STATISTICS;
INSERT INTO hv VALUES (2);
SELECT * FROM hv ORDER BY id;
DESCRIBE EXTENDED hv;
DROP VIEW cv;
ALTER TABLE cp RENAME TO cq;
DROP TABLE cq;
DROP TABLE hv
"""
_AFTER = """
OPTIMIZE t;
REORG TABLE t APPLY (PURGE);
VACUUM t DRY RUN;
RESTORE TABLE t TO VERSION AS OF 2;
TRUNCATE TABLE l;
SHOW TABLES;
DROP VIEW w;
DROP TABLE renamed;
SELECT count(*) FROM t
"""
#: A table whose place has a space, under two names.
_ELSEWHERE = """
CREATE TABLE e USING delta LOCATION '{place}' AS SELECT 5 AS id;
ALTER TABLE e RENAME TO f;
SELECT * FROM f;
SHOW CREATE TABLE f;
CREATE OR REPLACE TABLE l USING delta LOCATION '{place}' AS SELECT 6 AS id;
CREATE OR REPLACE TABLE o (b INT) USING delta LOCATION '{place}';
INSERT INTO f VALUES (6);
DROP TABLE f
"""
#: What differs between any two tables: times, sizes of files, places, who made it and with what.
_PASSING = re.compile(
    r"(?m)^(?:Owner|Created Time|Created By|Last Access|Location|Serde Library|InputFormat|OutputFormat|"
    r"Storage Properties): ?.*\n"
)
_BYTES = re.compile(r"\d+ bytes")


def by_name(spark: SparkSession, home: str, whole: bool = True) -> list[list[Any]]:
    """Each step's name and what it gave: rows, or the condition of an error.

    :param home: a folder for files.
    :param whole: also what Python asks for, and tables that are converted or lie elsewhere.
    """
    spark.sql(f"CREATE DATABASE names LOCATION '{home}/names'")
    spark.sql("USE names")
    found: list[list[Any]] = []

    def step(name: str, work: Callable[[], Any]) -> None:
        try:
            result = work()
        except PySparkException as error:
            result = error.getCondition()
        found.append([_plain(name, home), _plain(result, home)])

    def statements(text: str) -> None:
        for statement in text.strip().split(";\n"):
            step(statement, lambda statement=statement: _rows(spark, statement))  # type: ignore[misc]

    statements(_BEFORE)
    if whole:
        _by_name_from_python(spark, home, step)
        statements(_CONVERTED)
        statements(_ELSEWHERE.replace("{place}", f"{home}/else where"))
        step("left there", lambda: spark.read.format("delta").load(f"{home}/else where").count())
        statements(_AFTER)
    spark.sql("USE default")
    spark.sql("DROP DATABASE names CASCADE")
    return found


def _by_name_from_python(spark: SparkSession, home: str, step: Callable[[str, Callable[[], Any]], None]) -> None:
    def changes(option: str, name: str) -> Any:
        reader = spark.read.option(option, True).option("startingVersion", 1).option("endingVersion", 3)
        return _sorted(reader.table(name).select("k", "_change_type"))

    step("feed", lambda: changes("readChangeFeed", "t"))
    step("log", lambda: changes("readChangelog", "names.t"))
    table = DeltaTable.forName(spark, "t")
    step("changelog", lambda: _sorted(table.changelog(1, 3).select("k", "_ordinal")))
    step("debezium", lambda: table.debezium(1, 3, keys=["k"]).count())
    news = spark.createDataFrame([(5, "E", 0, None), (6, "f", 0, None)], "k INT, w STRING, p INT, more STRUCT<x: INT>")
    merge = table.alias("t").merge(news.alias("s"), "t.k = s.k").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    step("merge", lambda: merge.execute().collect())
    step("update", lambda: table.update(f.col("k") == 6, {"w": f.lit("F")}).collect())
    step("stream", lambda: _stream(spark, home))
    step("text", lambda: _text(spark))
    step("existing", lambda: _existing(spark, f"{home}/names/t"))
    step("of Hive", lambda: _of_hive(spark))


def _rows(spark: SparkSession, statement: str) -> list[Any]:
    rows = [row for row in spark.sql(statement).collect() if row[:1] != ("Owner",)]  # Hive's metastore knows it
    # The metrics of a rewrite have times, and the files of a client's rows differ in number.
    return [row[0] for row in rows] if statement.startswith(("OPTIMIZE", "REORG")) else rows


def _stream(spark: SparkSession, home: str) -> Any:
    """Changes of a table by name since its columns were renamed, into a table that the stream creates."""
    source = spark.readStream.option("readChangeFeed", True).option("startingVersion", 8).table("t")
    writer = source.select("k", "_change_type").writeStream.format("delta").trigger(availableNow=True)
    writer.option("checkpointLocation", f"{home}/checkpoint").toTable("followed").awaitTermination()
    return _sorted(spark.table("followed"))


def _text(spark: SparkSession) -> Any:
    """Columns whose type a program gave as an object. In Spark Connect, ``StringType()`` names its collation."""
    columns = StructType(
        [
            StructField("id", IntegerType()),
            StructField("v", StringType()),
            StructField("c", CharType(3)),
            StructField("n", StructType([StructField("l", ArrayType(StringType()))])),
        ]
    )
    spark.catalog.createTable("texts", schema=columns, source="delta")
    rows = spark.range(2).select(f.col("id").cast("int"), f.col("id").cast(StringType()).alias("v"))
    rows.withColumn("c", f.lit("x")).withColumn("n", f.struct(f.array(f.col("v")).alias("l"))).writeTo("texts").append()
    given = f.udf(lambda number: f"<{number}>", StringType())
    spark.range(2, 3).select(f.col("id").cast("int"), given("id").alias("v"), given("id").alias("new")).write.format(
        "delta"
    ).mode("append").option("mergeSchema", True).saveAsTable("texts")
    spark.sql("ALTER TABLE texts ADD COLUMNS (d STRING COLLATE UTF8_BINARY)")
    return [spark.table("texts").schema.json(), _sorted(spark.table("texts"))]


def _existing(spark: SparkSession, path: str) -> Any:
    """A table that is there gets a second name; where it lies is no property of it."""
    spark.catalog.createTable("existing", path=path, source="delta")
    return [spark.table("existing").count(), spark.sql("SHOW TBLPROPERTIES existing ('path')").collect()[0][1]]


def _of_hive(spark: SparkSession) -> Any:
    """A table that Hive's own format describes, where there is a metastore of Hive's."""
    has_hive = spark.conf.get("spark.sql.catalogImplementation") == "hive"
    spark.sql(f"CREATE TABLE hv (id INT) {'STORED AS PARQUET' if has_hive else 'USING parquet'}")
    spark.sql("INSERT INTO hv VALUES (1)")
    return _sorted(spark.sql("SELECT * FROM hv UNION ALL SELECT * FROM pq"))


def _sorted(frame: Any) -> list[list[Any]]:
    return sorted(([*row] for row in frame.collect()), key=repr)


def _plain(value: Any, home: str) -> Any:
    if isinstance(value, str):
        return _BYTES.sub("n bytes", _PASSING.sub("", value)).replace(home, "HOME")
    if isinstance(value, list | tuple):
        return [_plain(item, home) for item in value]
    return value if value is None or isinstance(value, bool | int) else str(value)
