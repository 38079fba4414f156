"""EXPLAIN of a DELETE, UPDATE or MERGE: what it would do, in words, SQL and a plan, and nothing done."""

from __future__ import annotations

import pytest

from support.dml_table import Table

pytestmark = pytest.mark.covering("file")

COLUMNS = "id BIGINT, v INT, p STRING"
ROWS = "SELECT id, 0, IF(id < 4, 'a', 'b') FROM range(0, 6, 1, 3)"
MERGING = "MERGE INTO {t} t USING (SELECT 5L AS id, 1 AS v, 'b' AS p) s ON t.id = s.id"


@pytest.fixture
def explain(spark):
    """``explain(table, sql)``: the text, after which nothing has run and nothing is changed."""

    def run(table: Table, sql: str, mode: str = "") -> str:
        before = table.state
        (((text,),), jobs) = table.jobs(f"EXPLAIN {mode} {sql}")
        assert jobs == 0
        assert table.comes_to(before)
        return text

    return run


def test_metadata_only(spark, tmp_path, explain):
    table = Table(spark, tmp_path / "t", COLUMNS, ROWS, partitioned="p")
    table.break_files(table.files())
    for statement, files in (
        ("DELETE FROM {t}", 3),
        ("DELETE FROM {t} WHERE p = 'b'", 1),
        ("DELETE FROM {t} WHERE id < 2", 1),
    ):
        text = explain(table, statement)
        assert f"Files: {files} (" in text
        assert "of 3 files (" in text
        assert "Strategy: metadata only: every row of " in text
        assert "== Rewrite ==" not in text


@pytest.mark.parametrize("vectors", [False, True])
def test_rewrites(spark, tmp_path, explain, vectors):
    table = Table(spark, tmp_path / "t", COLUMNS, ROWS, vectors=vectors)
    strategy = "Strategy: deletion vectors: " if vectors else "Strategy: copy-on-write: "
    one_file = "inner join" if vectors else "left outer join"  # which has the unchanged rows, too
    for statement, kind, files, words in (
        ("DELETE FROM {t} WHERE v = 0 AND id > 2", "DELETE", 2, ["> "]),
        ("UPDATE {t} SET v = v + 41 WHERE id = 3", "UPDATE", 1, ["41"]),
        ("UPDATE {t} SET v = v + 41 WHERE v = 0", "UPDATE", 3, ["41"]),
        (f"{MERGING} AND t.id > 3 WHEN MATCHED THEN UPDATE SET v = s.v", "MERGE", 1, [one_file, "JOIN"]),
        (f"{MERGING} WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *", "MERGE", 3, ["right outer join"]),
        (f"{MERGING} WHEN MATCHED THEN DELETE", "MERGE", 3, ["semi join"]),
    ):
        text = explain(table, statement)
        assert text.startswith(f"== {kind} {table.name}, version 1 ==")
        assert f"Files: {files} (" in text
        assert strategy in text
        assert "== Rewrite ==\nSELECT" in text
        assert ("== Search" in text) == (statement.startswith("UPDATE") and files > 1 and not vectors)
        assert "== Physical Plan ==" in text
        assert "hw_" not in text
        for word in words:
            assert word in text, word


@pytest.mark.parametrize(
    ("on", "clauses", "files", "note"),
    [
        ("t.p = 'b'", "t.id = 0", 2, "may select rows of 1 of these files."),
        ("t.p = 'b' AND t.id > 5", "t.id = 0", 1, "may select rows of 1 of these files."),
        ("t.p = 'c'", "t.v > 0", 0, "may select rows of 0 of these files."),
        (
            "t.p = 'c'",
            "t.id % 2 = 0",
            3,
            "may select rows of every file.",
        ),
    ],
)
def test_what_not_matched_by_source_may_select(spark, tmp_path, explain, on, clauses, files, note):
    table = Table(spark, tmp_path / "t", COLUMNS, ROWS, partitioned="p")
    text = explain(
        table,
        f"{MERGING} AND {on} WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY SOURCE AND {clauses} THEN UPDATE SET v = 1",
    )
    assert f"Files: {files} (" in text
    assert f"WHEN NOT MATCHED BY SOURCE {note}" in text
    without = explain(table, f"{MERGING} AND {on} WHEN MATCHED THEN DELETE")
    assert "WHEN NOT MATCHED BY SOURCE" not in without


def test_several_strategies(spark, tmp_path, explain):
    table = Table(spark, tmp_path / "t", COLUMNS, ROWS, vectors=True)
    text = explain(table, "DELETE FROM {t} WHERE id >= 3")
    assert "Files: 2 (" in text
    assert "metadata only: every row of 1 file matches" in text
    assert "deletion vectors: delta.enableDeletionVectors is true; rows of 1 file are examined" in text


def test_insert_only_and_nothing(spark, tmp_path, explain):
    table = Table(spark, tmp_path / "t", COLUMNS, ROWS)
    text = explain(table, f"{MERGING} WHEN NOT MATCHED THEN INSERT *")
    assert "Strategy: insert-only: " in text
    assert "LEFT ANTI JOIN" in text
    for statement in ("DELETE FROM {t} WHERE id > 100", "UPDATE {t} SET v = 1 WHERE id > 100"):
        text = explain(table, statement)
        assert "Files: 0 (0 B) of 3 files" in text
        assert "Strategy: nothing to do: " in text


MANY = "SELECT id + 4 AS id, 1 AS v, 'b' AS p FROM range(2000)"


def write_source(spark, tmp_path, rows: str) -> None:
    """Files as a view: that spares the job that finds out their schema."""
    spark.sql(f"INSERT OVERWRITE DIRECTORY '{tmp_path}/s' USING parquet {rows}")
    spark.read.parquet(f"{tmp_path}/s").createOrReplaceTempView("source_of_explained")


def section(text: str, title: str) -> str:
    """A query and its plan."""
    return text.partition(f"== {title}")[2].partition("\n== Insert job")[0]


UPSERT = "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"


@pytest.mark.parametrize("vectors", [False, True])
def test_a_merge_into_a_large_table_shows_the_jobs_that_run(spark, tmp_path, explain, settings, vectors):
    """A table is large, here, that has more than no bytes."""
    table = Table(spark, tmp_path / "t", COLUMNS, ROWS, vectors=vectors)
    with settings({"spark.headwater.merge.smallTargetBytes": "0"}):
        source = "(SELECT id + 4 AS id, 1 AS v, 'b' AS p FROM range(3)) s ON t.id = s.id"
        text = explain(table, f"MERGE INTO {{t}} t USING {source} {UPSERT}")
        assert "Jobs: broadcast join, then insert: the source is small enough to be cached and broadcast" in text
        assert "When it runs, the source's values of id narrow the files further." in text
        joining, inserting = section(text, "Rewrite ==\n"), text.partition("\n== Insert job")[2]
        assert "/*+ BROADCAST(source) */" in joining
        assert "INNER JOIN" in joining
        assert "BroadcastHashJoin" in joining
        assert "RIGHT OUTER" not in text
        assert "WHERE NOT is_matched(`source_row`)" in inserting
        assert "Join" not in inserting.partition("== Physical Plan")[2]
        for word in ("hw_", "org.apache", "headwater.spark", "@"):
            assert word not in inserting, word
        assert "narrow the files" not in explain(table, f"{MERGING} {UPSERT} WHEN NOT MATCHED BY SOURCE THEN DELETE")
        # Its rows are files, but too few of them for a footer to have all keys: these take a job.
        write_source(spark, tmp_path, "SELECT id * 4 + 1 AS id, 1 AS v, 'b' AS p FROM range(2)")
        files = f"MERGE INTO {{t}} t USING source_of_explained s ON t.id = s.id {UPSERT}"
        text = explain(table, files)
        assert "Files: 3 (" in text
        assert "Jobs: broadcast join, then insert: " in text
        assert "source's values of id narrow the files further" in text
        # Footers have the bounds of many rows: so the files that are read are known without a job.
        write_source(spark, tmp_path, MANY)
        assert "Files: 1 (" in explain(table, files)
        assert "narrow the files" not in explain(table, files)


def test_a_merge_that_leaves_few_files_shows_both_ways(spark, tmp_path, explain, settings):
    table = Table(spark, tmp_path / "t", COLUMNS, ROWS)
    sizes = sorted((table.path / file).stat().st_size for file in table.files())
    write_source(spark, tmp_path, MANY)
    files = f"MERGE INTO {{t}} t USING source_of_explained s ON t.id = s.id {UPSERT}"
    with settings({"spark.headwater.merge.smallTargetBytes": str(sizes[-1])}):
        text = explain(table, files)
        assert "Files: 1 (" in text
        assert "Jobs: broadcast join, unchanged rows included, then anti join: " in text
        assert "/*+ BROADCAST(source) */" in text
        assert "LEFT ANTI JOIN" in text.partition("\n== Insert job")[2]
        few = explain(table, files.replace("source_of_explained", "(SELECT * FROM source_of_explained WHERE v = 1)"))
        assert "Files: 3 (" in few
        assert "if they leave at most" in few
        assert "the jobs are: broadcast join, unchanged rows included, then anti join" in few


@pytest.mark.parametrize("mode", ["EXTENDED", "FORMATTED", "CODEGEN", "COST"])
def test_modes(spark, tmp_path, explain, mode):
    table = Table(spark, tmp_path / "t", COLUMNS, ROWS)
    text = explain(table, "UPDATE {t} SET v = 1 WHERE id = 3", mode)
    assert "Strategy: copy-on-write: " in text
    marks = {"EXTENDED": "== Optimized Logical Plan ==", "COST": "Statistics(sizeInBytes", "CODEGEN": "Generated code"}
    assert marks.get(mode, "== Physical Plan ==") in text


def test_bad_input_is_refused_here_too(spark, tmp_path, fails):
    table = Table(spark, tmp_path / "t", COLUMNS, ROWS, properties=["'delta.appendOnly' = 'true'"])
    with fails("DELTA_CANNOT_MODIFY_APPEND_ONLY"):
        table.run("EXPLAIN DELETE FROM {t} WHERE id = 1")
    with fails("UNRESOLVED_COLUMN.WITH_SUGGESTION", state="42703"):
        table.run("EXPLAIN UPDATE {t} SET nothing = 1").__str__()
