"""Nulls in places where the schema allows none: never read as other values, never written.

Files of other writers hold such nulls. Every statement that reads the column as the schema has it refuses, and shows
the row. Whatever a statement does, the rows that it leaves can be read as before.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ARRAY = {"type": "array", "elementType": "integer", "containsNull": False}
TEXTS = {"type": "array", "elementType": "string", "containsNull": False}
MAP = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": False}
REQUIRED = {"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": False, "metadata": {}}]}
NESTED = {"type": "struct", "fields": [{"name": "l", "type": ARRAY, "nullable": True, "metadata": {}}]}
#: Type in the log and in Arrow; a value, the same with a null in it, and both as SQL shows them.
SHAPES: dict[str, tuple[Any, pa.DataType, Any, Any]] = {
    "array": (ARRAY, pa.list_(pa.int32()), [1, 2], [7, None]),
    "texts": (TEXTS, pa.list_(pa.string()), ["a"], ["b", None]),
    "map": (MAP, pa.map_(pa.string(), pa.string()), [("k", "v")], [("k", None)]),
    "struct": (NESTED, pa.struct([("l", pa.list_(pa.int32()))]), {"l": [1]}, {"l": [None]}),
    "array of arrays": (
        {"type": "array", "elementType": ARRAY, "containsNull": True},
        pa.list_(pa.list_(pa.int32())),
        [[1], None],
        [[1], [None]],
    ),
}
#: The same for columns and fields that are NOT NULL.
COLUMNS: dict[str, tuple[Any, pa.DataType, Any, Any]] = {
    "integer": ("integer", pa.int32(), 5, None),
    "string": ("string", pa.string(), "a", None),
    "field": (REQUIRED, pa.struct([("x", pa.int32())]), {"x": 1}, {"x": None}),
    "column of structs": (REQUIRED, pa.struct([("x", pa.int32())]), {"x": 1}, None),
}
CONDITION = "HEADWATER_NULL_AGAINST_SCHEMA"


def foreign(path: Path, shape: str) -> str:
    """A table of one file with a bad row, number 1, among good ones; its name in SQL."""
    kind, arrow, good, bad = (SHAPES | COLUMNS)[shape]
    (path / "_delta_log").mkdir(parents=True)
    fields: list[dict[str, Any]] = [
        {"name": n, "type": t, "nullable": n == "id" or bad is not None, "metadata": {}}
        for n, t in (("id", "long"), ("a", kind))
    ]
    pq.write_table(
        pa.table({"id": [0, 1, 2], "a": pa.array([good, bad, None if shape in SHAPES else good], arrow)}),
        path / "f.parquet",
    )
    schema = json.dumps({"type": "struct", "fields": fields})
    metadata = {"id": shape, "format": {"provider": "parquet", "options": {}}, "partitionColumns": []}
    size = (path / "f.parquet").stat().st_size
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                **metadata,
                "configuration": {},
                "schemaString": schema,
            }
        },
        {"add": {"path": "f.parquet", "partitionValues": {}, "size": size, "modificationTime": 0, "dataChange": True}},
    ]
    (path / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return f"delta.`{path}`"


@pytest.mark.parametrize("reader", ["columns", "rows"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_null_that_the_schema_forbids_is_refused_and_shown(spark, rows, fails, settings, tmp_path, shape, reader):
    with settings({"spark.sql.parquet.enableVectorizedReader": str(reader == "columns")}):
        _refused_and_shown(spark, rows, fails, tmp_path, shape)


def _refused_and_shown(spark, rows, fails, tmp_path, shape):
    table = foreign(tmp_path / "t", shape)
    # No handler sees the error of a query's task: Spark passes it on.
    with pytest.raises(Exception, match=rf"\[{CONDITION}\] (.|\n)*f.parquet(.|\n)* - id : 1\n"):
        rows(f"SELECT * FROM {table}")
    with fails(CONDITION, " - id : 1\n"):
        spark.sql(f"UPDATE {table} SET id = 20 WHERE id = 2")
    assert rows(f"SELECT id FROM {table}") == [(0,), (1,), (2,)]
    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    assert [number for number, _ in rows(f"SELECT id, a FROM {table}")] == [0, 2]


@pytest.mark.parametrize("reader", ["columns", "rows"])
@pytest.mark.parametrize("shape", COLUMNS)
def test_a_null_of_a_not_null_column_is_refused_and_kept(spark, rows, settings, tmp_path, shape, reader):
    table = foreign(tmp_path / "t", shape)
    column = "a.x" if shape == "field" else "a"
    with settings({"spark.sql.parquet.enableVectorizedReader": str(reader == "columns")}):
        for _ in range(2):
            with pytest.raises(Exception, match=rf"\[{CONDITION}\] (.|\n)*parquet(.|\n)* - id : 1\n"):
                rows(f"SELECT * FROM {table}")
            spark.sql(f"UPDATE {table} SET id = id + 20 WHERE id = 2")
        spark.sql(f"ALTER TABLE {table} ALTER COLUMN {column} DROP NOT NULL")
        assert rows(f"SELECT id, {column} IS NULL FROM {table} ORDER BY id") == [(0, False), (1, True), (22, False)]


def test_no_statement_writes_such_a_null(spark, rows, fails, tmp_path):
    table = foreign(tmp_path / "t", "array")
    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    for statement in (
        f"UPDATE {table} SET a = array(1, CAST(NULL AS INT)) WHERE id = 2",
        f"MERGE INTO {table} USING (SELECT 2L k) ON id = k WHEN MATCHED THEN UPDATE SET a = array(CAST(NULL AS INT))",
    ):
        with fails(CONDITION, " - id : 2\n", " - a : ["):
            spark.sql(statement)
    assert rows(f"SELECT * FROM {table}") == [(0, [1, 2]), (2, None)]
