"""EXPLAIN of a DELETE, UPDATE or MERGE: what it would do, in words, SQL and a plan, and nothing done."""

from __future__ import annotations

import pytest

from support.dml_table import Table

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
    one_file = "inner join" if vectors else "left outer join"  # which brings the rows that stay, too
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


def test_several_strategies(spark, tmp_path, explain):
    table = Table(spark, tmp_path / "t", COLUMNS, ROWS, vectors=True)
    text = explain(table, "DELETE FROM {t} WHERE id >= 3")
    assert "Files: 2 (" in text
    assert "metadata only: every row of 1 file matches" in text
    assert "deletion vectors: delta.enableDeletionVectors is true; rows of 1 file are looked at" in text


def test_insert_only_and_nothing(spark, tmp_path, explain):
    table = Table(spark, tmp_path / "t", COLUMNS, ROWS)
    text = explain(table, f"{MERGING} WHEN NOT MATCHED THEN INSERT *")
    assert "Strategy: insert-only: " in text
    assert "LEFT ANTI JOIN" in text
    for statement in ("DELETE FROM {t} WHERE id > 100", "UPDATE {t} SET v = 1 WHERE id > 100"):
        text = explain(table, statement)
        assert "Files: 0 (0 B) of 3 files" in text
        assert "Strategy: nothing to do: " in text


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
