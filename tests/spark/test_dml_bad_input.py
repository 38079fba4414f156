"""What DELETE, UPDATE and MERGE refuse: each with an error a user can act on, and a table that is as it was."""

from __future__ import annotations

import json

import pytest

from support.dml_table import Table

pytestmark = pytest.mark.covering("file")

COLUMNS = "id BIGINT, v INT, s STRUCT<a: INT, b: STRUCT<c: INT, d: INT>>"
ROWS = "SELECT id, CAST(id AS INT), named_struct('a', 1, 'b', named_struct('c', 2, 'd', 3)) FROM range(0, 4, 1, 2)"
USING = "USING (SELECT id, 1 AS v, 2 AS w FROM range(2)) u ON t.id = u.id"


@pytest.fixture(scope="module")
def table(spark, tmp_path_factory):
    return Table(spark, tmp_path_factory.mktemp("bad") / "t", COLUMNS, ROWS)


@pytest.fixture
def refused(fails):
    """``refused(table, sql, condition, *words)``: the statement fails so, and leaves nothing anywhere."""

    def check(table, sql, condition, *words, state=None):
        before = table.state
        with fails(condition, *words, state=state):
            table.run(sql)
        assert table.comes_to(before)

    return check


UNRESOLVED = ("UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703")
UNRESOLVED_IN_MERGE = ("DELTA_MERGE_UNRESOLVED_EXPRESSION", "42601")
ONE_ROW = ("DELTA_AGGREGATION_NOT_SUPPORTED", "42903")
NOT_BOOLEAN = ("DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN", "42K09")


@pytest.mark.covering
@pytest.mark.parametrize(
    ("statement", "error", "words"),
    [
        # unknown columns, with what there is
        ("DELETE FROM {t} WHERE idd = 1", UNRESOLVED, ("idd", "`id`")),
        ("UPDATE {t} SET vv = 1", UNRESOLVED, ("vv", "`v`")),
        ("UPDATE {t} SET v = vv", UNRESOLVED, ("vv", "`v`")),
        ("UPDATE {t} SET v = 1 WHERE idd = 1", UNRESOLVED, ("idd", "`id`")),
        ("UPDATE {t} SET s.z = 1", ("FIELD_NOT_FOUND", "42704"), ("z", "`a`")),
        (f"MERGE INTO {{t}} t {USING} WHEN MATCHED THEN UPDATE SET vv = 1", UNRESOLVED_IN_MERGE, ("vv", "v")),
        (f"MERGE INTO {{t}} t {USING} WHEN MATCHED THEN UPDATE SET v = u.ww", UNRESOLVED_IN_MERGE, ("ww", "w")),
        (f"MERGE INTO {{t}} t {USING} WHEN MATCHED AND ww = 1 THEN DELETE", UNRESOLVED_IN_MERGE, ("ww", "w")),
        (f"MERGE INTO {{t}} t {USING} WHEN NOT MATCHED THEN INSERT (ii) VALUES (1)", UNRESOLVED_IN_MERGE, ("ii", "id")),
        ("MERGE INTO {t} t USING {t} u ON t.id = u.ww WHEN MATCHED THEN DELETE", UNRESOLVED_IN_MERGE, ("u.ww",)),
        # what the clause cannot see
        *(
            (
                f"MERGE INTO {{t}} t {USING} WHEN NOT MATCHED {clause}",
                UNRESOLVED_IN_MERGE,
                (name, f"{side}'s columns only"),
            )
            for name, side, clause in (
                ("t.id", "source", "THEN INSERT (id) VALUES (t.id)"),
                ("t.v", "source", "AND t.v > 1 THEN INSERT *"),
                ("s.a", "source", "THEN INSERT (id, v) VALUES (u.id, s.a + 1)"),
                ("u.w", "target", "BY SOURCE AND u.w = 1 THEN DELETE"),
                ("u.w", "target", "BY SOURCE THEN UPDATE SET v = abs(u.w)"),
            )
        ),
        # columns that could be either
        (
            f"MERGE INTO {{t}} t {USING} WHEN MATCHED AND v = 1 THEN DELETE",
            ("AMBIGUOUS_REFERENCE", "42704"),
            ("`v`", "`u`.`v`", "`t`.`v`"),
        ),
        (
            "MERGE INTO {t} t USING (SELECT 1 AS k, 2 AS K) s ON t.id = s.k WHEN MATCHED THEN DELETE",
            ("AMBIGUOUS_REFERENCE", "42704"),
            ("`k`",),
        ),
        # one column, two values
        ("UPDATE {t} SET v = 1, V = 2", ("DELTA_CONFLICT_SET_COLUMN", "42701"), ("v",)),
        (
            "UPDATE {t} SET s.a = 1, s = NULL",
            ("DELTA_CONFLICT_SET_COLUMN", "42701"),
            ("s",),
        ),
        (
            "UPDATE {t} SET s.b.c = 1, s.b = NULL",
            ("DELTA_CONFLICT_SET_COLUMN", "42701"),
            ("s.b",),
        ),
        (
            f"MERGE INTO {{t}} t {USING} WHEN MATCHED THEN UPDATE SET v = 1, t.v = 2",
            ("DELTA_CONFLICT_SET_COLUMN", "42701"),
            ("v",),
        ),
        (
            f"MERGE INTO {{t}} t {USING} WHEN NOT MATCHED THEN INSERT (id, id) VALUES (1, 2)",
            ("DELTA_DUPLICATE_COLUMNS_ON_INSERT", "42701"),
            ("id",),
        ),
        # conditions that are none
        ("DELETE FROM {t} WHERE id", NOT_BOOLEAN, ("id", "BIGINT")),
        ("UPDATE {t} SET v = 1 WHERE 'x'", NOT_BOOLEAN, ("STRING",)),
        (f"MERGE INTO {{t}} t {USING} WHEN MATCHED AND 1 THEN DELETE", NOT_BOOLEAN, ("INT",)),
        ("DELETE FROM {t} WHERE count(*) > 1", ONE_ROW, ("count",)),
        ("DELETE FROM {t} WHERE row_number() OVER (ORDER BY id) > 1", ONE_ROW, ("row_number",)),
        ("UPDATE {t} SET v = max(id)", ONE_ROW, ("max",)),
        ("UPDATE {t} SET v = 1 WHERE sum(id) > 1", ONE_ROW, ("sum",)),
        ("UPDATE {t} SET v = rank() OVER (ORDER BY id)", ONE_ROW, ("RANK",)),
        ("UPDATE {t} SET v = explode(array(1, 2))", ("UNSUPPORTED_GENERATOR.OUTSIDE_SELECT", "42K0E"), ("explode",)),
        (f"MERGE INTO {{t}} t {USING} WHEN MATCHED AND max(u.w) > 1 THEN DELETE", ONE_ROW, ("max",)),
        (f"MERGE INTO {{t}} t {USING} WHEN MATCHED THEN UPDATE SET v = max(u.w)", ONE_ROW, ("max",)),
        (f"MERGE INTO {{t}} t {USING} WHEN NOT MATCHED THEN INSERT (id) VALUES (sum(u.w))", ONE_ROW, ("sum",)),
        ("DELETE FROM {t} WHERE id = (SELECT id, v FROM {t})", None, ()),
        # clauses
        (f"MERGE INTO {{t}} t {USING}", ("MERGE_WITHOUT_WHEN", "42601"), ()),
        (
            f"MERGE INTO {{t}} t {USING} WHEN MATCHED THEN DELETE WHEN MATCHED THEN UPDATE SET v = 1",
            ("NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION", "42613"),
            (),
        ),
        (
            f"MERGE INTO {{t}} t {USING} WHEN NOT MATCHED THEN INSERT (id) VALUES (1) WHEN NOT MATCHED THEN INSERT *",
            ("NON_LAST_NOT_MATCHED_BY_TARGET_CLAUSE_OMIT_CONDITION", "42613"),
            (),
        ),
        (
            f"MERGE INTO {{t}} t {USING} WHEN NOT MATCHED BY SOURCE THEN DELETE WHEN NOT MATCHED BY SOURCE THEN DELETE",
            ("NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION", "42613"),
            (),
        ),
        (
            "MERGE INTO {t} t USING (SELECT 1L AS id, 2 AS v, 3 AS V, NULL AS s) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET *",
            ("AMBIGUOUS_REFERENCE", "42704"),
            ("v",),
        ),
        # values that do not fit
        ("UPDATE {t} SET v = id + 3000000000", ("CAST_OVERFLOW_IN_TABLE_INSERT", "22003"), ("`v`", "INT")),
        (
            "UPDATE {t} SET v = 'x'",
            ("CAST_INVALID_INPUT", "22018"),
            ("'x'", "STRING", "INT"),
        ),
        (
            f"MERGE INTO {{t}} t {USING} WHEN MATCHED THEN UPDATE SET v = u.w + 3000000000",
            ("CAST_OVERFLOW_IN_TABLE_INSERT", "22003"),
            ("`v`",),
        ),
        (
            f"MERGE INTO {{t}} t {USING} WHEN NOT MATCHED THEN INSERT (v) VALUES (DATE'2020-01-01')",
            ("INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST", "KD000"),
            ("`v`",),
        ),
    ],
)
def test_a_statement_that_cannot_run_is_refused_and_changes_nothing(table, refused, fails, statement, error, words):
    if error is None:
        with pytest.raises(Exception, match="SCALAR_SUBQUERY"):
            table.run(statement)
        return
    condition, state = error
    refused(table, statement, condition, *words, state=state)


@pytest.mark.parametrize("vectors", [False, True], ids=["copy", "vectors"])
def test_violations_name_the_rule_and_show_the_row(spark, tmp_path, refused, vectors):
    table = Table(
        spark,
        tmp_path / str(vectors),
        "id BIGINT, v INT NOT NULL, s STRUCT<a: INT NOT NULL>, twice BIGINT GENERATED ALWAYS AS (id * 2), "
        "CONSTRAINT v_and_id CHECK (v < 100 OR id IS NULL)",
        vectors=vectors,
    )
    table.run("INSERT INTO {t} (id, v, s) SELECT id, id, named_struct('a', 1) FROM range(0, 4, 1, 2)")
    merging = "MERGE INTO {t} t USING (SELECT 3L AS id UNION ALL SELECT 30L) u ON t.id = u.id"
    insert = "WHEN NOT MATCHED THEN INSERT (id, v, s)"
    for statement, words in (
        ("UPDATE {t} SET v = NULL WHERE id = 3", ("Column v ", " - id : 3", " - v : null", " - twice : 6")),
        ("UPDATE {t} SET s.a = IF(id = 3, NULL, 1)", ("Column s.a ",)),
        (f"{merging} WHEN MATCHED THEN UPDATE SET v = CAST(NULL AS INT)", ("Column v ",)),
        (f"{merging} {insert} VALUES (u.id, NULL, named_struct('a', 1))", ("Column v ",)),
        (f"{merging} {insert} VALUES (u.id, 1, named_struct('a', CAST(NULL AS INT)))", ("Column s.a ",)),
    ):
        refused(table, statement, "DELTA_NOT_NULL_CONSTRAINT_VIOLATED", *words)
    for statement, words in (  # type: ignore[assignment]
        ("UPDATE {t} SET v = 105 WHERE id = 3", ("v_and_id", "v < 100 OR id IS NULL", " - v : 105", " - id : 3")),
        ("UPDATE {t} SET twice = 5 WHERE id = 3", ("twice", "id * 2", " - twice : 5", " - id : 3")),
        (f"{merging} WHEN MATCHED THEN UPDATE SET v = 107", ("v_and_id", " - v : 107", " - id : 3")),
        (f"{merging} {insert} VALUES (u.id, 108, named_struct('a', 1))", ("v_and_id", " - v : 108", " - id : 30")),
        (
            f"{merging} WHEN NOT MATCHED THEN INSERT (id, v, s, twice) VALUES (u.id, 1, named_struct('a', 1), 1)",
            ("twice", " - twice : 1", " - id : 30"),
        ),
    ):
        refused(table, statement, "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", *words)


STATEMENTS = [
    "DELETE FROM {t}",
    "DELETE FROM {t} WHERE id = 1",
    "UPDATE {t} SET v = 1",
    "MERGE INTO {t} t USING (SELECT * FROM range(2)) s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "MERGE INTO {t} t USING (SELECT * FROM range(2)) s ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 2",
]


def test_identity_columns(spark, tmp_path, refused):
    table = Table(
        spark,
        tmp_path / "t",
        "k BIGINT GENERATED ALWAYS AS IDENTITY, d BIGINT GENERATED BY DEFAULT AS IDENTITY, id BIGINT, v INT",
        "(id, v) SELECT id, 0 FROM range(2)",
    )
    merging = "MERGE INTO {t} t USING (SELECT * FROM range(2, 3)) s ON t.id = s.id"
    for column in ("k", "d"):
        for statement in (
            f"UPDATE {{t}} SET {column} = 5",
            f"{merging} WHEN MATCHED THEN UPDATE SET {column} = 5",
            f"{merging} WHEN NOT MATCHED BY SOURCE THEN UPDATE SET {column} = 5",
        ):
            refused(table, statement, "DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED", column)
    statement = f"{merging} WHEN NOT MATCHED THEN INSERT (k, id) VALUES (5, 5)"
    refused(table, statement, "DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED", "k")


@pytest.mark.parametrize("statement", STATEMENTS)
def test_append_only(spark, tmp_path, refused, statement):
    table = Table(spark, tmp_path / "t", "id BIGINT, v INT", properties=["'delta.appendOnly' = 'true'"])
    table.run("INSERT INTO {t} VALUES (0, 0), (1, 1)")
    refused(table, statement, "DELTA_CANNOT_MODIFY_APPEND_ONLY")
    merging = "MERGE INTO {t} t USING (SELECT * FROM range(1, 3)) s ON t.id = s.id"
    assert table.run(f"{merging} WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)") == [(1, 0, 0, 1)]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_unknown_writer_features(spark, tmp_path, refused, statement):
    table = Table(spark, tmp_path / "t", "id BIGINT, v INT", "SELECT id, 0 FROM range(2)")
    features = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["appendOnly", "somethingNew"]}
    commit = table.path / "_delta_log" / f"{2:020d}.json"
    commit.write_text(json.dumps({"protocol": features}))
    refused(table, statement, "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE", "somethingNew")


@pytest.mark.parametrize("statement", STATEMENTS)
def test_what_is_no_delta_table(spark, fails, rows, database, statement):
    spark.sql("CREATE TABLE base USING delta AS SELECT id, 0 AS v FROM range(2)")
    spark.sql("CREATE VIEW permanent AS SELECT * FROM base WHERE id < 5")
    with fails("DELTA_UNSUPPORTED_SOURCE", statement.split()[0], "permanent"):
        spark.sql(statement.replace("{t}", "permanent"))
    spark.sql("CREATE TABLE plain USING parquet AS SELECT id, 0 AS v FROM range(2)")
    with fails("DELTA_ONLY_OPERATION", "plain", statement.split()[0], "CONVERT TO DELTA spark_catalog"):
        spark.sql(statement.replace("{t}", "plain"))
    spark.sql("CREATE TABLE other USING csv AS SELECT id, 0 AS v FROM range(2)")
    with fails("UNSUPPORTED_FEATURE.TABLE_OPERATION", "other", state="0A000"):
        spark.sql(statement.replace("{t}", "other"))
    with fails("TABLE_OR_VIEW_NOT_FOUND", "nowhere", state="42P01"):
        spark.sql(statement.replace("{t}", "nowhere"))
    with fails("PATH_NOT_FOUND", "/nowhere", state="42K03"):
        spark.sql(statement.replace("{t}", "delta.`/nowhere`"))
    assert rows("SELECT * FROM base ORDER BY id") == [(0, 0), (1, 0)]
    assert len(rows("DESCRIBE HISTORY base")) == 1


def test_older_versions(spark, tmp_path, fails):
    table = Table(spark, tmp_path / "t", "id BIGINT, v INT", "SELECT id, 0 FROM range(2)")
    for statement in STATEMENTS:
        with fails("DELTA_TIME_TRAVEL_WRITE_NOT_ALLOWED"):
            spark.sql(statement.replace("{t}", f"delta.`{table.path}@v1`"))
    assert table.version == 1


def test_settings_that_make_no_sense(spark, tmp_path, refused, settings):
    table = Table(spark, tmp_path / "t", "id BIGINT, v INT", "SELECT id, 0 FROM range(2)")
    with settings({"spark.headwater.dml.retrySeconds": "often"}):
        refused(table, "DELETE FROM {t}", "DELTA_ILLEGAL_OPTION", "spark.headwater.dml.retrySeconds", "often")
