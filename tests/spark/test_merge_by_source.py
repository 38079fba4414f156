"""MERGE … WHEN NOT MATCHED BY SOURCE reads, rewrites and records only the files that it may change."""

from __future__ import annotations

import pytest

from support.dml_table import Table
from support.gates import Gate, register

pytestmark = pytest.mark.covering("file")

both = pytest.mark.parametrize("vectors", [False, True], ids=["copy", "vectors"])
SMALL_TARGET = "spark.headwater.merge.smallTargetBytes"
#: Five days of one file each, ids 0 to 9, two per day.
DAYS = "SELECT id, CAST(0 AS INT) AS v, CAST(id DIV 2 AS INT) AS day FROM range(0, 10, 1, 5)"
UPSERT = "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"


@pytest.fixture(params=["small", "large"])
def days(request, spark, tmp_path, settings):
    """A table partitioned by day; one that is large is pruned by the source's keys as well."""

    def make(**given) -> Table:
        return Table(spark, tmp_path / "t", "id BIGINT, v INT, day INT", DAYS, partitioned="day", **given)

    with settings({SMALL_TARGET: "8000000" if request.param == "small" else "0"}):
        yield make


def merge(table, rows, on, clauses):
    values = ", ".join(rows)
    return table.run(f"MERGE INTO {{t}} t USING (SELECT * FROM VALUES {values} AS s(id, v, day)) s ON {on} {clauses}")


def breaking(table, condition):
    """Make the files of a condition unreadable; returns what restores them."""
    files = table.files_of(condition)
    kept = {file: (table.path / file).read_bytes() for file in files}
    table.break_files(files)

    def restore():
        for file, content in kept.items():
            (table.path / file).write_bytes(content)

    return files, restore


@both
@pytest.mark.parametrize("changes", [False, True])
def test_only_files_of_the_condition_and_of_the_clauses_are_read(days, vectors, changes):
    table = days(vectors=vectors, changes=changes)
    outside, restore = breaking(table, "day NOT IN (1, 3)")
    clauses = f"{UPSERT} WHEN NOT MATCHED BY SOURCE AND t.day = 3 AND t.id < 7 THEN DELETE"
    # The row of day 1 without a match stays. Day 2 has a row with an id of the source; the ON condition rules it out.
    rows = ["(2L, 20, 1)", "(100L, 100, 1)", "(4L, 40, 1)"]
    assert merge(table, rows, "t.day = 1 AND t.id = s.id", clauses) == [(4, 1, 1, 2)]
    assert outside < table.files()
    restore()
    expected = [(i, 0, i // 2) for i in range(10) if i not in (2, 6)]
    assert table.rows() == sorted([*expected, (2, 20, 1), (100, 100, 1), (4, 40, 1)], key=repr)
    touched = {a["remove"]["partitionValues"]["day"] for a in table.actions() if "remove" in a}
    assert touched == {"1", "3"}


@both
@pytest.mark.parametrize(
    ("on", "clauses", "read", "counts"),
    [
        ("t.id = s.id", "NOT MATCHED BY SOURCE AND t.day = 3 THEN DELETE", [3], (2, 0, 2, 0)),
        ("t.day = 1 AND t.id = s.id", "MATCHED THEN DELETE", [1], (1, 0, 1, 0)),
        ("t.day = 9", "NOT MATCHED BY SOURCE AND t.id < 0 THEN DELETE", [], (0, 0, 0, 0)),
        ("t.day = 9", "NOT MATCHED BY SOURCE AND CAST(NULL AS BOOLEAN) THEN DELETE", [], (0, 0, 0, 0)),
        ("t.day = 9", "NOT MATCHED BY SOURCE AND t.day <> NULL THEN UPDATE SET v = 1", [], (0, 0, 0, 0)),
        ("t.day = 1 OR s.v = 0", "NOT MATCHED BY SOURCE AND t.day = 3 THEN UPDATE SET v = 1", [3], (2, 2, 0, 0)),
        (
            "t.id = s.id AND t.day < 1",
            "MATCHED THEN DELETE WHEN NOT MATCHED BY SOURCE AND t.day = 3 THEN DELETE "
            "WHEN NOT MATCHED BY SOURCE AND t.day = 4 AND t.v < 7 THEN UPDATE SET v = 7",
            [0, 3, 4],
            (4, 2, 2, 0),
        ),
        (
            "t.id = s.id AND t.day < 1",
            "NOT MATCHED BY SOURCE AND (t.day = 3 OR t.id = 0) THEN DELETE",
            [0, 3],
            (3, 0, 3, 0),
        ),
        # A part that pruning knows nothing of leaves the others their meaning.
        ("t.day = 9", "NOT MATCHED BY SOURCE AND t.day = 3 AND t.id % 2 = 0 THEN DELETE", [3], (1, 0, 1, 0)),
        ("t.day = 9", "NOT MATCHED BY SOURCE AND t.day = 3 AND plus_one(t.v) = 1 THEN DELETE", [3], (2, 0, 2, 0)),
    ],
)
def test_what_is_read(days, spark, vectors, on, clauses, read, counts):
    spark.udf.register("plus_one", lambda v: v + 1, "int")
    table = days(vectors=vectors)
    _, restore = breaking(table, f"day NOT IN ({', '.join(map(str, [*read, -1]))})")
    assert merge(table, ["(2L, 20, 1)"], on, f"WHEN {clauses}") == [counts]
    restore()
    assert len(table.rows()) == 10 - counts[2]
    assert table.run("SELECT count(*) FROM {t} WHERE v > 0") == [(counts[1],)]


@pytest.mark.parametrize(
    ("clauses", "counts"),
    [
        ("NOT MATCHED BY SOURCE THEN DELETE", (10, 0, 10, 0)),
        (
            "NOT MATCHED BY SOURCE AND t.day = 3 THEN DELETE WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 1",
            (10, 8, 2, 0),
        ),
        ("NOT MATCHED BY SOURCE AND t.day IN (SELECT 3) THEN DELETE", (2, 0, 2, 0)),
        ("NOT MATCHED BY SOURCE AND plus_one(t.day) = 4 THEN DELETE", (2, 0, 2, 0)),
        ("NOT MATCHED BY SOURCE AND (t.day = 3 OR t.id % 5 = 0) THEN DELETE", (4, 0, 4, 0)),
    ],
)
def test_what_limits_nothing(days, spark, clauses, counts):
    """A clause without a condition, or with one that pruning cannot evaluate, may select rows of any file."""
    spark.udf.register("plus_one", lambda v: v + 1, "int")
    table = days(vectors=True)
    assert merge(table, ["(2L, 20, 1)"], "t.day = 9 AND t.id = s.id", f"WHEN {clauses}") == [counts]
    assert len(table.rows()) == 10 - counts[2]
    assert table.run("SELECT count(*) FROM {t} WHERE v > 0") == [(counts[1],)]


def test_a_random_part_of_a_condition_limits_nothing(days):
    table = days()
    _, restore = breaking(table, "day <> 3")
    certain = "WHEN NOT MATCHED BY SOURCE AND t.day = 3 AND rand() < 2 THEN DELETE"
    assert merge(table, ["(2L, 20, 1)"], "t.day = 9", certain) == [(2, 0, 2, 0)]
    restore()
    either = "WHEN NOT MATCHED BY SOURCE AND (t.day = 4 OR rand() < 2) THEN DELETE"
    assert merge(table, ["(2L, 20, 1)"], "t.day = 9", either) == [(8, 0, 8, 0)]


@both
@pytest.mark.parametrize("days", ["large"], indirect=True)
def test_the_sources_keys_leave_out_files_of_the_condition_alone(days, vectors):
    """A match in a file that the clause selects is found, and rows that no key is near are deleted."""
    table = days(vectors=vectors)
    _, restore = breaking(table, "day IN (0, 2, 4)")
    by_source = "WHEN NOT MATCHED BY SOURCE AND t.id >= 6 AND t.id < 8 THEN DELETE"
    assert merge(table, ["(2L, 20, 1)", "(7L, 70, 3)"], "t.id = s.id", f"{UPSERT} {by_source}") == [(3, 2, 1, 0)]
    expected = {i: 0 for i in range(10) if i != 6} | {2: 20, 7: 70}
    by_source = "WHEN NOT MATCHED BY SOURCE AND t.day = 3 THEN UPDATE SET v = 1"
    assert merge(table, ["(3L, 30, 1)"], "t.id = s.id", f"{UPSERT} {by_source}") == [(2, 2, 0, 0)]
    restore()
    assert dict(table.rows("id, v")) == expected | {3: 30, 7: 1}


def evolving(table, rows, on, clauses):
    source = f"(SELECT id, CAST(v AS BIGINT) AS v, day, 'new' AS w FROM VALUES {', '.join(rows)} AS s(id, v, day)) s"
    return table.run(f"MERGE WITH SCHEMA EVOLUTION INTO {{t}} t USING {source} ON {on} {clauses}")


@both
def test_columns_and_types_that_the_statement_brings(days, vectors):
    """Statistics and partition values are of the columns before, so they may exclude less."""
    table = days(vectors=vectors, properties=["'delta.enableTypeWidening' = 'true'"])
    table.run("UPDATE {t} SET v = 2147483647 WHERE id = 9")
    clauses = (
        f"{UPSERT} WHEN NOT MATCHED BY SOURCE AND t.day = 3 AND t.w IS NULL THEN DELETE "
        "WHEN NOT MATCHED BY SOURCE AND t.v > 2147483646L THEN UPDATE SET v = t.v + 1L, w = 'wider'"
    )
    rows = ["(2L, 20, 1)"]
    assert evolving(table, rows, "t.day = 1 AND t.id = s.id", clauses) == [(4, 2, 2, 0)]
    # Files of both types.
    _, restore = breaking(table, "day IN (0, 2)")
    later = "WHEN NOT MATCHED BY SOURCE AND t.v = 2147483648 THEN DELETE"
    assert evolving(table, rows, "t.day = 1 AND t.id = s.id", f"{UPSERT} {later}") == [(2, 1, 1, 0)]
    restore()
    expected = [(i, 20 if i == 2 else 0, i // 2, None) for i in range(9) if i not in (6, 7)]
    assert table.rows("id, v, day, w") == sorted(expected, key=repr)


@both
def test_generated_columns_and_row_tracking(spark, tmp_path, vectors):
    columns = "id BIGINT, at TIMESTAMP, day DATE GENERATED ALWAYS AS (CAST(at AS DATE))"
    rows = "(id, at) SELECT id, timestamp_seconds(id * 43200) FROM range(0, 10, 1, 5)"
    table = Table(
        spark, tmp_path / "t", columns, rows, partitioned="day", vectors=vectors,
        properties=["'delta.enableRowTracking' = 'true'"],
    )  # fmt: skip
    ids = dict(table.run("SELECT id, _metadata.row_id FROM {t}"))
    _, restore = breaking(table, "day NOT IN (DATE'1970-01-02', DATE'1970-01-04')")
    merging = (
        "MERGE INTO {t} t USING (SELECT 2L AS id) s ON t.id = s.id AND t.day = DATE'1970-01-02' "
        "WHEN MATCHED THEN UPDATE SET at = t.at + INTERVAL '1' DAY WHEN NOT MATCHED BY SOURCE "
        "AND t.at >= TIMESTAMP'1970-01-04 12:00:00' AND t.at < TIMESTAMP'1970-01-04 23:00:00' THEN DELETE"
    )
    assert table.run(merging) == [(2, 1, 1, 0)]
    restore()
    del ids[7]
    assert dict(table.run("SELECT id, _metadata.row_id FROM {t}")) == ids
    assert table.run("SELECT day FROM {t} WHERE id = 2")[0][0].isoformat() == "1970-01-03"


# -- Conflicts ---------------------------------------------------------------------------------------------------------

BY_DAY = "t.day = 1 AND t.id = s.id"
BY_KEY = "t.id = s.id"
CLAUSES = f"{UPSERT} WHEN NOT MATCHED BY SOURCE AND t.day = 3 THEN DELETE"
ONE_ROW = f"{UPSERT} WHEN NOT MATCHED BY SOURCE AND t.day = 3 AND t.id = 6 THEN DELETE"
DAY_2, DAY_3 = "SELECT 50L, 5, 2", "SELECT 50L, 5, 3"
#: Of each race: the condition ON, the clauses, what the winner does, whether the MERGE runs again.
RACES: list[tuple[str, str, str, bool | str]] = [
    (BY_DAY, CLAUSES, "DELETE FROM {t} WHERE day = 2", False),
    (BY_DAY, CLAUSES, "UPDATE {t} SET v = 5 WHERE id = 4", False),
    (BY_DAY, CLAUSES, f"INSERT INTO {{t}} {DAY_2}", False),
    # It reads the table, so it is no blind append.
    (BY_DAY, CLAUSES, "INSERT INTO {t} SELECT id + 50, v, day FROM {t} WHERE day = 2", False),
    (BY_DAY, CLAUSES, "INSERT INTO {t} SELECT id + 50, v, day FROM {t} WHERE day = 3", True),
    (BY_DAY, CLAUSES, "UPDATE {t} SET day = 3 WHERE id = 4", True),
    (BY_DAY, CLAUSES, "DELETE FROM {t} WHERE day = 3", True),
    (BY_DAY, CLAUSES, "DELETE FROM {t} WHERE day = 1", True),
    (BY_KEY, CLAUSES, "DELETE FROM {t} WHERE day = 2", False),
    (BY_KEY, CLAUSES, "UPDATE {t} SET v = 5 WHERE id = 4", False),
    (BY_KEY, CLAUSES, "UPDATE {t} SET day = 3 WHERE id = 4", True),
    (BY_KEY, CLAUSES, "UPDATE {t} SET id = 2 WHERE id = 4", True),
    (BY_KEY, CLAUSES, "DELETE FROM {t} WHERE id = 6", True),
    (BY_KEY, ONE_ROW, "UPDATE {t} SET v = 5 WHERE id = 7", "unless vectors"),
    (BY_KEY, ONE_ROW, "UPDATE {t} SET v = 5 WHERE id = 6", True),
    (BY_DAY, "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED BY SOURCE AND t.id = 6 THEN DELETE",
     "UPDATE {t} SET v = 5 WHERE id = 7", "unless vectors"),
    (BY_KEY, "WHEN NOT MATCHED BY SOURCE AND t.day = 3 THEN DELETE", "DELETE FROM {t} WHERE day = 1", False),
    (BY_KEY, f"{UPSERT} WHEN NOT MATCHED BY SOURCE AND t.v = 7 THEN DELETE",
     "UPDATE {t} SET v = 7 WHERE day = 2", True),
    (BY_DAY, CLAUSES, f"INSERT INTO {{t}} {DAY_3}", "if serializable"),
]  # fmt: skip


@pytest.fixture(scope="module")
def gate(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gate")
    register(spark, folder)
    return Gate(spark.sql, folder)


@both
@pytest.mark.parametrize("level", ["WriteSerializable", "Serializable"])
@pytest.mark.parametrize(
    "race", [i if i in (0, 3, 4, 8, 10, 13) else pytest.param(i, marks=pytest.mark.soak) for i in range(len(RACES))]
)
def test_only_what_it_may_change_is_a_conflict(days, gate, vectors, level, race):
    """The MERGE has the same result as after the winner, unless it may leave rows of an append as they are."""
    on, clauses, winner, again = RACES[race]
    table = days(vectors=vectors, properties=[f"'delta.isolationLevel' = '{level}'"])
    before = table.version
    source = "(SELECT CAST(gate(id) AS BIGINT) AS id, 20 AS v, 1 AS day FROM VALUES (2) AS v(id))"
    merging = f"MERGE INTO {{t}} t USING {source} s ON {on} {clauses}"
    gate.lose(merging.replace("{t}", table.name), lambda: table.run(winner))
    read = table.info()["readVersion"]
    expected = {"unless vectors": not vectors, "if serializable": level == "Serializable"}
    assert (read > before) == (again if isinstance(again, bool) else expected[again]), RACES[race]
    if again == "if serializable" and read == before:
        return
    found = table.rows()
    table.run(f"RESTORE TABLE {{t}} TO VERSION AS OF {before}")
    table.run(winner)
    table.run(merging.replace("CAST(gate(id) AS BIGINT)", "2L"))
    assert found == table.rows()
