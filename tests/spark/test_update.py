"""UPDATE: the values rows get, by Spark's rules of assignment and the table's own."""

from __future__ import annotations

from decimal import Decimal

import pytest

from support.dml_table import Table

pytestmark = pytest.mark.covering("file")

both = pytest.mark.parametrize("vectors", [False, True], ids=["copy", "vectors"])


@both
def test_several_assignments_see_the_old_row(spark, tmp_path, vectors):
    table = Table(
        spark, tmp_path / "t", "id BIGINT, a INT, b INT", "SELECT id, 1, 2 FROM range(0, 4, 1, 2)", vectors=vectors
    )
    assert table.run("UPDATE {t} SET a = b, b = a + 10, id = -id WHERE id IN (1, 3)") == [(2,)]
    assert table.rows() == [(-1, 2, 11), (-3, 2, 11), (0, 1, 2), (2, 1, 2)]
    assert table.metrics("numUpdatedRows", "numCopiedRows") == {
        "numUpdatedRows": 2,
        "numCopiedRows": 0 if vectors else 2,
    }
    assert table.info()["operation"] == "UPDATE"
    assert table.run("UPDATE {t} AS x SET x.a = NULL") == [(4,)]
    assert table.values("a") == [None] * 4


@both
def test_nested_fields(spark, tmp_path, vectors):
    table = Table(
        spark,
        tmp_path / "t",
        "id BIGINT, s STRUCT<a: STRUCT<b: INT, c: STRING>, d: INT>",
        "SELECT id, CASE id WHEN 0 THEN NULL WHEN 1 THEN named_struct('a', NULL, 'd', 1) ELSE "
        "named_struct('a', named_struct('b', 1, 'c', 'x'), 'd', 2) END FROM range(0, 4, 1, 2)",
        vectors=vectors,
    )
    assert table.run("UPDATE {t} SET s.a.b = s.a.b + id, s.d = 9 WHERE id = 3") == [(1,)]
    assert table.run("SELECT s FROM {t} WHERE id = 3") == [(((4, "x"), 9),)]
    table.run("UPDATE {t} SET s.a.c = 'new' WHERE id < 3")
    assert table.run("SELECT s.a.b, s.a.c, s.d FROM {t} ORDER BY id") == [
        (None, "new", None),
        (None, "new", 1),
        (1, "new", 2),
        (4, "x", 9),
    ]
    table.run("UPDATE {t} SET s = named_struct('d', 5, 'a', named_struct('c', 'z', 'b', 6)) WHERE id = 0")
    assert table.run("SELECT s FROM {t} WHERE id = 0") == [(((6, "z"), 5),)]


@both
def test_defaults(spark, tmp_path, vectors):
    table = Table(
        spark,
        tmp_path / "t",
        "id BIGINT, v INT DEFAULT 7, w STRING DEFAULT concat('a', 'b'), n INT",
        vectors=vectors,
        properties=["'delta.feature.allowColumnDefaults' = 'supported'"],
    )
    table.run("INSERT INTO {t} SELECT id, 0, 'x', 1 FROM range(0, 2, 1, 2)")
    assert table.run("UPDATE {t} SET v = DEFAULT, w = DEFAULT, n = DEFAULT WHERE id = 1") == [(1,)]
    assert table.rows() == [(0, 0, "x", 1), (1, 7, "ab", None)]


@both
def test_rows_move_between_partitions(spark, tmp_path, vectors):
    table = Table(
        spark,
        tmp_path / "t",
        "id BIGINT, p STRING",
        "SELECT id, IF(id % 2 = 0, 'a', 'b') FROM range(0, 6, 1, 1)",
        partitioned="p",
        vectors=vectors,
    )
    assert table.run("UPDATE {t} SET p = 'c d' WHERE id IN (0, 1)") == [(2,)]
    assert table.run("UPDATE {t} SET p = NULL WHERE p = 'b' AND id = 3") == [(1,)]
    assert table.rows() == [(0, "c d"), (1, "c d"), (2, "a"), (3, None), (4, "a"), (5, "b")]
    assert table.run("SELECT id FROM {t} WHERE p IS NULL") == [(3,)]
    assert table.run("UPDATE {t} SET id = id + 10 WHERE p = 'a'") == [(2,)]
    assert table.values() == [0, 1, 3, 5, 12, 14]


@both
def test_generated_columns_are_computed_anew(spark, tmp_path, fails, vectors):
    table = Table(
        spark,
        tmp_path / "t",
        "id BIGINT, twice BIGINT GENERATED ALWAYS AS (id * 2), d BIGINT GENERATED ALWAYS AS (id % 2)",
        partitioned="d",
        vectors=vectors,
        changes=True,
    )
    table.run("INSERT INTO {t} (id) SELECT id FROM range(0, 4, 1, 1)")
    assert table.run("UPDATE {t} SET id = id + 11 WHERE id = 2") == [(1,)]
    assert table.rows("id, twice, d") == [(0, 0, 0), (1, 2, 1), (13, 26, 1), (3, 6, 1)]
    assert [row[:3] for row in table.change_rows()] == [(13, 26, "update_postimage"), (2, 4, "update_preimage")]
    assert table.run("UPDATE {t} SET id = 5, twice = 10 WHERE id = 0") == [(1,)]
    version = table.version
    with fails("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "twice", " - twice : 11"):
        table.run("UPDATE {t} SET twice = 11 WHERE id = 5")
    assert table.version == version


@both
def test_constraints_hold_for_the_rows_that_change(spark, tmp_path, fails, vectors):
    table = Table(spark, tmp_path / "t", "id BIGINT NOT NULL, v INT, CONSTRAINT small CHECK (v < 10)", vectors=vectors)
    table.run("INSERT INTO {t} SELECT id, id FROM range(0, 4, 1, 2)")
    before = table.state
    with fails("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "small", "v < 10", " - v : 13"):
        table.run("UPDATE {t} SET v = v + 10 WHERE id = 3")
    with fails("DELTA_NOT_NULL_CONSTRAINT_VIOLATED", "Column id ", " - id : null", " - v : 1"):
        table.run("UPDATE {t} SET id = NULL WHERE v = 1")
    assert table.comes_to(before)
    assert table.run("UPDATE {t} SET v = v + 6 WHERE id >= 2") == [(2,)]
    assert table.values("v") == [0, 1, 8, 9]


@pytest.mark.covering
@pytest.mark.parametrize(
    ("policy", "assignment", "condition", "state"),
    [
        ("ANSI", "i = 'abc'", "CAST_INVALID_INPUT", "22018"),
        pytest.param("ANSI", "i = '12345678901'", "CAST_INVALID_INPUT", "22018", marks=pytest.mark.soak),
        ("ANSI", "i = TIMESTAMP'2220-01-01 00:00:00'", "CAST_OVERFLOW_IN_TABLE_INSERT", "22003"),
        ("ANSI", "i = DATE'2020-01-01'", "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST", "KD000"),
        ("ANSI", "b = id + 1000", "CAST_OVERFLOW_IN_TABLE_INSERT", "22003"),
        ("ANSI", "dec = 12345.6", "CAST_OVERFLOW_IN_TABLE_INSERT", "22003"),
        ("STRICT", "i = id", "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST", "KD000"),
        pytest.param(
            "STRICT", "i = '1'", "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST", "KD000", marks=pytest.mark.soak
        ),
        ("ANSI", "c = 'toolong'", "DELTA_EXCEED_CHAR_VARCHAR_LIMIT", "22001"),
        pytest.param("ANSI", "vc = 'toolong'", "DELTA_EXCEED_CHAR_VARCHAR_LIMIT", "22001", marks=pytest.mark.soak),
        pytest.param("ANSI", "s.x = 'abc'", "CAST_INVALID_INPUT", "22018", marks=pytest.mark.soak),
        ("ANSI", "s = named_struct('x', 'abc')", "CAST_INVALID_INPUT", "22018"),
    ],
)
def test_values_that_do_not_fit(spark, tmp_path, fails, settings, policy, assignment, condition, state):
    table = Table(
        spark,
        tmp_path / "t",
        "id BIGINT, i INT, b TINYINT, dec DECIMAL(4, 1), c CHAR(3), vc VARCHAR(3), s STRUCT<x: INT>",
        "SELECT id, 1, 1Y, 1.0, 'c', 'v', named_struct('x', 1) FROM range(2)",
    )
    before = table.state
    with settings({"spark.sql.storeAssignmentPolicy": policy}), fails(condition, state=state):
        table.run(f"UPDATE {{t}} SET {assignment} WHERE id = 1")
    assert table.comes_to(before)


def test_values_are_cast_as_inserts_are(spark, tmp_path, settings):
    table = Table(
        spark,
        tmp_path / "t",
        "id BIGINT, i INT, s STRING, c CHAR(3), vc VARCHAR(3), d DECIMAL(6, 2), dt DATE",
        "SELECT id, 1, 's', 'c', 'v', 1.0, DATE'2020-01-01' FROM range(1)",
    )
    table.run("UPDATE {t} SET i = 5L, s = 12, c = 'x', vc = 'ab   ', d = 7, dt = TIMESTAMP'2021-02-03 04:05:06'")
    assert table.run("SELECT i, s, c, vc, d, CAST(dt AS STRING) FROM {t}") == [(5, "12", "x  ", "ab ", 7, "2021-02-03")]
    with settings({"spark.sql.storeAssignmentPolicy": "STRICT"}):
        table.run("UPDATE {t} SET id = 3, d = 8.5")
    assert table.run("SELECT id, d FROM {t}") == [(3, Decimal("8.50"))]
    table.run("UPDATE {t} SET i = '6', d = '9.25', dt = '2022-03-04'")
    assert table.run("SELECT i, d, CAST(dt AS STRING) FROM {t}") == [(6, Decimal("9.25"), "2022-03-04")]
    with settings({"spark.sql.storeAssignmentPolicy": "LEGACY"}):
        table.run("UPDATE {t} SET i = 'x'")
    assert table.values("i") == [None]
    # The values' own casts stay as they are.
    follows = {"spark.databricks.delta.updateAndMergeCastingFollowsAnsiEnabledFlag": "true"}
    with settings({"spark.sql.ansi.enabled": "false", **follows}):
        table.run("UPDATE {t} SET i = 'y', d = CAST('8' AS INT), id = 4")
    assert table.run("SELECT id, i, d FROM {t}") == [(4, None, 8)]
    with settings({"spark.sql.ansi.enabled": "false"}):
        table.run("UPDATE {t} SET i = CAST('y' AS INT), dt = '2023-04-05'")
    assert table.run("SELECT i, CAST(dt AS STRING) FROM {t}") == [(None, "2023-04-05")]


SUBQUERIES = {
    "v = (SELECT max(k) FROM keys)": dict.fromkeys(range(6), 9),
    "v = (SELECT n FROM keys WHERE k = id)": {0: None, 1: 10, 2: None, 3: None, 4: None, 5: 50},
    "v = (SELECT count(*) FROM {t} AS o WHERE o.id < target.id) WHERE id > 3": {4: 4, 5: 5},
    "v = -1 WHERE id IN (SELECT k FROM keys)": {1: -1, 5: -1},
    "v = -1 WHERE id NOT IN (SELECT k FROM keys)": {},
    "v = -1 WHERE NOT EXISTS (SELECT 1 FROM keys WHERE k = id)": {0: -1, 2: -1, 3: -1, 4: -1},
    "v = IF(EXISTS (SELECT 1 FROM keys WHERE k = id), -1, v)": {1: -1, 5: -1},
    "v = (SELECT sum(id) FROM {t}) WHERE id = (SELECT min(id) FROM {t})": {0: 15},
    "id = (SELECT max(id) FROM {t}) + 1, v = 8 WHERE id = 0 OR id IN (SELECT k FROM keys WHERE n > 10)": None,
}


@pytest.mark.covering
@pytest.mark.parametrize("change", SUBQUERIES)
def test_subqueries(spark, tmp_path, change):
    spark.sql(
        "CREATE OR REPLACE TEMP VIEW keys AS SELECT * FROM VALUES (1L, 10), (5L, 50), (9L, 0), (NULL, 0) AS s(k, n)"
    )
    table = Table(
        spark,
        tmp_path / "t",
        "id BIGINT, v BIGINT",
        "SELECT id, 0 FROM range(0, 6, 1, 3)",
        vectors=len(change) % 2 == 0,
    )
    table.run(f"UPDATE {{t}} AS target SET {change}")
    changed = SUBQUERIES[change]
    if changed is None:
        assert table.rows() == [(1, 0), (2, 0), (3, 0), (4, 0), (6, 8), (6, 8)]
    else:
        assert table.rows() == [(i, changed.get(i, 0)) for i in range(6)]
        assert table.version == (2 if changed else 1)


@both
def test_functions_of_the_user(spark, tmp_path, vectors):
    spark.udf.register("plus_one", lambda x: x + 1, "bigint")
    table = Table(spark, tmp_path / "t", "id BIGINT, v BIGINT", "SELECT id, id FROM range(0, 4, 1, 2)", vectors=vectors)
    assert table.run("UPDATE {t} SET v = plus_one(v), id = id * 3 WHERE plus_one(id) > 2") == [(2,)]
    assert table.rows() == [(0, 0), (1, 1), (6, 3), (9, 4)]


@pytest.mark.parametrize("files", [1, 2])
def test_functions_see_only_the_rows_they_are_for(spark, tmp_path, files):
    spark.udf.register("negated", lambda x: -x, "int")
    table = Table(spark, tmp_path / "t", "id BIGINT, v INT", f"SELECT id, nullif(id, 3) FROM range(0, 6, 1, {files})")
    assert table.run("UPDATE {t} SET v = negated(v) WHERE v IS NOT NULL") == [(5,)]
    assert table.rows() == [(i, None if i == 3 else -i) for i in range(6)]


def test_sql_functions(spark, tmp_path, fails):
    """Spark takes them in queries only, the subqueries of a statement among them."""
    spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION thrice(x BIGINT) RETURNS BIGINT RETURN x * 3")
    table = Table(spark, tmp_path / "t", "id BIGINT, v BIGINT", "SELECT id, id FROM range(0, 4, 1, 2)")
    with fails("UNSUPPORTED_SQL_UDF_USAGE", "thrice", state="0A000"):
        table.run("UPDATE {t} SET v = thrice(v)")
    with fails("UNSUPPORTED_SQL_UDF_USAGE", "thrice", state="0A000"):
        table.run("DELETE FROM {t} WHERE thrice(v) = 3")
    assert table.version == 1
    assert table.run("UPDATE {t} SET v = (SELECT thrice(max(id)) FROM {t}) WHERE id = 0") == [(1,)]
    assert table.run("DELETE FROM {t} WHERE v IN (SELECT thrice(id) FROM {t})") == [(2,)]
    assert table.rows() == [(1, 1), (2, 2)]


@both
def test_only_files_with_matching_rows_are_touched(spark, tmp_path, vectors):
    table = Table(spark, tmp_path / "t", "id BIGINT, v INT", "SELECT id, 0 FROM range(0, 6, 1, 3)", vectors=vectors)
    outside = table.files_of("id < 2 OR id > 3")
    kept = {file: (table.path / file).read_bytes() for file in outside}
    table.break_files(outside)
    assert table.run("UPDATE {t} SET v = 1 WHERE id = 2") == [(1,)]
    for file, content in kept.items():
        (table.path / file).write_bytes(content)
    assert outside < table.files()
    assert table.rows() == [(i, int(i == 2)) for i in range(6)]
    if vectors:
        assert table.metrics() == {"numUpdatedRows": 1, "numAddedFiles": 1, "numDeletionVectorsAdded": 1}
        assert table.run("UPDATE {t} SET v = 2 WHERE id IN (2, 3)") == [(2,)]
        assert table.metrics()["numRemovedFiles"] == 2  # nothing is left of either file
        assert table.metrics()["numDeletionVectorsRemoved"] == 1
    else:
        assert table.metrics("numCopiedRows", "numRemovedFiles") == {"numCopiedRows": 1, "numRemovedFiles": 1}


@pytest.mark.covering
@both
@pytest.mark.parametrize("condition", ["id > 100", "id % 10 = 8", "CAST(NULL AS BOOLEAN)", "v > 0"])
def test_nothing_matched_is_no_commit(spark, tmp_path, vectors, condition):
    table = Table(spark, tmp_path / "t", "id BIGINT, v INT", "SELECT id, NULL FROM range(6)", vectors=vectors)
    before = table.files_on_disk()
    assert table.run(f"UPDATE {{t}} SET v = 1 WHERE {condition}") == [(0,)]
    assert table.version == 1
    assert table.files_on_disk() == before


def test_answer_and_history(spark, tmp_path):
    table = Table(spark, tmp_path / "t", "id BIGINT, v INT", "SELECT id, 0 FROM range(0, 6, 1, 2)")
    answer = spark.sql(f"UPDATE {table.name} SET v = 1 WHERE id % 3 = 1")
    assert answer.schema.simpleString() == "struct<num_affected_rows:bigint>"
    assert answer.collect() == [(2,)]
    assert table.version == 2
    history = spark.sql(f"DESCRIBE HISTORY {table.name} LIMIT 1").first()
    assert history.operation == "UPDATE"
    assert "id % " in history.operationParameters["predicate"]
    assert int(history.operationMetrics["numUpdatedRows"]) == 2
    assert int(history.operationMetrics["numCopiedRows"]) == 4


@both
def test_caches_show_the_new_rows(spark, tmp_path, vectors):
    table = Table(spark, tmp_path / "t", "id BIGINT, v INT", "SELECT id, 0 FROM range(6)", vectors=vectors)
    frame = spark.read.format("delta").load(str(table.path)).groupBy().sum("v").cache()
    try:
        assert frame.first()[0] == 0
        table.run("UPDATE {t} SET v = 1 WHERE id > 2")
        assert frame.first()[0] == 3
    finally:
        frame.unpersist()


@both
def test_column_mapping(spark, tmp_path, vectors):
    table = Table(
        spark,
        tmp_path / "t",
        "id BIGINT, `a b` STRUCT<`c.d`: INT>, p INT",
        "SELECT id, named_struct('c.d', id), CAST(id % 2 AS INT) FROM range(0, 4, 1, 1)",
        partitioned="p",
        vectors=vectors,
        properties=["'delta.columnMapping.mode' = 'name'"],
    )
    assert table.run("UPDATE {t} SET `a b`.`c.d` = 9, p = 5 WHERE id = 3") == [(1,)]
    assert table.rows() == [(0, (0,), 0), (1, (1,), 1), (2, (2,), 0), (3, (9,), 5)]
