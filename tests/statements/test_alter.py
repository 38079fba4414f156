import json

import pytest

from headwater.errors import HeadwaterError
from headwater.statements.opening import open_snapshot
from support.requests import actions, alter_table, check_same_schema, create_request, create_table, schema_json


@pytest.fixture
def table(tmp_path, statement):
    path = tmp_path / "t"
    schema = {
        "type": "struct",
        "fields": [
            {"name": "a", "type": "integer", "nullable": True, "metadata": {}},
            {"name": "s", "type": json.loads(schema_json(x="integer")), "nullable": True, "metadata": {}},
        ],
    }
    create_table(create_request(path, json.dumps(schema), properties={"mine": "1"}), statement)
    return path


def alter(path, statement, *changes):
    alter_table({"table": str(path), "name": "t", "changes": list(changes)}, statement)
    return open_snapshot(str(path), statement)


def set_property(key, value):
    return {"kind": "set_property", "key": key, "value": value}


def add_column(*path, kind='"string"', **more):
    return {"kind": "add_column", "path": list(path), "type": kind, "nullable": True, **more}


def test_properties_are_set_under_their_known_names(table, statement):
    snapshot = alter(table, statement, set_property("DELTA.logretentionduration", "interval 5 days"))
    assert snapshot.metadata.configuration["delta.logRetentionDuration"] == "interval 5 days"
    assert actions(table, 1, "commitInfo")[0]["operation"] == "SET TBLPROPERTIES"


def test_a_property_that_needs_a_feature_brings_it(table, statement):
    snapshot = alter(table, statement, set_property("delta.enableChangeDataFeed", "true"))
    assert "changeDataFeed" in snapshot.protocol.writer_features


def test_turning_column_mapping_on_keeps_the_names_files_have(table, statement):
    snapshot = alter(table, statement, set_property("delta.columnMapping.mode", "name"))
    assert [f.physical_name for f in snapshot.schema] == ["a", "s"]
    assert snapshot.metadata.configuration["delta.columnMapping.maxColumnId"] == "3"


def test_properties_are_taken_away(table, statement):
    assert alter(table, statement, {"kind": "remove_property", "key": "mine"}).metadata.configuration == {}


def test_nothing_to_change_is_no_commit(table, statement):
    assert alter(table, statement, set_property("mine", "1")).version == 0


def test_the_comment_is_the_tables_description(table, statement):
    assert alter(table, statement, set_property("comment", "a table")).metadata.description == "a table"


def test_columns_are_added_where_the_statement_says(table, statement):
    snapshot = alter(
        table,
        statement,
        add_column("b", comment="new"),
        add_column("first", position={}),
        add_column("s", "y", position={"after": "x"}),
    )
    assert snapshot.schema.names == ["first", "a", "s", "b"]
    assert snapshot.schema.find("s").type.names == ["x", "y"]
    assert snapshot.schema.find("b").comment == "new"


def test_a_columns_comment_is_changed(table, statement):
    snapshot = alter(table, statement, {"kind": "column_comment", "path": ["s", "x"], "comment": "inner"})
    assert snapshot.schema.find("s").type.fields[0].comment == "inner"


@pytest.mark.parametrize(
    ("change", "condition"),
    [
        (set_property("delta.noSuchThing", "1"), "DELTA_UNKNOWN_CONFIGURATION"),
        (set_property("delta.appendOnly", "perhaps"), "DELTA_INVALID_PROPERTY_VALUE"),
        (add_column("A"), "DELTA_ADD_COLUMN_EXISTS"),
        (add_column("a", "b"), "DELTA_ADD_COLUMN_PARENT_NOT_STRUCT"),
        (add_column("b c"), "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES"),
        (add_column("b", default="1"), "WRONG_COLUMN_DEFAULTS_FOR_DELTA_ALTER_TABLE_ADD_COLUMN_NOT_SUPPORTED"),
        ({"kind": "unsupported", "change": "drop_column"}, "DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(table, statement, change, condition):
    with pytest.raises(HeadwaterError) as refused:
        alter(table, statement, change)
    assert refused.value.condition == condition
    assert open_snapshot(str(table), statement).version == 0


def test_another_location_must_have_the_same_columns(tmp_path, table, statement):
    other = tmp_path / "other"
    create_table(create_request(other, schema_json(a="integer")), statement)
    with pytest.raises(HeadwaterError) as refused:
        check_same_schema({"table": str(table), "other": str(other)}, statement)
    assert refused.value.condition == "DELTA_SET_LOCATION_SCHEMA_MISMATCH"
    check_same_schema({"table": str(table), "other": str(table)}, statement)
