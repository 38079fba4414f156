"""What a row must be: NOT NULL, CHECK constraints, invariants, generated and identity columns."""

from __future__ import annotations

import json

import pytest


def test_not_null(spark, rows, fails, database):
    spark.sql("CREATE TABLE t (a INT NOT NULL, st STRUCT<x: INT NOT NULL, y: STRING>) USING delta")
    spark.sql("INSERT INTO t VALUES (1, named_struct('x', 1, 'y', NULL))")
    for values, column in {
        "NULL, named_struct('x', 1, 'y', 'q')": "a",
        "1, named_struct('x', CAST(NULL AS INT), 'y', 'q')": "st.x",
        "IF(rand() < 2, NULL, 1), named_struct('x', 1, 'y', 'q')": "a",
    }.items():
        with fails("DELTA_NOT_NULL_CONSTRAINT_VIOLATED", f"Column {column} "):
            spark.sql(f"INSERT INTO t SELECT {values}")
    with fails("DELTA_INSERT_COLUMN_MISMATCH", "Column a "):
        spark.sql("INSERT INTO t (st) VALUES (named_struct('x', 1, 'y', 'q'))")
    with fails("DELTA_MISSING_NOT_NULL_COLUMN_VALUE", "Column a "):
        spark.sql("SELECT 'x' AS other").write.format("delta").mode("append").option("mergeSchema", True).saveAsTable(
            "t"
        )
    assert rows("SELECT * FROM t") == [(1, (1, None))]
    assert not spark.table("t").schema["a"].nullable


def test_check_constraints(spark, rows, fails, database):
    spark.sql("CREATE TABLE t (a INT, b STRING, CONSTRAINT positive CHECK (a > 0)) USING delta")
    spark.sql("INSERT INTO t VALUES (1, 'x')")
    for statement in (
        "INSERT INTO t VALUES (2, 'y'), (-1, 'x')",
        "INSERT INTO t (b) VALUES ('x')",
        "INSERT OVERWRITE t VALUES (0, 'x')",
    ):
        with fails("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "positive", "a > 0", " - a : "):
            spark.sql(statement)
    assert rows("SELECT * FROM t") == [(1, "x")]


def test_invariants_of_old_tables(spark, rows, fails, tmp_path):
    path = tmp_path / "t"
    spark.sql(f"CREATE TABLE delta.`{path}` (a INT) USING delta")
    commit = path / "_delta_log" / f"{0:020d}.json"
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in lines:
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            schema["fields"][0]["metadata"]["delta.invariants"] = json.dumps({"expression": {"expression": "a < 10"}})
            action["metaData"]["schemaString"] = json.dumps(schema)
    other = tmp_path / "u" / "_delta_log"
    other.mkdir(parents=True)
    (other / commit.name).write_text("\n".join(map(json.dumps, lines)))
    spark.sql(f"INSERT INTO delta.`{other.parent}` VALUES (9)")
    with fails("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "a < 10", " - a : 10"):
        spark.sql(f"INSERT INTO delta.`{other.parent}` VALUES (10)")
    assert rows(f"SELECT * FROM delta.`{other.parent}`") == [(9,)]


def test_the_row_has_its_nested_values(spark, fails, database):
    spark.sql(
        "CREATE TABLE t (a ARRAY<INT>, m MAP<STRING, INT>, s STRUCT<x: INT, l: ARRAY<INT>>, b BINARY) USING delta"
    )
    for number, check in enumerate(("size(a) < 9", "m['k'] < 9", "s.l[0] < 9", "length(b) < 9")):
        spark.sql(f"ALTER TABLE t ADD CONSTRAINT c{number} CHECK ({check})")
    for values, shown in (
        ("array(1,2,3,4,5,6,7,8,9), null, null", " - a : [1, 2, 3, 4, 5, 6, 7, 8, 9]"),
        ("array(1), map('k', 9), null", " - m : {k -> 9}"),
        ("array(1), map('k', 1), named_struct('x', 1, 'l', array(9))", " - s : {1, [9]}"),
    ):
        with fails("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", shown):
            spark.sql(f"INSERT INTO t SELECT {values}, X'00'")
    with fails("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES") as found:
        spark.sql("INSERT INTO t SELECT sequence(1, 10000), null, null, X'00'")
    assert len(found.text) < 1500


def test_generated_columns(spark, rows, fails, database):
    spark.sql(
        "CREATE TABLE t (ts TIMESTAMP, d DATE GENERATED ALWAYS AS (CAST(ts AS DATE)), v INT, w INT GENERATED ALWAYS "
        "AS (v * 2)) "
        "USING delta PARTITIONED BY (d)"
    )
    spark.sql("INSERT INTO t (ts, v) VALUES (TIMESTAMP'2024-01-02 03:04:05', 4)")
    spark.sql("INSERT INTO t VALUES (TIMESTAMP'2024-01-03 00:00:00', DATE'2024-01-03', 5, 10)")
    spark.sql("SELECT TIMESTAMP'2024-01-04 00:00:00' AS ts, 6 AS v").write.format("delta").mode("append").saveAsTable(
        "t"
    )
    spark.sql("INSERT INTO t (v) VALUES (NULL)")
    with fails("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", " - d : 2024-01-09"):
        spark.sql("INSERT INTO t VALUES (TIMESTAMP'2024-01-03 00:00:00', DATE'2024-01-09', 5, 10)")
    with fails("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", " - w : null"):
        spark.sql("INSERT INTO t (ts, v, w) VALUES (TIMESTAMP'2024-01-03 00:00:00', 5, NULL)")
    assert rows("SELECT CAST(d AS STRING), v, w FROM t ORDER BY v") == [
        (None, None, None),
        ("2024-01-02", 4, 8),
        ("2024-01-03", 5, 10),
        ("2024-01-04", 6, 12),
    ]


def test_identity_always(spark, rows, fails, database):
    spark.sql(
        "CREATE TABLE t (id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY 5), v INT) USING delta"
    )
    spark.sql("INSERT INTO t (v) SELECT id FROM range(0, 4, 1, 4)")
    spark.sql("INSERT INTO t (v) VALUES (4)")
    spark.range(5, 7).selectExpr("CAST(id AS INT) AS v").write.format("delta").mode("append").saveAsTable("t")
    assert rows("SELECT id FROM t ORDER BY id") == [(i,) for i in range(10, 45, 5)]
    for statement in (
        "INSERT INTO t VALUES (1, 1)",
        "INSERT INTO t (id, v) VALUES (1, 1)",
        "INSERT INTO t VALUES (DEFAULT, 1)",
    ):
        with fails("DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED", "id"):
            spark.sql(statement)
    spark.sql("INSERT OVERWRITE t (v) VALUES (9)")
    assert rows("SELECT * FROM t") == [(45, 9)]


def test_identity_by_default(spark, rows, database):
    spark.sql("CREATE TABLE t (id BIGINT GENERATED BY DEFAULT AS IDENTITY (INCREMENT BY -1), v STRING) USING delta")
    for statement in ("(v) VALUES ('a'), ('b')", "VALUES (100, 'c')", "(v) VALUES ('d')"):
        spark.sql(f"INSERT INTO t {statement}")
    assert sorted(row[0] for row in rows("SELECT id FROM t")) == [-1, 0, 1, 100]


@pytest.mark.parametrize(
    "writing", ["INSERT INTO {} VALUES (1)", "INSERT OVERWRITE {} VALUES (1)", "TRUNCATE TABLE {}"]
)
def test_unknown_writer_features_refuse_writing_only(spark, rows, fails, tmp_path, writing):
    path = tmp_path / "t"
    spark.sql(f"CREATE TABLE delta.`{path}` (a INT) USING delta")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (7)")
    before = list(path.glob("*.parquet"))
    protocol = {
        "protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["appendOnly", "somethingNew"]}
    }
    (path / "_delta_log" / f"{2:020d}.json").write_text(json.dumps(protocol))
    with fails("DELTA_UNSUPPORTED_FEATURES_FOR_WRITE", "somethingNew"):
        spark.sql(writing.format(f"delta.`{path}`"))
    assert rows(f"SELECT * FROM delta.`{path}`") == [(7,)]
    assert list(path.glob("*.parquet")) == before  # refused before any row is written


def test_append_only(spark, rows, fails, database):
    spark.sql("CREATE TABLE t (a INT) USING delta TBLPROPERTIES ('delta.appendOnly' = 'true')")
    spark.sql("INSERT INTO t VALUES (1)")
    for statement in ("INSERT OVERWRITE t VALUES (2)", "TRUNCATE TABLE t"):
        with fails("DELTA_CANNOT_MODIFY_APPEND_ONLY"):
            spark.sql(statement)
    assert rows("SELECT * FROM t") == [(1,)]
