"""MERGE: clauses, sources, matching rules, the table's own rules and the answer."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import functions as F

from support.dml_table import Table

pytestmark = pytest.mark.covering("file")

both = pytest.mark.parametrize("vectors", [False, True], ids=["copy", "vectors"])
EIGHT = "SELECT id, CAST(id * 10 AS INT) AS v FROM range(0, 8, 1, 2)"
COLUMNS = "id BIGINT, v INT"


def source(*rows: str) -> str:
    return f"(SELECT * FROM VALUES {', '.join(rows)} AS s(id, v))"


@both
def test_all_clauses(spark, tmp_path, vectors):
    """The first clause of a kind that holds is taken; a row none holds for stays, or is not inserted."""
    table = Table(spark, tmp_path / "t", COLUMNS, EIGHT, vectors=vectors)
    rows = source("(0, 1)", "(1, 2)", "(2, 3)", "(3, 4)", "(20, 5)", "(21, 6)", "(22, 7)")
    answer = table.run(
        f"""MERGE INTO {{t}} AS t USING {rows} AS s
        ON t.id = s.id
        WHEN MATCHED AND s.v = 1 THEN UPDATE SET v = s.v
        WHEN MATCHED AND s.v < 3 THEN DELETE
        WHEN MATCHED AND t.id < 3 THEN UPDATE SET v = t.v + s.v
        WHEN NOT MATCHED AND s.v = 5 THEN INSERT *
        WHEN NOT MATCHED AND s.v < 7 THEN INSERT (id) VALUES (s.id * 2)
        WHEN NOT MATCHED BY SOURCE AND t.id = 4 THEN DELETE
        WHEN NOT MATCHED BY SOURCE AND t.id < 6 THEN UPDATE SET v = -1"""
    )
    assert answer == [(7, 3, 2, 2)]
    assert table.rows() == [(0, 1), (2, 23), (20, 5), (3, 30), (42, None), (5, -1), (6, 60), (7, 70)]
    metrics = table.metrics()
    assert metrics.pop("numTargetFilesAdded") > 0
    expected = {
        "numSourceRows": 7,
        "numTargetRowsInserted": 2,
        "numTargetRowsUpdated": 3,
        "numTargetRowsMatchedUpdated": 2,
        "numTargetRowsNotMatchedBySourceUpdated": 1,
        "numTargetRowsDeleted": 2,
        "numTargetRowsMatchedDeleted": 1,
        "numTargetRowsNotMatchedBySourceDeleted": 1,
        "numOutputRows": 5 if vectors else 8,
    }
    assert {name: metrics[name] for name in expected} == expected
    info = table.info()
    assert (info["operation"], info["readVersion"]) == ("MERGE", 1)
    assert [p["actionType"] for p in json.loads(info["operationParameters"]["matchedPredicates"])] == [
        "update",
        "delete",
        "update",
    ]


@pytest.mark.covering
@both
@pytest.mark.parametrize(
    ("clauses", "answer", "left"),
    [
        ("WHEN MATCHED THEN DELETE", (2, 0, 2, 0), {0: 0, 3: 30}),
        ("WHEN MATCHED THEN UPDATE SET *", (2, 2, 0, 0), {0: 0, 1: -1, 2: -2, 3: 30}),
        ("WHEN NOT MATCHED THEN INSERT *", (1, 0, 0, 1), {0: 0, 1: 10, 2: 20, 3: 30, 9: -9}),
        ("WHEN NOT MATCHED BY SOURCE THEN DELETE", (2, 0, 2, 0), {1: 10, 2: 20}),
        ("WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = v + 1", (2, 2, 0, 0), {0: 1, 1: 10, 2: 20, 3: 31}),
        (
            "WHEN MATCHED THEN UPDATE SET v = t.v + s.v WHEN NOT MATCHED THEN INSERT (v, id) VALUES (0, s.id)",
            (3, 2, 0, 1),
            {0: 0, 1: 9, 2: 18, 3: 30, 9: 0},
        ),
        ("WHEN MATCHED AND t.v > 100 THEN DELETE", (0, 0, 0, 0), {0: 0, 1: 10, 2: 20, 3: 30}),
        ("WHEN MATCHED AND CAST(NULL AS BOOLEAN) THEN DELETE", (0, 0, 0, 0), {0: 0, 1: 10, 2: 20, 3: 30}),
        ("WHEN NOT MATCHED AND s.v > 0 THEN INSERT *", (0, 0, 0, 0), {0: 0, 1: 10, 2: 20, 3: 30}),
    ],
)
def test_each_kind_of_clause(spark, tmp_path, vectors, clauses, answer, left):
    table = Table(
        spark, tmp_path / "t", COLUMNS, "SELECT id, CAST(id * 10 AS INT) FROM range(0, 4, 1, 1)", vectors=vectors
    )
    found = table.run(
        f"MERGE INTO {{t}} t USING {source('(1L, -1)', '(2L, -2)', '(9L, -9)')} s ON t.id = s.id {clauses}"
    )
    assert found == [answer]
    assert dict(table.rows()) == left
    if answer[0] == 0:
        assert table.version == 1


def test_answer(spark, tmp_path):
    table = Table(spark, tmp_path / "t", COLUMNS, EIGHT)
    answer = spark.sql(f"MERGE INTO {table.name} t USING {source('(1, 1)')} s ON t.id = s.id WHEN MATCHED THEN DELETE")
    assert answer.columns == ["num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows"]
    assert answer.collect() == [(1, 0, 1, 0)]
    assert table.version == 2


def test_insert_only_rewrites_nothing(spark, tmp_path):
    table = Table(spark, tmp_path / "t", COLUMNS, EIGHT)
    before = table.files()
    merging = f"MERGE INTO {{t}} t USING {source('(1, 1)', '(50, 2)', '(50, 3)', '(NULL, 4)')} s ON t.id = s.id"
    assert table.run(f"{merging} WHEN NOT MATCHED THEN INSERT *") == [(3, 0, 0, 3)]
    assert before < table.files()
    assert not any("remove" in action for action in table.actions())
    assert table.values() == [0, 1, 2, 3, 4, 5, 6, 7, 50, 50, None]


def test_merge_into_an_empty_table(spark, tmp_path):
    table = Table(spark, tmp_path / "t", COLUMNS)
    merging = f"MERGE INTO {{t}} t USING {source('(1, 1)', '(2, 2)')} s ON t.id = s.id"
    clauses = "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN DELETE"
    assert table.run(f"{merging} {clauses}") == [(2, 0, 0, 2)]
    assert table.rows() == [(1, 1), (2, 2)]
    assert table.run(
        f"MERGE INTO {{t}} t USING {source('(1, 1)')} s "
        "ON s.id > 1 AND t.id = s.id WHEN NOT MATCHED BY SOURCE THEN DELETE"
    ) == [(2, 0, 2, 0)]
    assert table.rows() == []


# -- several matches -----------------------------------------------------------------------------------------

TWICE = source("(1, 1)", "(1, 2)", "(2, 3)")


@pytest.mark.covering
@both
@pytest.mark.parametrize(
    "clauses",
    [
        "WHEN MATCHED THEN UPDATE SET v = s.v",
        "WHEN MATCHED THEN UPDATE SET v = 0",
        "WHEN MATCHED AND s.v > 0 THEN DELETE",
        "WHEN MATCHED AND s.v = 1 THEN UPDATE SET v = 0 WHEN MATCHED THEN DELETE",
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN DELETE",
    ],
)
def test_two_matches_that_act_are_an_error(spark, tmp_path, fails, vectors, clauses):
    table = Table(spark, tmp_path / "t", COLUMNS, EIGHT, vectors=vectors)
    before = table.state
    with fails("DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE", table.name):
        table.run(f"MERGE INTO {{t}} t USING {TWICE} s ON t.id = s.id {clauses}")
    assert table.comes_to(before)


@pytest.mark.covering
@both
@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize(
    ("clauses", "answer", "left"),
    [
        ("WHEN MATCHED THEN DELETE", (2, 0, 2, 0), {0: 0, 3: 30}),
        ("WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *", (2, 0, 2, 0), {0: 0, 3: 30}),
        ("WHEN MATCHED AND s.v > 1 THEN UPDATE SET v = s.v", (2, 2, 0, 0), {0: 0, 1: 2, 2: 3, 3: 30}),
        (
            "WHEN MATCHED AND s.v = 2 THEN DELETE WHEN MATCHED AND t.id = 2 THEN UPDATE SET v = 5",
            (2, 1, 1, 0),
            {0: 0, 2: 5, 3: 30},
        ),
        ("WHEN NOT MATCHED BY SOURCE THEN DELETE", (2, 0, 2, 0), {1: 10, 2: 20}),
    ],
)
def test_where_one_match_acts_it_is_none(spark, tmp_path, vectors, changes, clauses, answer, left):
    rows = "SELECT id, CAST(id * 10 AS INT) FROM range(0, 4, 1, 1)"
    table = Table(spark, tmp_path / "t", COLUMNS, rows, vectors=vectors, changes=changes)
    assert table.run(f"MERGE INTO {{t}} t USING {TWICE} s ON t.id = s.id {clauses}") == [answer]
    assert dict(table.rows()) == left
    if changes and "cdc" in str(table.actions()):
        deletes = [row for row in table.change_rows() if row[2] == "delete"]
        assert len(deletes) == answer[2]


# -- sources -------------------------------------------------------------------------------------------------

UPSERT = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"


@pytest.mark.covering
@both
@pytest.mark.parametrize(
    "using",
    [
        "a_view AS s",
        "(SELECT id, max(v) AS v FROM a_view GROUP BY id) AS s",
        "(WITH c AS (SELECT id, v FROM a_view) SELECT * FROM c) AS s",
        "a_table AS s",
        "(SELECT a.id, a.v FROM a_table a JOIN a_view b ON a.id = b.id) s",
        "(SELECT id, v FROM a_view WHERE id IN (SELECT id FROM a_table)) s",
        "range(1, 10, 8) r JOIN a_view USING (id)",
    ],
)
def test_sources(spark, tmp_path, database, vectors, using):
    spark.sql("CREATE OR REPLACE TEMP VIEW a_view AS SELECT * FROM VALUES (1L, 11), (9L, 99) AS s(id, v)")
    spark.sql("CREATE TABLE a_table USING parquet AS SELECT * FROM a_view")
    if "JOIN a_view USING" in using:
        using = f"(SELECT id, v FROM {using}) s"
    table = Table(spark, tmp_path / "t", COLUMNS, "SELECT id, 0 FROM range(0, 3, 1, 1)", vectors=vectors)
    assert table.run(f"MERGE INTO {{t}} t USING {using} ON t.id = s.id {UPSERT}") == [(2, 1, 0, 1)]
    assert table.rows() == [(0, 0), (1, 11), (2, 0), (9, 99)]
    assert table.metrics("numSourceRows") == {"numSourceRows": 2}


@both
def test_source_is_the_target(spark, tmp_path, vectors):
    table = Table(spark, tmp_path / "t", COLUMNS, EIGHT, vectors=vectors)
    merging = "MERGE INTO {t} t USING (SELECT id + 4 AS id, v FROM {t}) s ON t.id = s.id"
    assert table.run(f"{merging} {UPSERT}") == [(8, 4, 0, 4)]
    expected = {i: i * 10 for i in range(4)} | {i + 4: i * 10 for i in range(8)}
    assert dict(table.rows()) == expected
    merging = "MERGE INTO {t} t USING {t} s ON t.id = s.id + 1 AND s.v > 30"
    assert (
        table.run(f"{merging} WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED BY SOURCE THEN DELETE")[0][0] == 12
    )
    assert dict(table.rows()) == {i: (i - 5) * 10 for i in range(9, 12)}


def test_data_frame(spark, tmp_path):
    table = Table(spark, tmp_path / "t", COLUMNS, EIGHT)
    frame = spark.createDataFrame([(1, -1), (30, -30)], COLUMNS)
    spark.sql(f"CREATE OR REPLACE TEMP VIEW merge_into_path AS SELECT * FROM {table.name}")
    (
        frame.alias("s")
        .mergeInto(table.name, F.expr(f"delta.`{table.path}`.id = s.id"))
        .whenMatched()
        .updateAll()
        .whenNotMatched(F.col("s.v") < 0)
        .insertAll()
        .whenNotMatchedBySource(F.expr("id > 5"))
        .delete()
        .merge()
    )
    assert table.rows() == [(0, 0), (1, -1), (2, 20), (3, 30), (30, -30), (4, 40), (5, 50)]


@both
def test_source_that_is_not_deterministic_is_read_once(spark, tmp_path, vectors):
    """Every row of the source either updates or is inserted, whichever it draws: never both, never neither."""
    table = Table(spark, tmp_path / "t", COLUMNS, "SELECT id, 0 FROM range(0, 100, 1, 2)", vectors=vectors)
    drawn = "(SELECT id + IF(rand() < 0.5, 0, 1000) AS id, 1 AS v FROM range(0, 100, 1, 2))"
    ((affected, updated, deleted, inserted),) = table.run(f"MERGE INTO {{t}} t USING {drawn} s ON t.id = s.id {UPSERT}")
    assert (affected, deleted, updated + inserted) == (100, 0, 100)
    assert 0 < inserted < 100
    values = table.values()
    assert len(values) == 100 + inserted
    assert len(set(values)) == len(values)
    assert table.run("SELECT count(*) FROM {t} WHERE id < 100 AND v = 1") == [(updated,)]


def test_conditions_over_one_side(spark, tmp_path):
    table = Table(spark, tmp_path / "t", COLUMNS, EIGHT, vectors=True)
    outside = table.files_of("id < 4")
    kept = {file: (table.path / file).read_bytes() for file in outside}
    table.break_files(outside)
    merging = (
        f"MERGE INTO {{t}} t USING {source('(5, 1)', '(6, 2)', '(1, 3)')} s ON t.id = s.id AND t.id > 4 AND s.v < 3"
    )
    assert table.run(f"{merging} {UPSERT}") == [(3, 2, 0, 1)]
    for file, content in kept.items():
        (table.path / file).write_bytes(content)
    assert table.run("SELECT v FROM {t} WHERE id = 1 ORDER BY v") == [(3,), (10,)]
    # A cross join is a join too.
    assert table.run(f"MERGE INTO {{t}} t USING {source('(1, 3)')} s ON true WHEN MATCHED THEN DELETE")[0][2] == 9


def test_subqueries_and_functions(spark, tmp_path):
    spark.udf.register("negated", lambda x: -x, "int")
    spark.sql("CREATE OR REPLACE TEMP VIEW keys AS SELECT * FROM VALUES (1L), (NULL) AS s(k)")
    table = Table(spark, tmp_path / "t", COLUMNS, "SELECT id, CAST(id AS INT) FROM range(0, 4, 1, 1)")
    merging = f"MERGE INTO {{t}} t USING {source('(1, 1)', '(2, 2)', '(8, 8)')} s ON t.id = s.id"
    assert table.run(
        f"{merging} WHEN MATCHED THEN UPDATE SET v = negated(s.v) "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, negated(s.v))"
    ) == [(3, 2, 0, 1)]
    assert table.rows() == [(0, 0), (1, -1), (2, -2), (3, 3), (8, -8)]
    assert table.run(f"{merging} WHEN MATCHED THEN UPDATE SET v = (SELECT max(k) FROM keys)") == [(3, 3, 0, 0)]
    assert table.rows() == [(0, 0), (1, 1), (2, 1), (3, 3), (8, 1)]


@pytest.mark.parametrize("changes", [False, True])
def test_a_tiny_file_is_written_anew_only_if_it_must(spark, tmp_path, changes):
    table = Table(spark, tmp_path / "t", COLUMNS, "SELECT id, 0 FROM range(0, 4, 1, 1)", changes=changes)
    before = table.files()
    # The row of id 9 is new, and nothing is done to the others.
    merging = f"MERGE INTO {{t}} t USING {source('(1, 1)', '(9, 9)')} s ON t.id = s.id"
    inserting = "WHEN NOT MATCHED THEN INSERT *"
    assert table.run(f"{merging} WHEN MATCHED AND s.v > 5 THEN DELETE {inserting}") == [(1, 0, 0, 1)]
    assert before < table.files()
    # Nothing at all is done.
    version = table.version
    assert table.run(f"{merging} WHEN MATCHED AND s.v > 10 THEN DELETE") == [(0, 0, 0, 0)]
    assert table.version == version
    # Neither the row of the source without a clause nor the match that is not acted on comes twice, or at all.
    several = f"MERGE INTO {{t}} t USING {source('(1, 1)', '(1, 2)', '(2, 7)', '(2, 8)', '(8, 8)')} s ON t.id = s.id"
    acting = "WHEN MATCHED AND s.v = 2 THEN UPDATE SET v = s.v WHEN NOT MATCHED AND s.v > 8 THEN INSERT *"
    assert table.run(f"{several} {acting}") == [(1, 1, 0, 0)]
    assert table.rows() == [(0, 0), (1, 2), (2, 0), (3, 0), (9, 9)]


@both
def test_caches_show_the_new_rows(spark, tmp_path, vectors):
    table = Table(spark, tmp_path / "t", COLUMNS, EIGHT, vectors=vectors)
    frame = spark.read.format("delta").load(str(table.path)).where("v < 0").cache()
    try:
        assert frame.count() == 0
        table.run(f"MERGE INTO {{t}} t USING {source('(1, -1)', '(70, -7)')} s ON t.id = s.id {UPSERT}")
        assert sorted(frame.collect()) == [(1, -1), (70, -7)]
    finally:
        frame.unpersist()


# -- values --------------------------------------------------------------------------------------------------


@both
def test_star_names_the_targets_columns(spark, tmp_path, fails, vectors):
    table = Table(spark, tmp_path / "t", "id BIGINT, V INT", EIGHT, vectors=vectors)
    wide = "(SELECT 'x' AS more, 5S AS v, 1L AS ID UNION ALL SELECT 'y', 6S, 100L)"
    assert table.run(f"MERGE INTO {{t}} t USING {wide} s ON t.id = s.id {UPSERT}") == [(2, 1, 0, 1)]
    assert table.run("SELECT * FROM {t} WHERE id IN (1, 100) ORDER BY id") == [(1, 5), (100, 6)]
    version = table.version
    with fails("DELTA_MERGE_UNRESOLVED_EXPRESSION", "V", state="42601"):
        table.run("MERGE INTO {t} t USING (SELECT 1L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *")
    assert table.version == version


@both
def test_structs_are_matched_by_name(spark, tmp_path, vectors):
    table = Table(
        spark,
        tmp_path / "t",
        "id BIGINT, s STRUCT<a: INT, b: STRUCT<c: STRING, d: INT>>, l ARRAY<STRUCT<x: INT, y: STRING>>",
        "SELECT id, named_struct('a', 1, 'b', named_struct('c', 'q', 'd', 2)), array() FROM range(0, 2, 1, 1)",
        vectors=vectors,
    )
    other = "named_struct('b', named_struct('d', 8, 'c', 'z'), 'a', 9) AS s, array(named_struct('y', 'w', 'x', 3)) AS l"
    merging = f"MERGE INTO {{t}} t USING (SELECT id, {other} FROM range(1, 3, 1, 1)) u ON t.id = u.id"
    assert table.run(f"{merging} WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *") == [(2, 1, 0, 1)]
    new = ((9, ("z", 8)), [(3, "w")])
    assert table.run("SELECT * FROM {t} ORDER BY id") == [(0, (1, ("q", 2)), []), (1, *new), (2, *new)]
    assert table.run(f"{merging} WHEN MATCHED AND t.id = 1 THEN UPDATE SET t.s.b.d = u.s.a, l = NULL") == [(1, 1, 0, 0)]
    assert table.run("SELECT s, l FROM {t} WHERE id = 1") == [((9, ("z", 9)), None)]


@pytest.mark.covering
@both
@pytest.mark.parametrize("changes", [False, True])
def test_generated_columns_defaults_and_partitions(spark, tmp_path, fails, vectors, changes):
    table = Table(
        spark,
        tmp_path / "t",
        "id BIGINT, v INT DEFAULT 42, twice BIGINT GENERATED ALWAYS AS (id * 2), "
        "p INT GENERATED ALWAYS AS (CAST(v % 2 AS INT))",
        partitioned="p",
        vectors=vectors,
        changes=changes,
        properties=["'delta.feature.allowColumnDefaults' = 'supported'"],
    )
    table.run("INSERT INTO {t} (id, v) SELECT id, 0 FROM range(0, 4, 1, 1)")
    merging = f"MERGE INTO {{t}} t USING {source('(1L, 11)', '(2L, 12)', '(8L, 13)', '(9L, 14)')} s ON t.id = s.id"
    assert table.run(
        f"""{merging}
        WHEN MATCHED AND s.v = 11 THEN UPDATE SET v = s.v WHEN MATCHED THEN UPDATE SET v = DEFAULT, id = 22
        WHEN NOT MATCHED AND s.v = 13 THEN INSERT * WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)"""
    ) == [(4, 2, 0, 2)]
    assert table.rows() == [
        (0, 0, 0, 0),
        (1, 11, 2, 1),
        (22, 42, 44, 0),
        (3, 0, 6, 0),
        (8, 13, 16, 1),
        (9, 42, 18, 0),
    ]
    if changes:
        kinds = [row[3] for row in table.change_rows()]
        assert sorted(kinds) == ["insert"] * 2 + ["update_postimage"] * 2 + ["update_preimage"] * 2
    version = table.version
    with fails("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "twice", " - twice : 1"):
        table.run(f"{merging} WHEN MATCHED THEN UPDATE SET twice = 1")
    assert table.version == version


def test_constraints(spark, tmp_path, fails):
    table = Table(spark, tmp_path / "t", "id BIGINT NOT NULL, v INT, CONSTRAINT small CHECK (v < 100)")
    table.run("INSERT INTO {t} " + EIGHT)
    before = table.state
    for rows, condition, words in (
        ("(1, 500)", "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", ("small", "v < 100", " - v : 500")),
        ("(50, 600)", "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", ("small", " - v : 600")),
        ("(NULL, 1)", "DELTA_NOT_NULL_CONSTRAINT_VIOLATED", ("Column id ",)),
    ):
        with fails(condition, *words):
            table.run(f"MERGE INTO {{t}} t USING {source(rows)} s ON t.id = s.id {UPSERT}")
    assert table.comes_to(before)


# -- columns the source brings -------------------------------------------------------------------------------

MAPPED = "'delta.columnMapping.mode' = 'name'"


@pytest.mark.covering
@pytest.mark.parametrize("properties", [[], [MAPPED]], ids=["plain", "mapped"])
@both
def test_schema_evolution(spark, tmp_path, vectors, properties):
    table = Table(
        spark,
        tmp_path / "t",
        "id BIGINT, s STRUCT<a: INT>",
        "SELECT id, named_struct('a', id) FROM range(0, 3, 1, 1)",
        vectors=vectors,
        changes=True,
        properties=properties,
    )
    brings = "(SELECT id, named_struct('b', 'n', 'a', 7) AS s, 'new' AS w FROM range(2, 4, 1, 1))"
    merging = f"MERGE WITH SCHEMA EVOLUTION INTO {{t}} t USING {brings} u ON t.id = u.id"
    assert table.run(f"{merging} {UPSERT}") == [(2, 1, 0, 1)]
    assert table.run("SELECT id, s.a, s.b, w FROM {t} ORDER BY id") == [
        (0, 0, None, None),
        (1, 1, None, None),
        (2, 7, "n", "new"),
        (3, 7, "n", "new"),
    ]
    assert [f.name for f in spark.table(table.name).schema] == ["id", "s", "w"]
    # A source that lacks a column, or a field, leaves it as it is in a row there, and null in a new one.
    lacking = "(SELECT id, named_struct('a', 9) AS s FROM range(3, 5, 1, 1))"
    assert table.run(f"MERGE WITH SCHEMA EVOLUTION INTO {{t}} t USING {lacking} u ON t.id = u.id {UPSERT}") == [
        (2, 1, 0, 1)
    ]
    assert table.run("SELECT id, s.a, s.b, w FROM {t} WHERE id > 2 ORDER BY id") == [
        (3, 9, "n", "new"),
        (4, 9, None, None),
    ]


def test_auto_merge_and_named_columns(spark, tmp_path, settings, fails):
    table = Table(spark, tmp_path / "t", COLUMNS, EIGHT)
    brings = "(SELECT 1L AS id, 2 AS v, 'n' AS w, 'o' AS o)"
    merging = f"INTO {{t}} t USING {brings} u ON t.id = u.id"
    with fails("DELTA_MERGE_UNRESOLVED_EXPRESSION", "w", state="42601"):
        table.run(f"MERGE {merging} WHEN MATCHED THEN UPDATE SET w = u.w")
    assert table.run(f"MERGE WITH SCHEMA EVOLUTION {merging} WHEN MATCHED THEN UPDATE SET t.w = u.w") == [(1, 1, 0, 0)]
    assert spark.table(table.name).columns == ["id", "v", "w"]  # only what is assigned
    with settings({"spark.databricks.delta.schema.autoMerge.enabled": "true"}):
        assert table.run(f"MERGE {merging} WHEN MATCHED THEN UPDATE SET *") == [(1, 1, 0, 0)]
    assert spark.table(table.name).columns == ["id", "v", "w", "o"]
    assert table.run("SELECT * FROM {t} WHERE w IS NOT NULL") == [(1, 2, "n", "o")]


def test_wider_types(spark, tmp_path):
    """Columns take wider types where the table says so; else values are cast to the type there is."""
    brings = "(SELECT CAST(id AS BIGINT) AS id, 5000000000 AS v FROM range(7, 9, 1, 1))"
    widening = Table(spark, tmp_path / "w", COLUMNS, EIGHT, properties=["'delta.enableTypeWidening' = 'true'"])
    assert widening.run(f"MERGE WITH SCHEMA EVOLUTION INTO {{t}} t USING {brings} s ON t.id = s.id {UPSERT}") == [
        (2, 1, 0, 1)
    ]
    assert spark.table(widening.name).schema["v"].dataType.simpleString() == "bigint"
    assert widening.rows()[-2:] == [(7, 5000000000), (8, 5000000000)]
    assert dict(widening.rows())[1] == 10
    fixed = Table(spark, tmp_path / "f", COLUMNS, EIGHT)
    small = brings.replace("5000000000", "5L")
    assert fixed.run(f"MERGE WITH SCHEMA EVOLUTION INTO {{t}} t USING {small} s ON t.id = s.id {UPSERT}") == [
        (2, 1, 0, 1)
    ]
    assert spark.table(fixed.name).schema["v"].dataType.simpleString() == "int"


def test_evolution_without_a_row_changes_the_table(spark, tmp_path):
    table = Table(spark, tmp_path / "t", COLUMNS, EIGHT)
    brings = "(SELECT 100L AS id, 1 AS v, 'n' AS w)"
    assert table.run(
        f"MERGE WITH SCHEMA EVOLUTION INTO {{t}} t USING {brings} u ON t.id = u.id WHEN MATCHED THEN UPDATE SET *"
    ) == [(0, 0, 0, 0)]
    assert spark.table(table.name).columns == ["id", "v", "w"]


@both
def test_column_mapping(spark, tmp_path, vectors):
    table = Table(
        spark,
        tmp_path / "t",
        "`the id` BIGINT, `a.b` INT, p STRING",
        "SELECT id, 0, IF(id % 2 = 0, 'x y', NULL) FROM range(0, 4, 1, 1)",
        partitioned="p",
        vectors=vectors,
        properties=[MAPPED],
    )
    brings = "(SELECT id AS `the id`, 5 AS `a.b`, 'z' AS p FROM range(3, 5, 1, 1))"
    assert table.run(f"MERGE INTO {{t}} t USING {brings} s ON t.`the id` = s.`the id` {UPSERT}") == [(2, 1, 0, 1)]
    assert table.rows() == [(0, 0, "x y"), (1, 0, None), (2, 0, "x y"), (3, 5, "z"), (4, 5, "z")]


def test_identity_columns(spark, tmp_path, fails):
    table = Table(spark, tmp_path / "t", "key BIGINT GENERATED ALWAYS AS IDENTITY, id BIGINT, v INT")
    table.run("INSERT INTO {t} (id, v) " + EIGHT)
    merging = f"MERGE INTO {{t}} t USING {source('(1, 1)', '(50, 2)', '(51, 3)')} s ON t.id = s.id"
    assert table.run(
        f"{merging} WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"
    ) == [(3, 1, 0, 2)]
    assert table.values("key") == list(range(1, 11))
    assert table.run(f"{merging} WHEN MATCHED THEN DELETE") == [(3, 0, 3, 0)]
    assert table.run(f"{merging} {UPSERT}") == [(3, 0, 0, 3)]
    assert table.run("SELECT key FROM {t} WHERE id IN (1, 50, 51) ORDER BY key") == [(11,), (12,), (13,)]
    with fails("DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED", "key"):
        table.run(f"{merging} WHEN MATCHED THEN UPDATE SET key = 5")
    with fails("DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED", "key"):
        table.run(f"{merging} WHEN NOT MATCHED THEN INSERT (key, id) VALUES (1, 2)")
