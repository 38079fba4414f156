"""Tables that may not be written to: a clear error, the table as it was, and no file left."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.denying import not_to_be_written

pytestmark = pytest.mark.covering("file")

CHANGES = [
    "INSERT INTO {} VALUES (3)",
    "INSERT OVERWRITE {} VALUES (3)",
    "UPDATE {} SET a = 4 WHERE a = 1",
    "DELETE FROM {} WHERE a = 1",
    "ALTER TABLE {} ADD COLUMN b INT",
]


def files(directory):
    """All but what maintenance may still be writing: the log's checksums."""
    return sorted(str(file) for file in directory.rglob("*") if ".crc" not in file.name)


@pytest.fixture
def table(spark, tmp_path):
    path = tmp_path / "t"
    spark.sql(f"CREATE TABLE delta.`{path}` USING delta AS SELECT id AS a FROM range(1, 3, 1, 1)")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (9)")
    return path


@pytest.mark.parametrize("statement", CHANGES)
@pytest.mark.parametrize("where", ["", "/_delta_log"])
def test_a_table_that_may_not_be_written_to_is_left_as_it_was(table, rows, fails, where, statement):
    name, before = f"delta.`{table}`", files(table)
    with not_to_be_written(Path(f"{table}{where}")):
        with fails("DELTA_FILE_ACCESS_FAILED", f"{table}{where}:", "may not be written to", "user running Spark"):
            rows(statement.format(name))
        assert files(table) == before
        assert rows(f"SELECT a FROM {name} ORDER BY a") == [(1,), (2,), (9,)]
    rows(statement.format(name))
    assert files(table) != before


@pytest.mark.parametrize("query", ["", " AS SELECT 1 AS a"])
def test_a_table_is_not_made_where_nothing_may_be(tmp_path, rows, fails, query):
    columns = "" if query else " (a INT)"
    with not_to_be_written(tmp_path):
        with fails("DELTA_FILE_ACCESS_FAILED", str(tmp_path), "may not be written to"):
            rows(f"CREATE TABLE delta.`{tmp_path}/below/t`{columns} USING delta{query}")
        assert files(tmp_path) == []


def test_a_partition_that_may_not_be_written_to_is_not_committed(tmp_path, rows):
    """The task meets it: the error is Spark's own."""
    table = tmp_path / "t"
    rows(f"CREATE TABLE delta.`{table}` USING delta PARTITIONED BY (p) AS SELECT 1 AS a, 1 AS p")
    before = files(table)
    with not_to_be_written(table / "p=1"):
        with pytest.raises(Exception, match="TASK_WRITE_FAILED") as raised:
            rows(f"INSERT INTO delta.`{table}` VALUES (3, 1), (3, 2)")
        assert str(table) in str(raised.value)
        assert [f for f in files(table) if "_delta_log" in f] == [f for f in before if "_delta_log" in f]
    assert rows(f"SELECT count(*) FROM delta.`{table}`") == [(1,)]
