"""ALTERs that the rows of a table, or what only writers may keep, have a say in."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.protocol.column_metadata import DECLARED_TYPE
from headwater.protocol.types import PrimitiveType, StructField, StructType
from headwater.schema.declared import as_stored, with_declared
from support.commits import commit, newest, one_row
from support.requests import alter_table, create_request, create_table, schema_json

NESTED = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "integer", "nullable": True, "metadata": {}},
            {"name": "s", "type": json.loads(schema_json(a="integer")), "nullable": True, "metadata": {}},
        ],
    }
)


def replaced_by(*fields):
    added = [{"kind": "add_column", "path": ["id"], "type": '"integer"', "nullable": True}]
    struct = {
        "type": "struct",
        "fields": [{"name": n, "type": "integer", "nullable": ok, "metadata": {}} for n, ok in fields],
    }
    added.append({"kind": "add_column", "path": ["s"], "type": json.dumps(struct), "nullable": True})
    return [{"kind": "drop_column", "path": [name], "ifExists": False} for name in ("id", "s")] + added


def test_replace_columns_looks_at_the_rows_for_a_new_not_null(tmp_path, statement):
    path = tmp_path / "t"
    create_table(create_request(path, NESTED), statement)
    commit(path, one_row("x.parquet"))
    looked: list[Any] = []
    statement.query = looked.append
    alter_table({"table": str(path), "name": "t", "changes": replaced_by(("a", False))}, statement)
    assert len(looked) == 1
    assert not newest(path).schema.find("s").type.find("a").nullable
    with pytest.raises(HeadwaterError, match="Add it as nullable"):
        alter_table({"table": str(path), "name": "t", "changes": replaced_by(("a", False), ("b", False))}, statement)


@pytest.mark.parametrize("key", ["delta.columnMapping.maxColumnId", "DELTA.COLUMNMAPPING.MAXCOLUMNID"])
def test_what_only_writers_keep_is_not_unset(tmp_path, statement, key):
    path = tmp_path / "t"
    create_table(create_request(path, NESTED, properties={"delta.columnMapping.mode": "name"}), statement)
    with pytest.raises(HeadwaterError) as raised:
        alter_table({"table": str(path), "name": "t", "changes": [{"kind": "remove_property", "key": key}]}, statement)
    assert raised.value.condition == "DELTA_CANNOT_MODIFY_TABLE_PROPERTY"
    assert newest(path).version == 0


def test_declared_types_are_text_that_spark_reads():
    inner = StructType(
        (StructField("net weight", PrimitiveType("varchar(3)")), StructField("b", PrimitiveType("integer")))
    )
    stored = as_stored(StructType((StructField("s", inner),)))
    assert stored.fields[0].metadata[DECLARED_TYPE] == "struct<`net weight`:varchar(3),b:int>"
    assert with_declared(stored) == StructType((StructField("s", inner),))


def test_row_tracking_that_was_suspended_is_enabled(tmp_path, statement):
    path = tmp_path / "t"
    properties = {"delta.feature.rowTracking": "supported", "delta.rowTrackingSuspended": "true"}
    create_table(create_request(path, NESTED, properties=properties), statement)
    commit(path, one_row("x.parquet"))
    changes = [
        {"kind": "set_property", "key": "delta.rowTrackingSuspended", "value": "false"},
        {"kind": "set_property", "key": "delta.enableRowTracking", "value": "true"},
    ]
    alter_table({"table": str(path), "name": "t", "changes": changes}, statement)
    after = newest(path)
    assert after.metadata.configuration["delta.enableRowTracking"] == "true"
    assert after.files["base_row_id"].to_pylist() == [0]
