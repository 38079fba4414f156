"""What a catalog's entry of a table says after each statement: for in-memory catalogs and Hive's metastore."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

_ENABLED = "spark.databricks.delta.catalog.update.enabled"
#: Statements about a table, and those after which its entry must say what the table is.
STORY = """
CREATE TABLE e (id INT COMMENT 'key', s STRING) USING delta COMMENT 'first' TBLPROPERTIES ('x' = 'y')
INSERT INTO e VALUES (1, 'a')
ALTER TABLE e ADD COLUMNS (t STRUCT<x: INT> COMMENT 'more')
ALTER TABLE e ALTER COLUMN s COMMENT 'text'
COMMENT ON TABLE e IS 'second'
ALTER TABLE e UNSET TBLPROPERTIES ('x')
ALTER TABLE e SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')
ALTER TABLE e SET TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported', 'delta.feature.variantType' = 'supported')
ALTER TABLE e DROP COLUMN s
ALTER TABLE e RENAME COLUMN t TO u
INSERT INTO e BY NAME SELECT 2 AS id, DATE'2024-01-01' AS merged
MERGE INTO e USING (SELECT 2 AS id, 3L AS more) n ON e.id = n.id WHEN MATCHED THEN UPDATE SET *
ALTER TABLE e ADD COLUMNS (`a,b` TIMESTAMP_NTZ, v VARIANT, c CHAR(3))
RESTORE TABLE e TO VERSION AS OF 0
CREATE OR REPLACE TABLE e (g BIGINT GENERATED ALWAYS AS IDENTITY, d INT) USING delta PARTITIONED BY (d)
INSERT INTO e (d) VALUES (1)
stream
ALTER TABLE e RENAME TO f
"""
#: How those begin that are enough to see what a catalog can hold.
_IN_BRIEF = (
    *(
        "CREATE TABLE e",
        "ALTER TABLE e ADD COLUMNS (t",
        "INSERT INTO e BY NAME",
        "CREATE OR REPLACE",
        "ALTER TABLE e RENAME TO",
    ),
    *("ALTER TABLE delta", "INSERT INTO f", "CREATE TABLE i", "CREATE TABLE k"),
)


def entries(spark: SparkSession, home: str, brief: bool = False) -> list[list[Any]]:
    """Each statement, the columns of the table, and what its entry says: columns, comment, properties, version."""
    spark.sql(f"CREATE DATABASE entries LOCATION '{home}/entries'")
    spark.sql("USE entries")
    spark.conf.set("spark.databricks.delta.schema.autoMerge.enabled", "true")
    found = []
    try:
        for statement in STORY.strip().split("\n"):
            if brief and not statement.startswith(_IN_BRIEF):
                continue
            if statement == "stream":
                _stream(spark, home)
            else:
                spark.sql(statement)
            name = "f" if statement.endswith("TO f") else "e"
            found.append([statement, _columns(spark, name), *entry(spark, name)])
        path = f"{home}/entries/f"
        # What others have changed comes with the next commit by the name; what is switched off, too.
        for setting, statement in (
            ("true", f"ALTER TABLE delta.`{path}` ADD COLUMNS (bypath INT)"),
            ("true", "INSERT INTO f (d) VALUES (2)"),
            ("false", "CREATE TABLE g USING delta COMMENT 'c' AS SELECT 1 AS id"),
            ("true", "DELETE FROM g"),
            ("true", f"CREATE TABLE h USING delta LOCATION '{path}'"),
            ("true", f"ALTER TABLE g SET LOCATION '{home}/entries/moved'"),
            (
                "true",
                f"CREATE TABLE i (x STRUCT<{', '.join(f'a_long_name_{n}: INT' for n in range(300))}>) USING delta",
            ),
            ("true", f"CREATE TABLE j ({', '.join(f'a_long_name_{n} INT' for n in range(300))}) USING delta"),
            ("true", "ALTER TABLE j ADD COLUMNS (one_more INT)"),
            ("true", "CREATE TABLE k (`日` INT) USING delta"),
        ):
            if brief and not statement.startswith(_IN_BRIEF):
                continue
            spark.conf.set(_ENABLED, setting)
            if "moved" in statement:
                spark.sql(f"CREATE TABLE delta.`{home}/entries/moved` (id INT) USING delta COMMENT 'moved'")
            spark.sql(statement)
            name = "f" if "bypath" in statement else statement.split()[2]
            found.append([statement[:50], _columns(spark, name), *entry(spark, name)])
    finally:
        spark.conf.unset("spark.databricks.delta.schema.autoMerge.enabled")
        spark.conf.unset(_ENABLED)
        spark.sql("USE default")
        spark.sql("DROP DATABASE entries CASCADE")
    return found


def refused(spark: SparkSession, home: str) -> list[Any]:
    """A comment that the metastore has no room for: the statements succeed, and the entry stays."""
    spark.sql(f"CREATE TABLE r (id INT) USING delta LOCATION '{home}/r' COMMENT 'short'")
    spark.sql(f"COMMENT ON TABLE r IS '{'x' * 40000}'")
    spark.sql("INSERT INTO r VALUES (1)")
    spark.sql("INSERT INTO r VALUES (2)")
    length = len(spark.sql("DESCRIBE DETAIL r").first()["description"])
    kept = entry(spark, "r")[1]
    spark.sql("DROP TABLE r")
    return [length, kept]


def entry(spark: Any, name: str) -> list[Any]:
    """The columns, the comment, the properties and the version that the catalog itself has of a table."""
    database = spark.catalog.currentDatabase()
    identifier = spark._jvm.org.apache.spark.sql.catalyst.TableIdentifier
    found = (
        spark._jsparkSession.sessionState()
        .catalog()
        .getTableMetadata(identifier(name, spark._jvm.scala.Some(database)))
    )
    properties = found.properties().toSeq()
    pairs = [properties.apply(index) for index in range(properties.size())]
    named = {pair._1(): pair._2() for pair in pairs if not pair._1().startswith("transient")}
    version = named.pop("delta.lastUpdateVersion", None)
    return [found.schema().catalogString(), found.comment().toString(), named, version]


def _columns(spark: Any, name: str) -> str:
    columns: str = spark.table(name)._jdf.schema().catalogString()
    return columns


def _stream(spark: SparkSession, home: str) -> None:
    rows = spark.readStream.table("e").selectExpr("d", "'x' AS streamed")
    writer = rows.writeStream.format("delta").trigger(availableNow=True).option("checkpointLocation", f"{home}/cp")
    writer.option("mergeSchema", True).toTable("e").awaitTermination(60)
