"""Overwrites of tables with a change data feed: each row that goes and each that comes is told once."""

from __future__ import annotations

import pytest

from support.dml_table import Table

COLUMNS = "id BIGINT, v INT, p STRING"
ROWS = "SELECT id, 0, IF(id < 4, 'a', 'b') FROM range(0, 6, 1, 3)"
WHOLE = {(i, 0) for i in range(6)}


@pytest.fixture
def told(spark):
    """``told(table)``: the newest version's changes as ``{kind: {(id, v)}}``, no row twice."""

    def read(table):
        version = table.version
        found = spark.sql(
            f"SELECT id, v, _change_type FROM table_changes_by_path('{table.path}', {version}, {version})"
        )
        rows = [tuple(row) for row in found.collect()]
        assert len(set(rows)) == len(rows)
        kinds = {row[2] for row in rows}
        return {kind: {row[:2] for row in rows if row[2] == kind} for kind in kinds}

    return read


@pytest.mark.covering
@pytest.mark.parametrize("properties", [[], ["'delta.columnMapping.mode' = 'name'"]], ids=["plain", "mapped"])
@pytest.mark.parametrize("partitioned", ["", "p"])
def test_replace_where_over_data(spark, tmp_path, told, partitioned, properties):
    """A file with both kinds of rows, one whose rows all go, one that stays."""
    table = Table(spark, tmp_path / "t", COLUMNS, ROWS, changes=True, partitioned=partitioned, properties=properties)
    staying = table.files_of("id < 2")
    table.run("INSERT INTO {t} REPLACE WHERE id > 2 VALUES (7, 7, 'a'), (8, 8, NULL)")
    assert table.rows("id, v") == [(0, 0), (1, 0), (2, 0), (7, 7), (8, 8)]
    assert staying < table.files()
    assert told(table) == {"delete": {(3, 0), (4, 0), (5, 0)}, "insert": {(7, 7), (8, 8)}}
    assert table.metrics("numOutputRows") == {"numOutputRows": 3}
    # Data files have no column for changes, change files the table's rows in their own folder.
    assert spark.table(table.name).columns == ["id", "v", "p"]
    changed = [action["cdc"] for action in table.actions() if "cdc" in action]
    assert changed
    assert all(change["path"].startswith("_change_data/") and not change["dataChange"] for change in changed)
    rows = spark.table(table.name).count()
    table.run("INSERT INTO {t} REPLACE WHERE v IS NULL OR id = 2 SELECT id, v, p FROM {t} WHERE false")
    assert spark.table(table.name).count() == rows - 1
    assert told(table) == {"delete": {(2, 0)}}
    before = table.files_on_disk()
    table.run("INSERT INTO {t} REPLACE WHERE id % 10 = 9 SELECT id, v, p FROM {t} WHERE false")
    assert told(table) == {}
    assert table.files_on_disk() == before


def test_nothing_but_whole_files_needs_no_change_files(spark, tmp_path, told):
    table = Table(spark, tmp_path / "t", COLUMNS, ROWS, changes=True, partitioned="p")
    table.run("INSERT INTO {t} REPLACE WHERE p = 'b' VALUES (9, 9, 'b')")
    assert told(table) == {"delete": {(4, 0), (5, 0)}, "insert": {(9, 9)}}
    assert not any("cdc" in action for action in table.actions())
    table.run("INSERT OVERWRITE {t} VALUES (10, 10, 'c')")
    assert told(table) == {"delete": {(0, 0), (1, 0), (2, 0), (3, 0), (9, 9)}, "insert": {(10, 10)}}
    assert not any("cdc" in action for action in table.actions())


def test_deleted_rows_are_not_told_again(spark, tmp_path, told):
    table = Table(spark, tmp_path / "t", COLUMNS, ROWS, changes=True, vectors=True)
    table.run("DELETE FROM {t} WHERE id = 3")
    table.run("INSERT INTO {t} REPLACE WHERE id IN (2, 3, 4) VALUES (3, 33, 'a')")
    assert told(table) == {"delete": {(2, 0), (4, 0)}, "insert": {(3, 33)}}
    assert table.rows("id, v") == [(0, 0), (1, 0), (3, 33), (5, 0)]


def test_new_columns_and_computed_ones(spark, tmp_path, told):
    table = Table(
        spark,
        tmp_path / "t",
        "k BIGINT GENERATED ALWAYS AS IDENTITY, id BIGINT, v INT, w INT GENERATED ALWAYS AS (v + 1)",
        "(id, v) SELECT id, 0 FROM range(0, 6, 1, 1)",
        changes=True,
    )
    fresh = spark.createDataFrame([(4, 44, "n"), (5, 55, "m")], "id BIGINT, v INT, fresh STRING")
    (
        fresh.write.format("delta")
        .mode("overwrite")
        .option("replaceWhere", "id >= 4")
        .option("mergeSchema", True)
        .save(str(table.path))
    )
    assert told(table) == {"delete": {(4, 0), (5, 0)}, "insert": {(4, 44), (5, 55)}}
    assert table.rows() == [
        (1, 0, 0, 1, None),
        (2, 1, 0, 1, None),
        (3, 2, 0, 1, None),
        (4, 3, 0, 1, None),
        (7, 4, 44, 45, "n"),
        (8, 5, 55, 56, "m"),
    ]


def test_wider_types_in_files_that_are_rewritten(spark, tmp_path):
    """Kept rows are written as the table had them; a wider type is for the rows that come."""
    for changes in (False, True):
        table = Table(
            spark,
            tmp_path / str(changes),
            "id BIGINT, s STRUCT<v: INT>",
            "SELECT id, named_struct('v', 1) FROM range(0, 4, 1, 1)",
            changes=changes,
            properties=["'delta.enableTypeWidening' = 'true'"],
        )
        fresh = spark.sql("SELECT 3L AS id, named_struct('v', 5000000000, 'w', 'new') AS s")
        (
            fresh.write.format("delta")
            .mode("overwrite")
            .option("replaceWhere", "id >= 3")
            .option("mergeSchema", True)
            .save(str(table.path))
        )
        assert table.run("SELECT id, s.v, s.w FROM {t} ORDER BY id") == [
            (0, 1, None),
            (1, 1, None),
            (2, 1, None),
            (3, 5000000000, "new"),
        ]


def test_a_row_that_does_not_match_changes_nothing(spark, tmp_path, fails):
    table = Table(spark, tmp_path / "t", COLUMNS, ROWS, changes=True)
    before = table.state
    with fails("DELTA_REPLACE_WHERE_MISMATCH", " - id : 1"):
        table.run("INSERT INTO {t} REPLACE WHERE id > 2 VALUES (1, 7, 'a')")
    assert table.comes_to(before)
