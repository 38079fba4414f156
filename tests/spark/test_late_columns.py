"""Columns that a rewrite reads late: their values only where the condition is true, whatever way a file has them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.dml_table import Table
from support.other_writers import COLUMNS, WRITERS, adopt, arrow

LATE = "spark.headwater.dml.lateFileBytes"
#: A text of 256 characters that does not compress, made of a row's `id`.
LONG = "concat(sha2(string(id), 512), sha2(string(-id), 512))"
#: Of each page version and of each way to write numbers one; the long run has all.
IN_BRIEF = {"dictionaries", "plain, pages of version 2", "decimals as whole numbers"}


def long_text(i: int) -> str:
    return "".join(hashlib.sha512(str(number).encode()).hexdigest() for number in (i, -i))


@pytest.fixture(autouse=True)
def late(settings):
    """However small the files."""
    with settings({LATE: "0"}):
        yield


@pytest.fixture
def table(spark, tmp_path):
    """An empty table of all columns."""

    def make(**given) -> Table:
        columns = ", ".join(f"{name} {sql}" for name, (sql, _, _) in COLUMNS.items())
        return Table(spark, tmp_path / "t", columns, **{"vectors": True, **given})

    return make


def updated(table: Table, condition: str, chosen) -> None:
    """Updates the rows of a condition, and sees that these and only these have changed, in one column."""
    before = table.rows()
    at = table.spark.table(table.name).columns.index("v")
    expected = [(*row[:at], 1, *row[at + 1 :]) if chosen(row) else row for row in before]
    assert table.run(f"UPDATE {{t}} SET v = 1 WHERE {condition}") == [(sum(map(chosen, before)),)]
    assert table.rows() == sorted(expected, key=repr)


@pytest.mark.parametrize(
    "writer", [name if name in IN_BRIEF else pytest.param(name, marks=pytest.mark.soak) for name in WRITERS]
)
def test_late_values_are_those_of_their_rows_whoever_wrote_the_file(table, writer):
    table = table()
    adopt(table, arrow(), **WRITERS[writer])
    adopt(table, arrow(nulls=False), **WRITERS[writer])
    updated(table, "id % 70 = 3", lambda row: row[0] % 70 == 3)
    updated(table, "id % 9 = 4", lambda row: row[0] % 9 == 4)


def test_required_columns(table):
    table = table()
    rows = arrow(nulls=False)
    adopt(table, rows.cast(pa.schema([field.with_nullable(False) for field in rows.schema])))
    updated(table, "id % 70 = 3", lambda row: row[0] % 70 == 3)


def test_columns_under_other_types_and_missing_ones(table):
    """What this reader does not know, Spark's reads."""
    table = table()
    rows = arrow(names=[name for name in COLUMNS if name not in ("unique_text", "day", "d38")])
    adopt(table, rows)
    updated(table, "id % 70 = 3", lambda row: row[0] % 70 == 3)
    narrow = rows.set_column(rows.schema.get_field_index("large"), "large", rows["number"].cast(pa.int32()))
    adopt(table, narrow.rename_columns([name.upper() if name == "text" else name for name in narrow.column_names]))
    updated(table, "id % 9 = 4", lambda row: row[0] % 9 == 4)


@pytest.mark.parametrize("mode", [pytest.param("name", marks=pytest.mark.soak), "id"])
def test_mapped_columns(spark, tmp_path, mode):
    table = Table(
        spark,
        tmp_path / "t",
        "id BIGINT, a STRING, b STRING, v INT",
        f"SELECT id, concat('a', id, {LONG}), concat('b', id), 0 FROM range(0, 5000, 1, 1)",
        vectors=True,
        properties=[f"'delta.columnMapping.mode' = '{mode}'"],
    )
    table.run("ALTER TABLE {t} ADD COLUMN new INT")
    updated(table, "id % 100 = 3", lambda row: row[0] % 100 == 3)
    assert table.run("SELECT a, b, new FROM {t} WHERE id = 103") == [("a103" + long_text(103), "b103", None)]


@pytest.mark.parametrize(
    "condition",
    [
        pytest.param("id % 1000 < 900", marks=pytest.mark.soak),  # the others have many rows after few, and before them
        "id < 9000 OR id % 1000 = 5",
        "id % 1000 = 5 OR id >= 21000",
    ],
)
def test_many_rows_after_all(spark, tmp_path, condition):
    """Where many rows are asked for, the rest of the file and the files after it are read at once."""
    query = f"SELECT id, {LONG}, IF(id % 3 = 0, NULL, id), 0 FROM range(0, 30000, 1, 2)"
    table = Table(spark, tmp_path / "t", "id BIGINT, n STRING, k BIGINT, v INT", query, vectors=True)
    chosen = {row[0] for row in table.run(f"SELECT id FROM {{t}} WHERE {condition}")}
    updated(table, condition, lambda row: row[0] in chosen)


@pytest.mark.covering
@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize("vectors", [False, True])
def test_statements_change_the_right_rows_of_files_read_late(spark, tmp_path, settings, vectors, changes):
    """Partition columns, rows that are gone already, change data, MERGE by broadcast and DELETE."""
    query = f"SELECT id, {LONG}, IF(id % 3 = 0, NULL, id), 0, id % 2 FROM range(0, 10000, 1, 2)"
    columns = "id BIGINT, n STRING, k BIGINT, v INT, p BIGINT"
    table = Table(spark, tmp_path / "t", columns, query, partitioned="p", vectors=vectors, changes=changes)

    def row(i: int, v: int) -> tuple[object, ...]:
        return (i, long_text(i), None if i % 3 == 0 else i, v, i % 2)

    expected = {i: row(i, 0) for i in range(10000)}
    for number, (statement, ids, v) in enumerate(
        [
            ("UPDATE {t} SET v = 1 WHERE id % 100 = 7", range(7, 10000, 100), 1),
            ("DELETE FROM {t} WHERE id % 50 = 7", range(7, 10000, 50), None),
            ("UPDATE {t} SET v = 2 WHERE id % 25 = 7", range(32, 10000, 50), 2),
            (
                "MERGE INTO {t} t USING (SELECT id * 20 + 3 AS id FROM range(500)) s ON t.id = s.id "
                "WHEN MATCHED AND t.k IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET v = 3 "
                "WHEN NOT MATCHED THEN INSERT (id, n, v, p) VALUES (s.id, '', 3, 0)",
                [i for i in range(3, 10000, 20) if i % 3],
                3,
            ),
        ]
    ):
        with settings({"spark.headwater.merge.smallTargetBytes": "0"}):
            table.run(statement)
        if number == 3:
            for i in range(3, 10000, 60):
                del expected[i]
        for i in ids:
            if v is None:
                del expected[i]
            elif i in expected:
                expected[i] = row(i, v)
        assert table.rows() == sorted(expected.values(), key=repr), statement
    if changes:
        found = table.run(f"SELECT n, v, _change_type FROM table_changes_by_path('{table.path}', 4, 4) WHERE id = 32")
        wanted = [(long_text(32), 0, "update_preimage"), (long_text(32), 2, "update_postimage")]
        assert sorted(found) == sorted(wanted)


def spoil(path: Path, name: str) -> None:
    """Overwrites a column's pages in the first row group."""
    group = pq.read_metadata(path).row_group(0)
    chunk = next(group.column(i) for i in range(group.num_columns) if group.column(i).path_in_schema == name)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data = bytearray(path.read_bytes())
    data[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(bytes(data))


def unreadable(table: Table, path: Path, condition: str) -> None:
    """An update that fails, names the file it cannot read, and leaves the table as it is."""
    state = table.state
    with pytest.raises(Exception, match=rf"\[HEADWATER_DATA_FILE_DAMAGED\] .*{path.name}"):
        table.run(f"UPDATE {{t}} SET v = 1 WHERE {condition}")
    assert table.comes_to(state)


def test_only_what_is_asked_for_is_read(table, settings):
    table = table()
    path = adopt(table, arrow())
    spoil(path, "text")
    # The rows are in a row group whose columns are whole, and so few that they alone are read.
    assert table.run("UPDATE {t} SET v = 1 WHERE id % 100 = 3 AND id % 1100 = id - 1100") == [(11,)]
    assert table.run("UPDATE {t} SET v = 1 WHERE id % 7 = 9") == [(0,)]
    with settings({LATE: str(1 << 40)}):
        unreadable(table, path, "id % 7 = 9")


def test_a_file_that_cannot_be_read(table):
    table = table()
    path = adopt(table, arrow())
    spoil(path, "text")
    unreadable(table, path, "id % 100 = 3")
    unreadable(table, path, "id % 100 < 50")
