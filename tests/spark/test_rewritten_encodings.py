"""Which columns a rewrite writes without a dictionary: those that had none in the files it replaces."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from support.dml_table import Table

pytestmark = pytest.mark.covering("file")

COLUMNS = "id BIGINT, few BIGINT, s STRUCT<name: STRING, kind: INT>, v BIGINT"
#: All distinct, but for `few` and `s.kind`.
ROWS = (
    "SELECT id, id % 10, named_struct('name', concat('name ', id), 'kind', CAST(id % 3 AS INT)), id + 7 "
    "FROM range(0, 20000, 1, 2)"
)


def with_dictionary(table: Table, files: set[str]) -> set[str]:
    """Columns that have a dictionary in some of the files."""
    found = set()
    for file in files:
        footer = pq.read_metadata(table.path / file)
        for group in range(footer.num_row_groups):
            for position in range(footer.num_columns):
                chunk = footer.row_group(group).column(position)
                if any("DICTIONARY" in encoding for encoding in chunk.encodings):
                    found.add(chunk.path_in_schema)
    return found


@pytest.fixture
def table(spark, tmp_path):
    def make(**given) -> Table:
        made = Table(spark, tmp_path / "t", COLUMNS, ROWS, **given)
        assert len(with_dictionary(made, made.files())) == 2
        return made

    return make


@pytest.mark.parametrize("mapped", [False, True])
def test_merge(table, mapped):
    """The source's values would be worth a dictionary: that there is none shows that it was not tried."""
    properties = ["'delta.columnMapping.mode' = 'name'"] if mapped else []
    table = table(properties=properties)
    before = table.files()
    clauses = "WHEN MATCHED THEN UPDATE SET v = s.v, few = s.v"
    assert table.run(f"MERGE INTO {{t}} t USING (SELECT id, 5L AS v FROM range(19000)) s ON t.id = s.id {clauses}") == [
        (19000, 19000, 0, 0)
    ]
    written = table.files() - before
    names = with_dictionary(table, written)
    assert len(names) == 2
    assert mapped or names == {"few", "s.kind"}
    assert table.run("SELECT count(*), sum(v), count(DISTINCT s.name), sum(few) FROM {t}") == [
        (20000, 19000 * 5 + sum(range(19007, 20007)), 20000, 19000 * 5 + 4500)
    ]


@pytest.mark.parametrize("vectors", [False, True])
def test_update_tries_the_columns_it_assigns(table, vectors):
    table = table(vectors=vectors)
    before = table.files()
    table.run("UPDATE {t} SET v = 5 WHERE id < 15000")
    assert with_dictionary(table, table.files() - before) == {"few", "s.kind", "v"}
    assert table.run("SELECT count(*), sum(v) FROM {t}") == [(20000, 75000 + sum(range(15007, 20007)))]


def test_what_stays_of_a_delete(table):
    table = table()
    before = table.files()
    table.run("DELETE FROM {t} WHERE id % 100 <> 7 AND id > 100")
    assert with_dictionary(table, table.files() - before) <= {"few", "s.kind"}
    assert table.run("SELECT count(*), min(v), max(v) FROM {t}") == [(300, 7, 19914)]


def test_small_files_tell_nothing(spark, tmp_path):
    """All of a few values are distinct; those of more of the kind need not be."""
    table = Table(spark, tmp_path / "t", "id BIGINT, v BIGINT", "SELECT id, id FROM range(0, 500, 1, 1)")
    before = table.files()
    assert with_dictionary(table, before) == set()
    table.run("MERGE INTO {t} t USING (SELECT id FROM range(400)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 5")
    assert with_dictionary(table, table.files() - before) == {"v"}
