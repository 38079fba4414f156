"""INSERT … REPLACE USING and REPLACE ON, and the writer's options that ask for the same."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from support.dml_table import Table

Row = tuple[Any, ...]
#: Statements beside one of each criterion.
MORE = max(1, int(os.environ.get("HEADWATER_TEST_EXAMPLES", "1")) // 10)
FOUR = "VALUES (1, 'a'), (1, 'b'), (2, 'c'), (CAST(NULL AS INT), 'n')"
COLUMNS = "id INT, v STRING"
#: Two rows of one key, a null key, and a key the table lacks.
NEW = "SELECT * FROM VALUES (1, 'x'), (1, 'y'), (CAST(NULL AS INT), 'z'), (9, 'q') AS s(id, v)"
REPLACED = [(1, "x"), (1, "y"), (2, "c"), (9, "q"), (None, "n"), (None, "z")]
kinds = pytest.mark.parametrize("vectors", [pytest.param(False, marks=pytest.mark.soak), True], ids=["copy", "vectors"])


def changes(table: Table) -> list[Row]:
    """The newest commit's changes."""
    version = table.version
    found = table.run(
        f"SELECT * EXCEPT (_commit_version, _commit_timestamp) FROM table_changes_by_path('{table.path}', {version})"
    )
    return sorted(found, key=repr)


def refused(table: Table, condition: str, attempt: Callable[[], Any], *words: str) -> None:
    """The attempt fails with a condition, whose message has the words, and leaves the table alone."""
    before = table.version
    with pytest.raises(PySparkException) as caught:
        attempt()
    assert caught.value.getCondition() == condition, caught.value
    assert [word for word in words if word not in str(caught.value)] == []
    assert table.version == before


@kinds
def test_rows_that_match_are_replaced(spark, tmp_path, vectors):
    """In one commit, with its changes: rows of a key go, all new rows come, a null equals nothing."""
    made = [
        Table(spark, tmp_path / name, COLUMNS, FOUR, vectors=vectors, changes=True)
        for name in ("using", "on", "null_safe", "options", "condition")
    ]
    using, on, null_safe, options, condition = made
    using.run(f"INSERT INTO {{t}} REPLACE USING (ID) {NEW}")
    on.run(f"INSERT INTO {{t}} AS t REPLACE ON t.id = s.id ({NEW}) AS s")
    null_safe.run(f"INSERT INTO {{t}} AS t BY NAME REPLACE ON t.id <=> s.id ({NEW}) AS s")
    new = spark.sql(NEW).alias("s")
    new.write.format("delta").mode("overwrite").option("replaceUsing", " `id` ").save(str(options.path))
    write = new.write.format("delta").mode("overwrite").option("targetAlias", "t")
    write.option("replaceOn", "t.id = s.id").option("userMetadata", "told").save(str(condition.path))
    added = [(1, "x", "insert"), (1, "y", "insert"), (9, "q", "insert"), (None, "z", "insert")]
    gone = [(1, "a", "delete"), (1, "b", "delete")]
    for table in (using, on, options, condition):
        assert table.rows() == REPLACED
        assert table.version == 2
        assert changes(table) == sorted([*gone, *added], key=repr)
        metrics = table.metrics("numDeletedRows", "numCopiedRows", "numOutputRows", "numAddedChangeFiles")
        assert metrics.pop("numAddedChangeFiles") == 0 if vectors else metrics.pop("numAddedChangeFiles") > 0
        copied = metrics.pop("numCopiedRows")
        assert metrics == {"numDeletedRows": 2, "numOutputRows": 4 + copied}
        assert copied == 0 or not vectors
        assert table.info()["operation"] == "WRITE"
    assert null_safe.rows() == [row for row in REPLACED if row != (None, "n")]
    told = [table.info()["operationParameters"] for table in (using, on, condition)]
    common = {"mode": "Overwrite", "partitionBy": "[]"}
    assert told == [
        {**common, "replaceUsingCols": "(ID)"},
        {**common, "replaceOnCond": "(t.id = s.id)"},
        {**common, "replaceOnCond": "t.id = s.id"},
    ]
    assert condition.info()["userMetadata"] == "told"


@pytest.mark.parametrize("vectors", [pytest.param(False, marks=pytest.mark.soak), True], ids=["copy", "vectors"])
def test_as_a_model_in_python(spark, tmp_path, vectors):
    """Random rows, keys and conditions; the table's rows and the change feed are those of a plain-Python model."""
    drawn = random.Random(20 + vectors)
    properties = ["'delta.columnMapping.mode' = 'name'"] if vectors else []
    table = Table(
        spark, tmp_path / "t", "k INT, `part` INT, v STRING", vectors=vectors, changes=True, partitioned="part",
        properties=properties,
    )  # fmt: skip
    model: list[Row] = []
    same: dict[str, Callable[[Row, Row], Any]] = {
        "REPLACE USING (k)": lambda t, s: None not in (t[0], s[0]) and t[0] == s[0],
        "REPLACE USING (part, k)": lambda t, s: None not in (*t[:2], *s[:2]) and t[:2] == s[:2],
        "REPLACE USING (part)": lambda t, s: None not in (t[1], s[1]) and t[1] == s[1],
        "REPLACE ON t.k <=> s.k AND t.part < 2": lambda t, s: t[0] == s[0] and t[1] is not None and t[1] < 2,
        "REPLACE ON t.k < s.k - 4": lambda t, s: None not in (t[0], s[0]) and t[0] < s[0] - 4,
        "REPLACE ON t.v = 'v3' OR t.k = s.part": lambda t, s: (
            t[2] == "v3" or (None not in (t[0], s[1]) and t[0] == s[1])
        ),
        "REPLACE ON t.k = 2": lambda t, s: t[0] == 2,
    }
    for step, how in enumerate([*same, *drawn.choices(list(same), k=MORE)]):
        size = drawn.choice([0, 1, 3, 12]) if step else 12
        new = [
            (drawn.choice([None, *range(8)]), drawn.choice([None, 0, 1, 2]), f"v{drawn.randrange(5)}")
            for _ in range(size)
        ]
        rows = ", ".join(f"({', '.join('NULL' if v is None else repr(v) for v in row)})" for row in new)
        text = (
            f"SELECT CAST(k AS INT) k, CAST(part AS INT) part, v FROM VALUES {rows or '(1, 1, NULL)'} AS r(k, part, v)"
        )
        text += "" if rows else " WHERE false"
        if drawn.random() < 0.4:
            # A source that is not known to have the same rows each time it is read.
            text += f" ORDER BY rand() LIMIT {len(new) + 1}"
        query = text if "USING" in how else f"({text}) AS s"
        table.run(f"INSERT INTO {{t}} {'' if 'USING' in how else 'AS t '}{how} {query}")
        gone = [row for row in model if any(same[how](row, other) for other in new)]
        model = [row for row in model if row not in gone] + new
        assert table.rows() == sorted(model, key=repr), how
        if new:
            expected = [*((*row, "delete") for row in gone), *((*row, "insert") for row in new)]
            assert changes(table) == sorted(expected, key=repr), how


def test_columns_of_all_kinds(spark, tmp_path, database):
    """Generated, identity and new columns, constraints, casts, defaults and NOT NULL, as other INSERTs have them."""
    columns = "id INT, v STRING, g INT GENERATED ALWAYS AS (id + 1), n BIGINT GENERATED ALWAYS AS IDENTITY"
    table = Table(spark, tmp_path / "t", columns)
    table.run("INSERT INTO {t} (id, v) VALUES (1, 'a'), (2, 'b')")
    table.run("INSERT INTO {t} BY NAME REPLACE USING (id) SELECT 'x' AS v, 1L AS id")
    assert table.rows("id, v, g") == [(1, "x", 2), (2, "b", 3)]
    table.run("INSERT INTO {t} REPLACE USING (id) SELECT '2' AS id, 'y' AS v")
    assert table.rows("id, v, g") == [(1, "x", 2), (2, "y", 3)]
    assert len(set(table.values("n"))) == 2
    spark.sql(f"ALTER TABLE {table.name} ADD COLUMNS (extra INT)")
    evolve = "INSERT WITH SCHEMA EVOLUTION INTO {t} BY NAME REPLACE USING (id) SELECT 3 AS id, true AS flag"
    table.run(evolve)
    assert table.rows("id, v, g, extra, flag")[-1] == (3, None, 4, None, True)
    assert table.info()["operationParameters"]["canMergeSchema"] == "true"
    frame = spark.sql("SELECT 3 AS id, 'new' AS other")
    frame.write.format("delta").mode("overwrite").options(replaceUsing="id", mergeSchema=True).save(str(table.path))
    assert table.rows("id, v, other")[-1] == (3, None, "new")
    frame = spark.sql("SELECT 4 AS id, 4 AS k, 'on' AS other").alias("s")
    write = frame.write.format("delta").mode("overwrite").options(mergeSchema=True, replaceOn="t.id + 1 = k")
    write.option("targetAlias", "t").save(str(table.path))
    assert table.rows("id, k, other")[-1] == (4, 4, "on")
    assert table.values() == [1, 2, 4]

    small = ["'delta.constraints.small' = 'id < 5'"]
    checked = Table(spark, tmp_path / "c", "id INT NOT NULL, v VARCHAR(3)", "VALUES (1, 'a')", properties=small)
    using = "INSERT INTO {t} REPLACE USING (id) "
    refused(checked, "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", lambda: checked.run(using + "SELECT 9 AS id, 'a' AS v"))
    refused(
        checked, "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
        lambda: checked.run(using + "SELECT CAST(NULL AS INT) AS id, 'a' AS v"),
    )  # fmt: skip
    refused(checked, "DELTA_EXCEED_CHAR_VARCHAR_LIMIT", lambda: checked.run(using + "SELECT 1 AS id, 'long' AS v"))

    spark.sql("CREATE TABLE named (id INT, v STRING, big STRING) USING delta")
    spark.sql("INSERT INTO named VALUES (1, 'a', 'k'), (2, 'b', 'l')")
    source = spark.sql("SELECT 1 AS id, 'x' AS v, 'k' AS big").alias("s")
    writer = source.write.format("delta").mode("overwrite")
    writer.option("replaceOn", "t.id = s.id").option("targetAlias", "t").saveAsTable("named")
    source.write.format("delta").mode("overwrite").option("replaceUsing", "id,v").insertInto("named")
    assert sorted(map(tuple, spark.table("named").collect())) == [(1, "x", "k"), (2, "b", "l")]
    spark.sql("INSERT INTO named REPLACE ON named.id = named2.id + 1 (SELECT * FROM named) AS named2")
    assert sorted(map(tuple, spark.table("named").collect())) == [(1, "x", "k"), (1, "x", "k"), (2, "b", "l")]
    spark.sql("WITH c AS (SELECT 1 AS id, 'cte' AS v, 'm' AS big) INSERT INTO named REPLACE USING (id) SELECT * FROM c")
    assert sorted(map(tuple, spark.table("named").collect())) == [(1, "cte", "m"), (2, "b", "l")]


def test_parameters_names_scripts_and_idempotence(spark, tmp_path):
    table = Table(spark, tmp_path / "t", COLUMNS, FOUR)
    text = f"INSERT INTO {table.name} AS t REPLACE ON t.id = s.id AND t.v <> :v (SELECT :id AS id, 'p' AS v) AS s"
    spark.sql(text, args={"id": 1, "v": "b"})
    assert table.rows() == [(1, "b"), (1, "p"), (2, "c"), (None, "n")]
    spark.sql("INSERT INTO IDENTIFIER(?) REPLACE USING (id) SELECT ? AS id, 'q' AS v", args=[table.name, 1])
    assert table.rows() == [(1, "q"), (2, "c"), (None, "n")]
    table.run(
        """BEGIN
        DECLARE wanted INT DEFAULT 2;
        INSERT INTO {t} AS t REPLACE ON t.id = wanted (SELECT wanted AS id, 'script' AS v) AS s;
        INSERT INTO {t} REPLACE USING (id) SELECT 1 AS id, 'r' AS v;
        END"""
    )
    assert table.rows() == [(1, "r"), (2, "script"), (None, "n")]
    shown = table.run("EXPLAIN INSERT INTO {t} REPLACE USING (id) SELECT 1 AS id, 'r' AS v")
    assert "REPLACE USING (id)" in shown[0][0]
    for _ in range(2):
        write = spark.sql("SELECT 5 AS id, 'once' AS v").write.format("delta").mode("overwrite")
        write.options(replaceUsing="id", txnAppId="app", txnVersion=1).save(str(table.path))
    assert table.rows() == [(1, "r"), (2, "script"), (5, "once"), (None, "n")]
    before = table.version
    table.run("INSERT INTO {t} AS t REPLACE ON true (SELECT 1 AS id, 'none' AS v WHERE false) AS s")
    assert table.version == before, "a source without rows replaces nothing"
    table.run("INSERT INTO {t} AS t REPLACE ON t.id IN (SELECT 2) (SELECT 7 AS id, 'sub' AS v) AS s")
    assert table.rows() == [(1, "r"), (5, "once"), (7, "sub"), (None, "n")]


def test_a_save_without_a_table_is_refused(spark, tmp_path, database):
    """A wrong path or name must not become a table; options that contradict each other are refused as elsewhere."""
    frame = spark.sql("SELECT 1 AS id, 'a' AS v").alias("s")
    path = tmp_path / "absent"
    absent = "DELTA_PATH_DOES_NOT_EXIST"
    for mode, options, condition in (
        ("overwrite", {"replaceUsing": "id"}, absent),
        ("overwrite", {"replaceOn": "t.id = s.id", "targetAlias": "t"}, absent),
        ("append", {"replaceUsing": "id"}, "DELTA_REPLACE_ON_OR_USING_IN_APPEND"),
        ("error", {"replaceOn": "true"}, "DELTA_REPLACE_ON_OR_USING_IN_APPEND"),
        ("overwrite", {"replaceUsing": "id", "replaceOn": "true"}, "DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS"),
        ("overwrite", {"replaceUsing": "id,"}, "DELTA_ILLEGAL_OPTION"),
    ):
        with pytest.raises(PySparkException) as caught:
            frame.write.format("delta").mode(mode).options(**options).save(str(path))
        assert caught.value.getCondition() == condition, options
    assert not path.exists()
    with pytest.raises(PySparkException) as caught:
        frame.write.format("delta").mode("overwrite").option("replaceUsing", "id").saveAsTable("absent")
    assert caught.value.getCondition() == absent
    assert not spark.catalog.tableExists("absent")


def test_criteria_that_cannot_replace_are_refused(spark, tmp_path, database, settings):
    table = Table(spark, tmp_path / "t", COLUMNS, FOUR, partitioned="v")
    frame = spark.sql("SELECT 1 AS id, 'a' AS v").alias("s")

    def written(mode: str = "overwrite", **options: Any) -> Callable[[], Any]:
        return lambda: frame.write.format("delta").mode(mode).options(**options).save(str(table.path))

    def sql(text: str) -> Callable[[], Any]:
        return lambda: table.run("INSERT INTO {t} " + text)

    unknown = "UNRESOLVED_INSERT_REPLACE_USING_COLUMN"
    refused(table, unknown, sql("REPLACE USING (idd) SELECT 1 AS idd, 'a' AS v"), "idd", "table", "id.")
    refused(table, unknown, sql("REPLACE USING (id) VALUES (1, 'a')"), "query", "col1")
    refused(table, unknown, written(replaceUsing="id, w"), "w")
    misaligned = "INSERT_REPLACE_USING_DISALLOW_MISALIGNED_COLUMNS"
    refused(table, misaligned, sql("REPLACE USING (id) SELECT 'a' AS v, 1 AS id"), "id, v", "BY NAME")
    ambiguous = "DELTA_INSERT_REPLACE_ON_AMBIGUOUS_COLUMNS_IN_CONDITION"
    refused(table, ambiguous, written(replaceOn="id = 1"), "`id`", "targetAlias")
    refused(table, ambiguous, sql("AS t REPLACE ON id = s.id (SELECT 1 AS id, 'a' AS v) AS s"), "`id`")
    unresolved = "DELTA_INSERT_REPLACE_ON_UNRESOLVED_COLUMNS_IN_CONDITION"
    refused(table, unresolved, written(replaceOn="t.id = s.id"), "`t`.`id`", "targetAlias")
    refused(table, unresolved, written(replaceOn="t.idd = s.id", targetAlias="t"), "`t`.`id`")
    on = "AS t REPLACE ON {} (SELECT 1 AS id, 'a' AS v) AS s"
    refused(table, "DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN", sql(on.format("t.id + s.id")))
    refused(table, "INVALID_WHERE_CONDITION", sql(on.format("max(t.id) = s.id")))
    refused(
        table, "DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED", sql(on.format("t.id = s.id AND rand() < 2")), "rand"
    )
    refused(table, "PARSE_SYNTAX_ERROR", written(replaceOn="t.id = = 1", targetAlias="t"))
    beside = "DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS"
    refused(table, beside, written(replaceOn="true", replaceUsing="id"), "replaceOn", "replaceUsing")
    refused(table, beside, written(replaceUsing="id", targetAlias="t"), "targetAlias")
    refused(table, beside, written(replaceUsing="id", overwriteSchema=True), "overwriteSchema")
    refused(table, beside, written(replaceUsing="id", dataChange=False), "dataChange")
    illegal = "DELTA_ILLEGAL_OPTION"
    for names in ("", "id,", "id,,v", "`id", "a b`c`"):
        refused(table, illegal, written(replaceUsing=names), "replaceUsing")
    refused(table, illegal, written(replaceOn=" "), "replaceOn")
    filtered = "DELTA_OVERWRITE_BY_FILTER_INCOMPATIBLE_REPLACE_ON_OR_USING"
    refused(table, filtered, written(replaceUsing="id", replaceWhere="id = 1"))
    dynamic = "DELTA_DYNAMIC_PARTITION_OVERWRITE_INCOMPATIBLE_REPLACE_ON_OR_USING"
    refused(table, dynamic, written(replaceUsing="id", partitionOverwriteMode="dynamic"))
    appending = "DELTA_REPLACE_ON_OR_USING_IN_APPEND"
    for options in ({"replaceUsing": "id"}, {"replaceOn": "true"}):
        refused(table, appending, written("append", **options))
    to = frame.writeTo(table.name).option("replaceUsing", "id")
    refused(table, appending, to.append)
    refused(table, filtered, lambda: to.overwrite(F.expr("id = 1")))
    refused(table, dynamic, to.overwritePartitions)
    refused(
        table, "DELTA_DFV2_CREATE_REPLACE_INCOMPATIBLE_REPLACE_ON_OR_USING",
        lambda: to.using("delta").createOrReplace(),
    )  # fmt: skip
    refused(table, "PARSE_SYNTAX_ERROR", sql("PARTITION (v = 'a') REPLACE USING (id) SELECT 1 AS id"))
    appends = Table(spark, tmp_path / "a", COLUMNS, FOUR, properties=["'delta.appendOnly' = 'true'"])
    refused(
        appends, "DELTA_CANNOT_MODIFY_APPEND_ONLY", lambda: appends.run("INSERT INTO {t} REPLACE USING (id) " + NEW)
    )
    spark.sql("CREATE TABLE other (id INT) USING parquet")
    with pytest.raises(PySparkException, match="v1 table|REPLACE"):
        spark.sql("INSERT INTO other REPLACE USING (id) SELECT 1 AS id")
    with settings({"spark.sql.sources.partitionOverwriteMode": "dynamic"}):
        table.run("INSERT INTO {t} REPLACE USING (id) SELECT 1 AS id, 'once' AS v")
    assert table.rows() == [(1, "once"), (2, "c"), (None, "n")]


def test_writers_of_other_keys_do_not_conflict(spark, tmp_path):
    """Each replaces rows of its own key, which lie in the files of all; none is lost or comes twice."""
    table = Table(spark, tmp_path / "t", "id BIGINT, n BIGINT", "SELECT id, 0 FROM range(0, 3, 1, 1)", vectors=True)

    def write(writer: int) -> None:
        for number in range(2):
            table.run(f"INSERT INTO {{t}} REPLACE USING (id) SELECT {writer}L AS id, {number}L AS n FROM range(2)")

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, range(3)))
    assert table.rows() == [(0, 1), (0, 1), (1, 1), (1, 1), (2, 1), (2, 1)]
    assert table.version == 7


def test_files_without_matches_are_not_read(spark, tmp_path):
    """A condition over the table alone prunes files, which need not be readable then."""
    table = Table(spark, tmp_path / "t", "id BIGINT, v INT", "SELECT id, 0 FROM range(0, 40, 1, 4)", vectors=True)
    table.break_files(table.files_of("id >= 10"))
    table.run("INSERT INTO {t} AS t REPLACE ON t.id = s.id AND t.id < 10 (SELECT 3L AS id, 1 AS v) AS s")
    assert table.metrics("numDeletedRows", "numDeletionVectorsAdded") == {
        "numDeletedRows": 1,
        "numDeletionVectorsAdded": 1,
    }
