"""Joins and subqueries prune the files of a scan by the values that they have computed: fewer files, the same rows."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from support.requests import actions

OFF = {"spark.databricks.optimizer.dynamicFilePruning": "false"}


@pytest.fixture(scope="module")
def star(spark, tmp_path_factory):
    """A fact table of 20 files, 100 rows and five days each, and two small tables."""
    path = tmp_path_factory.mktemp("star")
    spark.conf.set("spark.sql.files.maxRecordsPerFile", 100)
    spark.sql(
        f"CREATE TABLE delta.`{path}/fact` USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = true) AS "
        "SELECT id, CAST(id DIV 20 AS INT) AS n, DATE'2024-01-01' + CAST(id DIV 20 AS INT) AS day, "
        "if(id % 50 = 7, null, concat('key ', lpad(id DIV 20, 4, '0'))) AS text, "
        "CAST(id DIV 20 AS DECIMAL(12, 2)) AS price, CAST(id DIV 20 AS DOUBLE) AS real, id % 3 AS kind "
        "FROM range(0, 2000, 1, 1)"
    )
    spark.conf.unset("spark.sql.files.maxRecordsPerFile")
    spark.sql(
        f"CREATE TABLE delta.`{path}/days` USING delta AS SELECT CAST(id AS INT) AS n, id AS long, "
        "DATE'2024-01-01' + CAST(id AS INT) AS day, concat('key ', lpad(id, 4, '0')) AS text, "
        "CAST(id AS DECIMAL(12, 2)) AS price, CAST(id AS DOUBLE) AS real, id DIV 10 AS decade, id % 3 AS kind "
        "FROM range(0, 100, 1, 1)"
    )
    spark.sql(f"DELETE FROM delta.`{path}/fact` WHERE id % 97 = 0")
    return path


@pytest.fixture(autouse=True)
def views(spark, star):
    for name in ("fact", "days"):
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS SELECT * FROM delta.`{star}/{name}`")


def scans(plan):
    """The scans below a physical plan that has run, in the order of its text."""
    for leaf in (plan.collectLeaves().apply(i) for i in range(plan.collectLeaves().length())):
        if leaf.getClass().getSimpleName().endswith("QueryStageExec"):
            yield from scans(leaf.plan())
        elif leaf.metrics().contains("numFiles"):
            yield leaf


def read(spark, text):
    """The rows of a query, and how many files each of its scans of the fact table read."""
    frame = spark.sql(text)
    found = sorted(tuple(row) for row in frame.collect())
    plan = frame._jdf.queryExecution().executedPlan().finalPhysicalPlan()
    facts = [s for s in scans(plan) if s.relation().location().path().endswith("/fact")]
    counts = [scan.metrics().apply("numFiles").value() for scan in facts]
    shown = (scan.relation().fileFormat().toString().partition(", ")[2] for scan in facts)
    assert all(not text or text == f"{count} of 20 files" for text, count in zip(shown, counts, strict=True))
    return found, counts


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("SELECT f.id FROM fact f JOIN days d ON f.day = d.day WHERE d.decade = 2", 2),
        ("SELECT f.id FROM days d JOIN fact f ON f.n = d.n AND f.kind = d.kind WHERE d.decade = 2", 2),
        ("SELECT f.id FROM fact f JOIN days d ON f.n = d.long WHERE d.decade = 2", 2),
        ("SELECT f.id FROM fact f JOIN days d ON f.text = d.text WHERE d.decade = 2", 2),
        ("SELECT f.id FROM fact f JOIN days d ON f.price = d.price WHERE d.n IN (7, 93)", 2),
        ("SELECT id FROM fact WHERE day IN (SELECT day FROM days WHERE n > 97)", 1),
        ("SELECT id FROM fact WHERE EXISTS (SELECT 1 FROM days d WHERE d.n = fact.n AND d.n IN (3, 44))", 2),
        ("SELECT id FROM fact WHERE day = (SELECT max(day) FROM days WHERE decade = 1)", 1),
        ("SELECT id FROM fact WHERE n > (SELECT max(n) - 12 FROM days) AND n < 95", 2),
        ("SELECT x, count(*) FROM (SELECT n + 0 AS x, n AS y, id FROM fact WHERE id > 3) JOIN days ON y = days.n "
         "WHERE decade = 5 GROUP BY x", 2),
        ("SELECT f.id, a.n FROM fact f LEFT JOIN days a ON f.kind = a.n JOIN days d ON f.n = d.n "
         "WHERE d.decade = 3", 2),
        # Rows without a match stay, or are what is asked for.
        ("SELECT f.id, d.n FROM fact f LEFT JOIN (SELECT * FROM days WHERE decade = 2) d ON f.n = d.n", 20),
        ("SELECT id FROM fact WHERE NOT EXISTS (SELECT 1 FROM days d WHERE d.n = fact.n AND d.decade < 9)", 20),
        ("SELECT id, n IN (SELECT n FROM days WHERE decade = 2) FROM fact", 20),
        ("SELECT f.id FROM fact f JOIN days d ON f.n <=> d.n WHERE d.decade = 2", 20),
        ("SELECT id FROM fact WHERE n > (SELECT max(n) FROM days WHERE n > 1000)", 0),
    ],
)  # fmt: skip
def test_fewer_files_the_same_rows(spark, settings, text, files):
    found, pruned = read(spark, text)
    with settings(OFF):
        whole, all_files = read(spark, text)
    assert found == whole
    assert pruned == [files]
    assert all_files == [19 if "n < 95" in text else 20]


@pytest.mark.random
def test_random_joins_read_the_same_rows(spark, settings):
    """Each query with pruning, and without: the list of keys, their range, several joins, kinds of joins."""
    draw = random.Random(int(os.environ.get("HEADWATER_TEST_SEED", "4")))
    for _ in range(int(os.environ.get("HEADWATER_TEST_EXAMPLES", "3"))):
        column = draw.choice(["n", "day", "text", "price", "real", "kind"])
        kind = draw.choice(["JOIN", "LEFT SEMI JOIN", "LEFT JOIN", "LEFT ANTI JOIN", "RIGHT JOIN"])
        listed = ", ".join(str(draw.randrange(-5, 110)) for _ in range(draw.randrange(1, 5)))
        side = draw.choice([f"n IN ({listed})", f"n BETWEEN {draw.randrange(90)} AND {draw.randrange(100)}", "n = -1"])
        text = (
            f"SELECT f.id, f.n FROM fact f {kind} (SELECT * FROM days WHERE {side}) d ON f.{column} = d.{column} "
            f"{draw.choice(['', 'AND f.kind = d.kind', 'AND f.n < d.n + 1'])} WHERE f.id >= {draw.randrange(500)}"
        )
        with settings({"spark.headwater.scan.mostListedJoinKeys": draw.choice(["0", "2", "100"])}):
            found = sorted(tuple(row) for row in spark.sql(text).collect())
        with settings(OFF):
            assert sorted(tuple(row) for row in spark.sql(text).collect()) == found, text


CHANGES = {
    "DELETE FROM {t} WHERE day IN (SELECT day FROM days WHERE decade = 2)": range(20, 30),
    "UPDATE {t} SET real = -1 WHERE n IN (SELECT n FROM days WHERE n IN (3, 44)) AND id % 2 = 0": (3, 44),
    "UPDATE {t} AS t SET text = 'new' WHERE EXISTS (SELECT 1 FROM days d WHERE d.text = t.text AND d.n > 97)": (98, 99),
    "DELETE FROM {t} WHERE day = (SELECT max(day) FROM days WHERE decade = 1)": (19,),
    "DELETE FROM {t} WHERE n IN (SELECT n FROM days WHERE n > 1000)": (),
}


# Without vectors, the tests of MERGE, UPDATE and DELETE have files that are not read; here, what is known at run time.
@pytest.mark.parametrize("vectors", ["true", pytest.param("false", marks=pytest.mark.soak)])
def test_statements_that_change_rows_read_fewer_files(spark, settings, tmp_path, vectors):
    """The files that cannot have such a row are away while the statement runs."""
    for number, (text, needed) in enumerate(list(CHANGES.items())[:5]):
        ours, others = f"{tmp_path}/{number}", f"{tmp_path}/{number}-whole"
        with settings({"spark.sql.files.maxRecordsPerFile": "100"}):
            for path in (ours, others):
                spark.sql(f"CREATE TABLE delta.`{path}` USING delta AS SELECT * FROM fact ORDER BY id")
                spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = {vectors})")
        with settings(OFF):
            spark.sql(text.format(t=f"delta.`{others}`"))
        away = [Path(ours, add["path"]) for add in actions(ours, 0, "add") if not has_one(add, needed)]
        assert len(away) >= 17
        for file in away:
            file.rename(f"{file}.away")
        spark.sql(text.format(t=f"delta.`{ours}`"))
        for file in away:
            Path(f"{file}.away").rename(file)
        found, expected = (spark.sql(f"SELECT * FROM delta.`{path}` ORDER BY id").collect() for path in (ours, others))
        assert found == expected


def has_one(add, numbers) -> bool:
    """Whether a file may have a row with one of these values of ``n``."""
    known = json.loads(add["stats"])
    return any(known["minValues"]["n"] <= number <= known["maxValues"]["n"] for number in numbers)


@pytest.mark.random
def test_random_changes_are_the_same(spark, settings, tmp_path):
    """Each statement with pruning, and without it on a copy."""
    draw = random.Random(int(os.environ.get("HEADWATER_TEST_SEED", "5")))
    for example in range(int(os.environ.get("HEADWATER_TEST_EXAMPLES", "1"))):
        ours, others = (f"delta.`{tmp_path}/{example}-{side}`" for side in ("ours", "others"))
        with settings({"spark.sql.files.maxRecordsPerFile": "150"}):
            vectors = draw.choice(["true", "false"])
            for table in (ours, others):
                spark.sql(
                    f"CREATE TABLE {table} USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = {vectors}, "
                    "'delta.enableChangeDataFeed' = 'true') AS SELECT * FROM fact ORDER BY id"
                )
        for _ in range(4):
            condition = random_condition(draw)
            text = draw.choice(
                [
                    "DELETE FROM {t} AS t WHERE " + condition,
                    "UPDATE {t} AS t SET n = n + 1, text = 'x' WHERE " + condition,
                ]
            )
            with settings({"spark.headwater.scan.mostListedJoinKeys": draw.choice(["0", "2", "100"])}):
                spark.sql(text.format(t=ours))
            with settings(OFF):
                spark.sql(text.format(t=others))
            assert sorted_rows(spark, ours) == sorted_rows(spark, others), text
        feeds = (f"table_changes_by_path('{table[7:-1]}', 0)" for table in (ours, others))
        assert len({repr(sorted_rows(spark, feed, "_commit_timestamp")) for feed in feeds}) == 1


def random_condition(draw) -> str:
    column = draw.choice(["n", "day", "text", "price", "real", "kind"])
    listed = ", ".join(str(draw.randrange(-5, 110)) for _ in range(draw.randrange(1, 5)))
    side = draw.choice(
        [f"d.n IN ({listed})", f"d.n BETWEEN {draw.randrange(90)} AND {draw.randrange(100)}", "d.n = -1"]
    )
    subquery = draw.choice(
        [
            f"t.{column} IN (SELECT d.{column} FROM days d WHERE {side})",
            f"t.{column} IN (SELECT if(d.n % 2 = 0, null, d.{column}) FROM days d WHERE {side})",
            f"t.{column} NOT IN (SELECT d.{column} FROM days d WHERE {side})",
            f"EXISTS (SELECT 1 FROM days d WHERE d.{column} = t.{column} AND d.kind = t.kind AND {side})",
            f"NOT EXISTS (SELECT 1 FROM days d WHERE d.{column} = t.{column} AND {side})",
            f"t.{column} >= (SELECT max(d.{column}) FROM days d WHERE {side})",
            f"t.{column} = (SELECT min(d.{column}) FROM days d WHERE {side} AND d.kind = t.kind)",
        ]
    )
    other = f"t.id % {draw.randrange(2, 5)} = 0"
    return draw.choice([subquery, subquery, f"{subquery} AND {other}", f"{subquery} OR {other}", f"NOT ({subquery})"])


def sorted_rows(spark, source, *without):
    return sorted(map(repr, spark.sql(f"SELECT * FROM {source}").drop(*without).collect()))
