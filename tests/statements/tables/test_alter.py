import json

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.log.checkpoint_writing import write_checkpoint
from headwater.protocol.actions import AddFile
from headwater.statements.running.opening import CACHE, open_snapshot
from support.commits import commit, edit_log
from support.requests import actions, alter_table, called, check_same_schema, create_request, create_table, schema_json


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
    snapshot = alter(table, statement, set_property("DELTA.logretentionduration", "interval 50 days"))
    assert snapshot.metadata.configuration["delta.logRetentionDuration"] == "interval 50 days"
    assert actions(table, 1, "commitInfo")[0]["operation"] == "SET TBLPROPERTIES"


def refused(path, statement, condition, *changes):
    version = open_snapshot(str(path), statement).version
    with pytest.raises(HeadwaterError) as error:
        alter(path, statement, *changes)
    assert error.value.condition == condition
    assert open_snapshot(str(path), statement).version == version
    return error.value.text


def test_a_constraint_is_not_set_as_a_property(table, statement):
    for key in ("delta.constraints.x", "DELTA.Constraints.X"):
        assert "CHECK (a > 1)" in refused(table, statement, "DELTA_ADD_CONSTRAINTS", set_property(key, "a > 1"))
    add = {"kind": "add_constraint", "constraint": {"kind": "check", "name": "x", "expression": "a > 1"}}
    version = alter(table, statement, add).version
    refused(table, statement, "DELTA_ADD_CONSTRAINTS", set_property("delta.constraints.x", "a > 2"))
    # What a script copies from SHOW TBLPROPERTIES changes nothing.
    assert alter(table, statement, set_property("delta.constraints.X", "a > 1")).version == version
    assert alter(table, statement, {"kind": "remove_property", "key": "delta.constraints.x"}).version == version + 1


def test_the_log_stays_as_long_as_deleted_files(table, tmp_path, statement):
    log, files = "delta.logRetentionDuration", "delta.deletedFileRetentionDuration"
    condition = "DELTA_INVALID_PROPERTY_VALUE"
    assert files in refused(table, statement, condition, set_property(log, "interval 6 days"))
    assert log in refused(table, statement, condition, set_property(files, "interval 31 days"))
    both = [set_property(files, "interval 2 days"), set_property(log, "interval 2 days")]
    assert alter(table, statement, *both).metadata.configuration[log] == "interval 2 days"
    for properties in ({log: "interval 6 days"}, {files: "interval 31 days"}):
        with pytest.raises(HeadwaterError, match=condition):
            create_table(create_request(tmp_path / "new", schema_json(a="integer"), properties=properties), statement)
    assert not (tmp_path / "new").exists()


def test_names_of_the_change_feed_are_refused_whatever_brings_them(tmp_path, statement):
    on, condition = {"delta.enableChangeDataFeed": "true"}, "DELTA_TABLE_ALREADY_CONTAINS_CDC_COLUMNS"
    with pytest.raises(HeadwaterError, match=f"{condition}.*_commit_version"):
        create_table(create_request(tmp_path / "a", schema_json(_commit_version="integer"), properties=on), statement)
    create_table(create_request(tmp_path / "b", schema_json(a="integer"), properties=on), statement)
    condition = "RESERVED_CDC_COLUMNS_ON_WRITE"
    assert "turn on" not in refused(tmp_path / "b", statement, condition, add_column("_change_type"))


def test_no_table_is_made_catalog_managed(table, tmp_path, statement):
    key, condition = "delta.feature.catalogManaged", "DELTA_UNSUPPORTED_CATALOG_MANAGED_TABLE_CREATION"
    assert key in refused(table, statement, condition, set_property(key, "supported"))
    request = create_request(tmp_path / "new", schema_json(a="integer"), properties={key: "supported"})
    with pytest.raises(HeadwaterError, match=condition):
        create_table(request, statement)


def test_a_table_is_not_clustered_twice_by_a_column(table, tmp_path, statement):
    for first, second in (("a", "a"), ("a", "A"), ("s.x", "S.x")):
        change = {"kind": "cluster_by", "columns": [first.split("."), second.split(".")]}
        refused(table, statement, "DELTA_DUPLICATE_COLUMNS_FOUND.CLUSTER_BY", change)
    request = create_request(tmp_path / "new", schema_json(a="integer"), partitioning=["cluster_by(a, A)"])
    with pytest.raises(HeadwaterError, match="DELTA_DUPLICATE_COLUMNS_FOUND"):
        create_table(request, statement)


def test_a_column_behind_itself_stays(table, statement):
    for path in (["a"], ["s", "x"]):
        change = {"kind": "column_position", "path": path, "position": {"after": path[-1]}}
        assert alter(table, statement, change).version == 0


def test_a_default_of_a_column_that_is_computed(tmp_path, statement):
    properties = {"delta.feature.allowColumnDefaults": "supported"}
    identity = [{"column": "i", "start": 1, "step": 1, "allowExplicitInsert": False}]
    request = create_request(tmp_path / "t", schema_json(i="long", a="integer", g="integer"), properties=properties)
    create_table({**request, "identity": identity, "generated": {"g": "a + 1"}}, statement)
    default = {"kind": "column_default", "default": "5"}
    condition = "DELTA_IDENTITY_COLUMNS_ALTER_COLUMN_NOT_SUPPORTED"
    assert "BY DEFAULT" in refused(tmp_path / "t", statement, condition, {**default, "path": ["i"]})
    text = refused(tmp_path / "t", statement, "DELTA_OPERATION_NOT_ALLOWED", {**default, "path": ["g"]})
    assert "generated column g" in text


def test_settings_take_checks_away(table, make_statement):
    name = "spark.databricks.delta.constraints.assumesDropIfExists.enabled"
    change = {"kind": "drop_constraint", "name": "none", "ifExists": False}
    refused(table, make_statement(), "DELTA_CONSTRAINT_DOES_NOT_EXIST", change)
    assert alter(table, make_statement({name: "true"}), change).version == 0
    name = "spark.databricks.delta.alterLocation.bypassSchemaCheck"
    elsewhere = {"table": str(table), "other": f"{table}/none"}
    with pytest.raises(HeadwaterError):
        check_same_schema(elsewhere, make_statement())
    check_same_schema(elsewhere, make_statement({name: "true"}))


def test_a_property_that_needs_a_feature_brings_it(table, statement):
    snapshot = alter(table, statement, set_property("delta.enableChangeDataFeed", "true"))
    assert "changeDataFeed" in snapshot.protocol.writer_features


def test_turning_column_mapping_on_keeps_the_names_files_have(table, statement):
    snapshot = alter(table, statement, set_property("delta.columnMapping.mode", "name"))
    assert [f.physical_name for f in snapshot.schema] == ["a", "s"]
    assert snapshot.metadata.configuration["delta.columnMapping.maxColumnId"] == "3"


def leave_mapping(path, name):
    """Another writer has turned column mapping off and left its metadata in the schema."""

    def edit(action):
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            schema["fields"][0]["metadata"] = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": name}
            action["metaData"]["schemaString"] = json.dumps(schema)

    edit_log(path, edit)
    CACHE.forget(str(path))


def test_column_mapping_over_what_an_earlier_one_left(table, statement):
    """The files have the logical names: reading them by others gives nulls."""
    leave_mapping(table, "col-1")
    change = set_property("delta.columnMapping.mode", "name")
    condition = "DELTA_ENABLING_COLUMN_MAPPING_DISALLOWED_WHEN_COLUMN_MAPPING_METADATA_ALREADY_EXISTS"
    assert "its columns a still" in refused(table, statement, condition, change)
    refused(table, statement, condition, change, set_property("delta.enableIcebergCompatV2", "true"))
    clone = {"table": f"{table}2", "mode": "create", "source": str(table), "arguments": {"isShallow": True}}
    with pytest.raises(HeadwaterError, match=condition):
        called("clone")({**clone, "properties": {"delta.columnMapping.mode": "name"}}, statement)
    # What the error advises.
    alter(table, statement, set_property("delta.columnMapping.mode", "none"))
    assert [f.physical_name for f in alter(table, statement, change).schema] == ["a", "s"]


def test_column_mapping_over_names_that_files_have(table, statement):
    leave_mapping(table, "a")
    snapshot = alter(table, statement, set_property("delta.columnMapping.mode", "name"))
    assert [(f.physical_name, f.metadata["delta.columnMapping.id"]) for f in snapshot.schema] == [("a", 1), ("s", 2)]


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
        ({"kind": "unsupported", "change": "cluster_by"}, "DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE"),
        ({"kind": "drop_column", "path": ["a"]}, "DELTA_UNSUPPORTED_DROP_COLUMN"),
        ({"kind": "rename_column", "path": ["a"], "newName": "b"}, "DELTA_UNSUPPORTED_RENAME_COLUMN"),
        ({"kind": "column_type", "path": ["a"], "type": '"long"'}, "DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP"),
        (
            {"kind": "column_default", "path": ["a"], "default": "1"},
            "WRONG_COLUMN_DEFAULTS_FOR_DELTA_FEATURE_NOT_ENABLED",
        ),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(table, statement, change, condition):
    with pytest.raises(HeadwaterError) as refused:
        alter(table, statement, change)
    assert refused.value.condition == condition
    assert open_snapshot(str(table), statement).version == 0


def test_changes_that_no_statement_has_together_are_one_commit(table, statement):
    snapshot = alter(
        table,
        statement,
        add_column("b"),
        {"kind": "drop_column", "path": ["a"]},
        {"kind": "column_comment", "path": ["s"], "comment": "inner"},
        set_property("delta.columnMapping.mode", "name"),
    )
    assert (snapshot.version, snapshot.schema.names) == (1, ["s", "b"])
    assert snapshot.schema.find("s").comment == "inner"
    told = actions(table, 1, "commitInfo")[0]
    assert told["operation"] == "CHANGE COLUMN"
    assert set(told["operationParameters"]) >= {"properties", "columns", "column"}


def test_columns_added_and_dropped_replace_no_others(table, statement):
    alter(table, statement, set_property("delta.columnMapping.mode", "name"))
    snapshot = alter(table, statement, add_column("b"), {"kind": "drop_column", "path": ["a"]})
    assert snapshot.schema.names == ["s", "b"]


def test_what_cannot_be_done_together_is_named(table, statement):
    with pytest.raises(HeadwaterError, match="add column, remove property") as refused:
        alter(table, statement, add_column("b"), {"kind": "remove_property", "key": "mine"})
    assert refused.value.condition == "DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE"


def test_changes_of_several_columns_are_one_commit(table, statement):
    alter(table, statement, set_property("delta.enableTypeWidening", "true"))
    snapshot = alter(
        table,
        statement,
        {"kind": "column_type", "path": ["a"], "type": '"long"'},
        {"kind": "column_nullability", "path": ["s", "x"], "nullable": False},
        {"kind": "column_position", "path": ["s"], "position": {}},
    )
    assert snapshot.schema.sql() == "struct<s:struct<x:int>,a:bigint>"
    assert (snapshot.version, snapshot.schema.find("s").type.fields[0].nullable) == (2, False)
    operation = actions(table, 2, "commitInfo")[0]
    assert operation["operation"] == "CHANGE COLUMNS"
    described = json.loads(operation["operationParameters"]["columns"])
    assert [(c["name"], c["type"], c.get("position")) for c in described] == [
        ("a", "long", None),
        ("s.x", "integer", None),
        ("s", "struct", "FIRST"),
    ]


def test_what_names_a_column_follows_it(tmp_path, statement):
    path = tmp_path / "partitioned"
    properties = {"delta.columnMapping.mode": "name", "delta.dataSkippingStatsColumns": "a,b"}
    request = create_request(path, schema_json(a="integer", b="integer", p="integer"), properties=properties)
    create_table({**request, "partitionColumns": ["p"], "partitioning": ["p"]}, statement)
    alter(path, statement, {"kind": "rename_column", "path": ["P"], "newName": "q"})
    alter(path, statement, {"kind": "rename_column", "path": ["a"], "newName": "c d"})
    snapshot = alter(path, statement, {"kind": "drop_column", "path": ["b"]})
    assert (snapshot.schema.names, snapshot.metadata.partition_columns) == (["c d", "q"], ("q",))
    assert snapshot.metadata.configuration["delta.dataSkippingStatsColumns"] == "`c d`"
    for dropped, condition in (("q", "PARTITION_COLUMN"), ("c d", "DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA")):
        with pytest.raises(HeadwaterError, match=condition):
            alter(path, statement, {"kind": "drop_column", "path": [dropped]})
    absent = {"kind": "drop_column", "path": ["absent"], "ifExists": True}
    assert alter(path, statement, absent).version == snapshot.version


def test_a_constraint_holds_its_columns(tmp_path, statement):
    path = tmp_path / "constrained"
    constraint = {"kind": "check", "name": "few", "expression": "a < 9"}
    properties = {"delta.columnMapping.mode": "name"}
    request = create_request(path, schema_json(a="integer", b="integer"), properties=properties)
    create_table({**request, "constraints": [constraint]}, statement)
    with pytest.raises(HeadwaterError, match="DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE.*few: a < 9"):
        alter(path, statement, {"kind": "drop_column", "path": ["a"]})
    assert alter(path, statement, {"kind": "drop_column", "path": ["b"]}).schema.names == ["a"]
    assert alter(path, statement, {"kind": "rename_column", "path": ["a"], "newName": "A"}).schema.names == ["A"]


def test_replacing_needs_the_columns_of_the_analysis(table, statement):
    drops = [{"kind": "drop_column", "path": [name]} for name in ("a", "gone")]
    with pytest.raises(HeadwaterError, match="DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS"):
        alter(table, statement, *drops, add_column("a", kind='"integer"'))


def test_another_location_must_have_the_same_columns(tmp_path, table, statement):
    other = tmp_path / "other"
    create_table(create_request(other, schema_json(a="integer")), statement)
    with pytest.raises(HeadwaterError) as refused:
        check_same_schema({"table": str(table), "other": str(other)}, statement)
    assert refused.value.condition == "DELTA_SET_LOCATION_SCHEMA_MISMATCH"
    check_same_schema({"table": str(table), "other": str(table)}, statement)


def test_files_added_again_keep_statistics_that_a_checkpoint_has_as_columns_only(tmp_path, statement):
    path = tmp_path / "t"
    properties = {"delta.checkpoint.writeStatsAsJson": "false", "delta.checkpoint.writeStatsAsStruct": "true"}
    create_table(create_request(path, schema_json(a="integer"), properties=properties), statement)
    stats = '{"numRecords":3,"minValues":{"a":1},"maxValues":{"a":2},"nullCount":{"a":1}}'
    write_checkpoint(commit(path, AddFile("f.parquet", {}, 1, 1, True, stats)).snapshot)
    for version in (0, 1):
        (path / "_delta_log" / f"{version:020d}.json").unlink()
    CACHE.forget(str(path))
    alter(path, statement, set_property("delta.enableRowTracking", "true"))
    (again,) = actions(path, 3, "add")
    assert json.loads(again["stats"]) == json.loads(stats)
    assert again["baseRowId"] == 0
