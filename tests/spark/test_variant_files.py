"""How data files hold variants: shredded only where the table's property says so."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from support.dml_table import Table

SHREDDING = "delta.enableVariantShredding"
COLUMNS = "id BIGINT, v VARIANT, s STRUCT<v: VARIANT>"
VALUES = """parse_json(concat('{"a":', id, ',"b":"x"}'))"""
ROWS = f"SELECT id, {VALUES}, named_struct('v', {VALUES}) FROM range(0, 8, 1, 2)"


def shredded(table: Table, files: set[str]) -> list[bool]:
    """Whether each file has a column that values were shredded into."""
    schemas = [pq.read_metadata(table.path / file).schema for file in sorted(files)]
    return ["typed_value" in str(schema) for schema in schemas]


def contents(table: Table) -> list[tuple[int, int, int]]:
    return table.rows("id, v:a::int, s.v:a::int")


MERGE = f"""MERGE INTO {{t}} t USING (SELECT id, {VALUES} AS v FROM range(6, 9)) s ON t.id = s.id
    WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v, s) VALUES (s.id, s.v, struct(s.v AS v))"""


@pytest.mark.parametrize("vectors", [pytest.param(False, marks=pytest.mark.soak), True])
def test_every_kind_of_write(spark, tmp_path, vectors):
    table = Table(spark, tmp_path / "t", COLUMNS, ROWS, vectors=vectors, changes=True)
    table.run("UPDATE {t} SET s.v = v WHERE id = 1")
    table.run("DELETE FROM {t} WHERE id = 0")
    table.run(MERGE)
    assert contents(table) == [(i, i, i) for i in range(1, 9)]
    table.run(f"INSERT OVERWRITE {{t}} {ROWS}")
    files = {file for file in table.files_on_disk() if file.endswith(".parquet")}
    assert any("_change_data" in file for file in files)
    assert shredded(table, files) == [False] * len(files)


def test_tables_made_of_a_query(spark, tmp_path):
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/t` USING delta AS SELECT {VALUES} AS v FROM range(3)")
    files = list(tmp_path.glob("t/*.parquet"))
    assert files
    for file in files:
        schema = pq.read_metadata(file).schema
        assert {schema.column(i).path for i in range(len(schema))} == {"v.value", "v.metadata"}


def test_with_shredding_on_and_off_again(spark, tmp_path):
    """Rewrites of shredded files write other ones while the property is off."""
    table = Table(spark, tmp_path / "t", COLUMNS, ROWS, properties=[f"'{SHREDDING}' = 'true'"])
    before = table.files()
    assert shredded(table, before) == [True, True]
    assert contents(table) == [(i, i, i) for i in range(8)]
    table.run(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('{SHREDDING}' = 'false')")
    table.run("DELETE FROM {t} WHERE id IN (0, 4)")
    assert not before & table.files()
    assert shredded(table, table.files()) == [False, False]
    assert contents(table) == [(i, i, i) for i in range(8) if i % 4]
