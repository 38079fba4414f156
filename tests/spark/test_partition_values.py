"""Values of partition columns: one set of values, every way to write and every way to read.

The judges: a model of what is stored, and Spark's answers over the rows of that model.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater import changelog
from headwater.inspector.files import partitions as inspected_partitions
from headwater.log.snapshot import load_snapshot
from headwater.stores import LocalStore
from support.commits import edit_log

#: SQL literals of each type; the first ones are stored as null.
KINDS = {
    "STRING": ["''", "'__HIVE_DEFAULT_PARTITION__'", "NULL", "'a'", "' '", "'b=/%c'"],
    "VARCHAR(30)": ["''", "'__HIVE_DEFAULT_PARTITION__'", "NULL", "'a'"],
    "BINARY": ["X''", "CAST('__HIVE_DEFAULT_PARTITION__' AS BINARY)", "NULL", "X'61'"],
    "STRING COLLATE UTF8_LCASE": ["''", "'__HIVE_DEFAULT_PARTITION__'", "NULL", "'A'", "'__hive_default_partition__'"],
    # The empty string is equal to blanks here, but is not stored as they are.
    "STRING COLLATE UTF8_BINARY_RTRIM": ["''", "NULL", "'  '", "'a'"],
}
NUM_STORED_AS_NULL = {kind: 1 + values.index("NULL") for kind, values in KINDS.items()}


def _insert(spark: SparkSession, table: str, source: str) -> None:
    spark.sql(f"INSERT INTO {table} (x, p) SELECT x, p FROM {source}")


def _insert_into(spark: SparkSession, table: str, source: str) -> None:
    spark.table(source).select("p", "x", "g").write.insertInto(table)


def _save_as_table(spark: SparkSession, table: str, source: str) -> None:
    spark.table(source).drop("g").write.format("delta").mode("append").saveAsTable(table)


def _write_to(spark: SparkSession, table: str, source: str) -> None:
    spark.table(source).drop("g").writeTo(table).append()


def _update(spark: SparkSession, table: str, source: str) -> None:
    """Each row gets the literal of its number."""
    spark.sql(f"INSERT INTO {table} (x) SELECT x FROM {source}")
    assigned = spark.table(source).schema["p"].metadata["literals"]
    cases = " ".join(f"WHEN {number} THEN {literal}" for number, literal in enumerate(assigned))
    spark.sql(f"UPDATE {table} SET p = CASE x {cases} END")


def _merge(spark: SparkSession, table: str, source: str) -> None:
    spark.sql(f"INSERT INTO {table} (p, x) SELECT NULL, x FROM {source} WHERE x % 2 = 0")
    spark.sql(
        f"MERGE INTO {table} t USING {source} s ON t.x = s.x WHEN MATCHED THEN UPDATE SET p = s.p "
        "WHEN NOT MATCHED THEN INSERT (p, x) VALUES (s.p, s.x)"
    )


def _overwrite(spark: SparkSession, table: str, source: str) -> None:
    spark.sql(f"INSERT OVERWRITE {table} (p, x) SELECT p, x FROM {source}")


def _dynamic(spark: SparkSession, table: str, source: str) -> None:
    spark.table(source).drop("g").writeTo(table).overwritePartitions()


def _replace_where(spark: SparkSession, table: str, source: str) -> None:
    condition = "p IS NULL OR octet_length(p) > 0"
    spark.sql(f"INSERT INTO {table} BY NAME REPLACE WHERE {condition} SELECT p, x FROM {source}")


def _replace_on(spark: SparkSession, table: str, source: str) -> None:
    spark.sql(f"INSERT INTO {table} AS t BY NAME REPLACE ON (t.p <=> s.p) (SELECT p, x FROM {source}) AS s")


def _upsert(spark: SparkSession, table: str, source: str) -> None:
    spark.table(source).drop("g").write.format("delta").mode("append").option("idCols", "x").saveAsTable(table)


def _stream(spark: SparkSession, table: str, source: str) -> None:
    rows = spark.readStream.table(f"{source}_files").drop("g")
    checkpoint = f"{spark.conf.get('spark.sql.warehouse.dir').removeprefix('file:')}/{table}_checkpoint"
    query = (
        rows.writeStream.trigger(availableNow=True)
        .format("delta")
        .option("checkpointLocation", checkpoint)
        .toTable(table)
    )
    query.awaitTermination()


WAYS: dict[str, Callable[[SparkSession, str, str], None]] = {
    "INSERT": _insert,
    "insertInto": _insert_into,
    "saveAsTable": _save_as_table,
    "writeTo": _write_to,
    "UPDATE": _update,
    "MERGE": _merge,
    "INSERT OVERWRITE": _overwrite,
    "overwritePartitions": _dynamic,
    "REPLACE WHERE": _replace_where,
    "REPLACE ON": _replace_on,
    "upsert": _upsert,
    "stream": _stream,
}
#: Those that leave the table as it was if they are run again.
REPLACING = ("INSERT OVERWRITE", "overwritePartitions", "REPLACE WHERE", "REPLACE ON", "upsert")
READS = """
    SELECT 'all' AS read, x, p, g FROM {0} UNION ALL
    SELECT 'group', count(*), p, max(g) FROM {0} GROUP BY p UNION ALL
    SELECT 'null', x, NULL, NULL FROM {0} WHERE p IS NULL UNION ALL
    SELECT 'not null', x, NULL, NULL FROM {0} WHERE p IS NOT NULL UNION ALL
    SELECT 'empty', x, NULL, NULL FROM {0} WHERE octet_length(p) = 0 UNION ALL
    SELECT 'log', count(p), min(p), count(*) FROM {0}
"""


def _views(spark: SparkSession, kind: str) -> None:
    """``written`` with the values as they are given, ``stored`` with what the table will have."""
    literals = KINDS[kind]
    stored = ["NULL" if number < NUM_STORED_AS_NULL[kind] else value for number, value in enumerate(literals)]
    declared = "STRING" if kind.startswith("VARCHAR") else kind
    for name, values in {"written": literals, "stored": stored}.items():
        cases = " ".join(f"WHEN {number} THEN {value}" for number, value in enumerate(values))
        rows = f"SELECT CAST(CASE id {cases} END AS {declared}) AS p, CAST(id AS INT) AS x FROM range({len(values)})"
        null = "NULL" if "COLLATE" in kind else f"IF(x < {NUM_STORED_AS_NULL[kind]}, -1, coalesce(octet_length(p), -1))"
        frame = spark.sql(f"SELECT p, x, CAST({null} AS INT) AS g FROM ({rows})")
        frame.withMetadata("p", {"literals": literals}).createOrReplaceTempView(name)


@pytest.mark.covering
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_what_is_checked_is_what_is_stored(spark, rows, database, way, kind):
    """The constraint does not hold for what is given, and the generated column shows what it was computed from."""
    # Spark generates nothing from collated strings.
    generated = "" if "COLLATE" in kind else "GENERATED ALWAYS AS (coalesce(octet_length(p), -1))"
    spark.sql(
        f"CREATE TABLE t (p {kind}, x INT, g INT {generated}, "
        "CONSTRAINT c CHECK (p IS NULL OR CAST(p AS BINARY) NOT IN (X'', CAST('__HIVE_DEFAULT_PARTITION__' AS BINARY)))"
        ") USING delta PARTITIONED BY (p) TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    _views(spark, kind)
    if way == "stream":
        spark.sql("CREATE TABLE written_files USING delta AS SELECT * FROM written")
    for _ in range(2 if way in REPLACING else 1):
        WAYS[way](spark, "t", "written")
    assert rows(READS.format("t"), ordered=False) == rows(READS.format("stored"), ordered=False)
    changes = "SELECT x, p, g FROM table_changes('t', 0) WHERE _change_type IN ('insert', 'update_postimage')"
    expected = {(x, p and bytes(p) if kind == "BINARY" else p) for x, p, _ in rows("SELECT x, p, g FROM stored")}
    found = {(x, p and bytes(p) if kind == "BINARY" else p) for x, p, _ in rows(changes)}
    assert found >= expected
    assert not {p for _, p in found} & {"", b"", "__HIVE_DEFAULT_PARTITION__", b"__HIVE_DEFAULT_PARTITION__"}


def test_a_partition_column_that_is_not_null_refuses_what_is_stored_as_null(spark, rows, fails, database):
    spark.sql("CREATE TABLE t (p STRING NOT NULL, x INT, g INT) USING delta PARTITIONED BY (p)")
    spark.sql("INSERT INTO t VALUES ('a', 1, 1)")
    spark.sql("CREATE OR REPLACE TEMP VIEW empty AS SELECT '' AS p, 1 AS x, 1 AS g")
    for way in ("INSERT", "writeTo", "INSERT OVERWRITE", "overwritePartitions", "REPLACE ON", "upsert"):
        with fails("DELTA_NOT_NULL_CONSTRAINT_VIOLATED", "Column p "):
            WAYS[way](spark, "t", "empty")
    for change in (
        "UPDATE t SET p = '' WHERE x = 1",
        "MERGE INTO t USING empty e ON t.x = e.x WHEN MATCHED THEN UPDATE SET *",
        "MERGE INTO t USING empty e ON t.p = e.p WHEN NOT MATCHED THEN INSERT *",
    ):
        with fails("DELTA_NOT_NULL_CONSTRAINT_VIOLATED", "Column p "):
            spark.sql(change)
    assert rows("SELECT * FROM t") == [("a", 1, 1)]


def test_a_generated_partition_value_is_checked_as_it_is_stored(spark, rows, database):
    """The value that a row brings for it is stored as null, and so is what its expression gives."""
    spark.sql("CREATE TABLE t (a STRING, g STRING GENERATED ALWAYS AS (trim(a))) USING delta PARTITIONED BY (g)")
    spark.sql("INSERT INTO t (a, g) VALUES (' ', '')")
    spark.sql("INSERT INTO t (a) VALUES (' ')")
    assert rows("SELECT a, g FROM t") == [(" ", None), (" ", None)]


def test_an_upsert_that_ignores_nulls_ignores_what_is_stored_as_null(spark, rows, database):
    spark.sql("CREATE TABLE t (id INT, p STRING) USING delta PARTITIONED BY (p)")
    spark.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    writer = spark.createDataFrame([(1, ""), (2, "c")], "id INT, p STRING").write.format("delta").mode("append")
    writer.option("idCols", "id").option("ignoreNullUpdates", True).saveAsTable("t")
    assert rows("SELECT id, p FROM t ORDER BY id") == [(1, "a"), (2, "c")]


def test_a_partition_that_is_written_as_an_empty_string_is_replaced(spark, rows, fails, database):
    """Each run leaves the rows of the last one, or is refused."""
    spark.sql("CREATE TABLE t (p STRING DEFAULT '', b BINARY, x INT) USING delta PARTITIONED BY (p, b)")
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')")
    spark.sql("INSERT INTO t VALUES ('a', X'61', 0)")
    for way in (
        "INSERT OVERWRITE t PARTITION (p = '', b) SELECT X'', {}",
        "INSERT OVERWRITE t PARTITION (p = '__HIVE_DEFAULT_PARTITION__', b) SELECT X'', {}",
        "INSERT INTO t REPLACE WHERE p IS NULL SELECT '', X'', {}",
        "INSERT INTO t REPLACE WHERE p <=> '' SELECT '', X'', {}",
        "INSERT INTO t AS t REPLACE ON (t.p <=> s.p) (SELECT '' AS p, X'' AS b, {} AS x) AS s",
    ):
        for number in (1, 2):
            spark.sql(way.format(number))
            assert rows("SELECT * FROM t ORDER BY p") == [(None, None, number), ("a", bytearray(b"a"), 0)], way
    for refused in ("p = ''", "length(p) = 0", "b = X''"):
        with fails("DELTA_REPLACE_WHERE_MISMATCH"):
            spark.sql(f"INSERT INTO t REPLACE WHERE {refused} SELECT '', X'', 3")
    assert rows("SELECT x FROM t WHERE p IS NULL") == [(2,)]


def test_rows_of_other_types_replace_those_of_a_partition_of_text(spark, rows, database):
    spark.sql("CREATE TABLE t (p STRING, b BINARY, x INT) USING delta PARTITIONED BY (p, b)")
    spark.sql("INSERT INTO t VALUES ('0', X'61', 1)")
    for value, text in (("1", "1"), ("DATE'2024-01-01'", "2024-01-01"), ("''", None)):
        spark.sql(f"INSERT INTO t AS t REPLACE ON (t.x = s.x) (SELECT {value} AS p, X'61' AS b, 1 AS x) AS s")
        assert rows("SELECT p, x FROM t") == [(text, 1)]


def test_a_stream_has_the_columns_that_it_declares(spark, database, tmp_path):
    spark.sql("CREATE TABLE t (p STRING NOT NULL, x INT) USING delta PARTITIONED BY (p)")
    spark.sql("INSERT INTO t VALUES ('a', 1)")
    seen = []
    stream = spark.readStream.table("t")
    query = stream.writeStream.foreachBatch(lambda batch, _: seen.append(batch.schema)).trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    assert [field.nullable for field in seen[0]] == [field.nullable for field in stream.schema] == [False, True]


def _with_empty_texts(action: dict[str, dict[str, Any]]) -> None:
    """The action as another writer has it: an empty text in place of null."""
    for fields in action.values():
        if "partitionValues" in fields:
            fields["partitionValues"] = {k: v or "" for k, v in fields["partitionValues"].items()}


def _without_null_in_p(action: dict[str, dict[str, Any]]) -> None:
    if "metaData" in action:
        schema = json.loads(action["metaData"]["schemaString"])
        schema["fields"][0]["nullable"] = False
        action["metaData"]["schemaString"] = json.dumps(schema)


@pytest.mark.parametrize("null", ["", " NOT NULL"])
def test_an_empty_text_of_another_writer_is_null_for_every_reader(spark, rows, database, tmp_path, null):
    """A log with empty texts, beside the same log with nulls."""
    found = []
    for name in ("nulls", "empty"):
        path = tmp_path / f"{name}{len(null)}"
        table = f"delta.`{path}`"
        spark.sql(
            f"CREATE TABLE {table} (p STRING, b BINARY, x INT) USING delta PARTITIONED BY (p, b) "
            "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
        )
        spark.sql(f"INSERT INTO {table} VALUES (NULL, NULL, 1), ('a', X'61', 2), (NULL, X'61', 3)")
        if name == "empty":
            edit_log(path, _with_empty_texts)
        if null:
            edit_log(path, _without_null_in_p)
        reads = [
            *(f"SELECT x, p, b FROM {table} WHERE {c}" for c in ("true", "p IS NULL", "p IS NOT NULL", "p = ''")),
            *(f"SELECT x FROM {table} WHERE {c}" for c in ("b IS NULL", "b = X''", "coalesce(p, 'n') = 'n'")),
            f"SELECT p, count(*) FROM {table} GROUP BY p",
            f"SELECT p, sum(x) FROM {table} GROUP BY p",
            f"SELECT x, p, b, _change_type FROM table_changes('{table}', 0)",
            f"SHOW PARTITIONS {table}",
        ]
        answers: list[object] = [rows(read, ordered=False) for read in reads]
        changed = changelog.read(str(path), starting_version=0).read_all()
        answers.append(sorted(map(str, changed.select(["p", "b", "x"]).to_pylist())))
        inspected = inspected_partitions(load_snapshot(str(path), LocalStore()))["partitions"]
        answers.append(sorted(str(each["values"]) for each in inspected))
        for change in (
            f"UPDATE {table} SET x = x + 10, p = 'n' WHERE p IS NULL AND b IS NULL",
            f"DELETE FROM {table} WHERE p = ''",
            f"DELETE FROM {table} WHERE p IS NULL",
        ):
            spark.sql(change)
            answers.append(rows(f"SELECT x, p, b FROM {table} ORDER BY x"))
        found.append(answers)
    assert found[0] == found[1]
    assert found[1][-1] == [(2, "a", bytearray(b"a")), (11, "n", None)]


def test_a_dynamic_overwrite_compares_values(spark, rows, database, settings):
    """Of a column that was widened, of another writer's texts, and of texts that a collation equates."""
    spark.sql(
        "CREATE TABLE t (d INT, c STRING COLLATE UTF8_LCASE, h CHAR(3), z DOUBLE, x INT) USING delta "
        "PARTITIONED BY (d, c, h, z) TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
    )
    spark.sql("INSERT INTO t VALUES (1, 'a', 'b', -0.0D, 1), (2, 'a', 'b', 0.0D, 2), (1, 'x', 'b', 0.0D, 3)")
    spark.sql("ALTER TABLE t ALTER COLUMN d TYPE DOUBLE")
    with settings({"spark.sql.sources.partitionOverwriteMode": "dynamic"}):
        spark.sql("INSERT OVERWRITE t VALUES (1, 'A', 'b', 0.0D, 10)")
    assert rows("SELECT x FROM t ORDER BY x") == [(2,), (3,), (10,)]
    assert rows("SHOW PARTITIONS t PARTITION (d = 2)") == [("d=2/c=a/h=b  /z=0.0",)]


def test_partition_columns_in_other_case(spark, rows, database, tmp_path):
    """Another writer may spell a partition column as its statement did."""
    path = tmp_path / "t"
    spark.sql(f"CREATE TABLE delta.`{path}` (Name STRING, x INT) USING delta PARTITIONED BY (Name)")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES ('a', 1), ('b', 2)")

    def spell(action):
        if "metaData" in action:
            action["metaData"]["partitionColumns"] = ["name"]
        if "add" in action:
            action["add"]["partitionValues"] = {"name": action["add"]["partitionValues"]["Name"]}

    edit_log(path, spell)
    table = f"delta.`{path}`"
    spark.sql(f"INSERT INTO {table} VALUES ('a', 3)")
    assert rows(f"SELECT name, x FROM {table} ORDER BY ALL") == [("a", 1), ("a", 3), ("b", 2)]
    assert rows(f"SELECT x FROM {table} WHERE name = 'a' ORDER BY x") == [(1,), (3,)]
    assert rows(f"SELECT Name, count(*) FROM {table} GROUP BY Name ORDER BY Name") == [("a", 2), ("b", 1)]
    spark.sql(f"UPDATE {table} SET x = 4 WHERE Name = 'b'")
    assert rows(f"SELECT * FROM {table} ORDER BY x") == [("a", 1), ("a", 3), ("b", 4)]
    assert spark.table(table).toArrow()["Name"].null_count == 0
