import json
from contextlib import nullcontext
from typing import Any

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.statements.reads.loading import describe
from headwater.statements.running.opening import open_snapshot
from support.requests import actions, called, create_request, create_table, data_file, load_table, log_of, schema_json


def test_a_new_table_is_one_commit_of_protocol_and_metadata(tmp_path, statement):
    path = tmp_path / "t"
    create_table(
        create_request(path, schema_json(a="integer", p="string"), partitionColumns=["P"], comment="hi"), statement
    )
    assert [next(iter(line)) for line in log_of(path, 0)] == ["commitInfo", "protocol", "metaData"]
    metadata = actions(path, 0, "metaData")[0]
    assert metadata["partitionColumns"] == ["p"]
    assert metadata["description"] == "hi"
    assert actions(path, 0, "protocol") == [{"minReaderVersion": 1, "minWriterVersion": 2}]
    assert actions(path, 0, "commitInfo")[0]["operation"] == "CREATE TABLE"


def test_rows_and_definition_are_one_commit(tmp_path, statement):
    path = tmp_path / "t"
    schema = schema_json(a="integer")
    statement.written = [[data_file("part-0.parquet", 3, [[1, 7, 1]])]]
    create_table(create_request(path, schema, plan=0, rowSchema=schema), statement)
    add = actions(path, 0, "add")[0]
    assert json.loads(add["stats"]) == {
        "numRecords": 3,
        "minValues": {"a": 1},
        "maxValues": {"a": 7},
        "nullCount": {"a": 1},
    }
    assert actions(path, 0, "commitInfo")[0]["operation"] == "CREATE TABLE AS SELECT"
    assert statement.specifications[0]["query"] == "TABLE hw_plan.`0`"


def test_rows_that_fail_to_be_written_leave_no_table(tmp_path, statement):
    path = tmp_path / "t"
    schema = schema_json(a="integer")

    def fail(specification):
        raise RuntimeError("a task failed")

    statement.write = fail
    with pytest.raises(RuntimeError):
        create_table(create_request(path, schema, plan=0, rowSchema=schema), statement)
    assert not (path / "_delta_log").exists()


def test_replacing_keeps_the_id_and_removes_every_file(tmp_path, statement):
    path = tmp_path / "t"
    first = schema_json(a="integer")
    statement.written = [[data_file("one.parquet", 1, [[1, 1, 0]])]]
    create_table(create_request(path, first, plan=0, rowSchema=first), statement)
    create_table(create_request(path, schema_json(b="string"), mode="replace"), statement)
    assert actions(path, 1, "metaData")[0]["id"] == actions(path, 0, "metaData")[0]["id"]
    assert [r["path"] for r in actions(path, 1, "remove")] == ["one.parquet"]
    assert actions(path, 1, "commitInfo")[0]["operation"] == "REPLACE TABLE"
    assert open_snapshot(str(path), statement).num_files == 0


def test_columns_of_one_name_are_those_of_the_data(tmp_path, statement):
    with pytest.raises(HeadwaterError) as refused:
        create_table(create_request(tmp_path / "t", schema_json(a="integer", A="integer")), statement)
    assert refused.value.condition == "DELTA_DUPLICATE_COLUMNS_FOUND.DATA"


def test_an_existing_table_is_adopted_where_the_columns_agree(tmp_path, statement):
    path = tmp_path / "t"
    create_table(create_request(path, schema_json(a="integer")), statement)
    create_table(create_request(path, schema_json()), statement)
    create_table(create_request(path, schema_json(a="integer")), statement)
    assert open_snapshot(str(path), statement).version == 0


@pytest.mark.parametrize(
    ("change", "condition", "named"),
    [
        ({"schema": schema_json(a="long")}, "DELTA_CREATE_TABLE_SCHEME_MISMATCH", "a"),
        ({"schema": schema_json(a="integer", b="string")}, "DELTA_CREATE_TABLE_SCHEME_MISMATCH", "b"),
        ({"partitionColumns": ["a"]}, "DELTA_CREATE_TABLE_WITH_DIFFERENT_PARTITIONING", "a"),
        ({"properties": {"x": "y"}}, "DELTA_CREATE_TABLE_WITH_DIFFERENT_PROPERTY", "x"),
        ({"plan": 0, "rowSchema": schema_json(a="integer")}, "DELTA_TABLE_ALREADY_EXISTS", "t"),
    ],
)
def test_an_existing_table_that_disagrees_is_refused(tmp_path, statement, change, condition, named):
    path = tmp_path / "t"
    create_table(create_request(path, schema_json(a="integer")), statement)
    with pytest.raises(HeadwaterError) as refused:
        create_table(create_request(path, **{"schema": schema_json(a="integer"), **change}), statement)
    assert refused.value.condition == condition
    assert named in refused.value.text
    assert open_snapshot(str(path), statement).version == 0


def test_only_a_name_that_the_catalog_has_is_replaced(tmp_path, statement):
    """By name, by path, or at the place that the catalog gives a name; not where a new name is to be."""
    path, schema = tmp_path / "t", schema_json(a="integer")
    create_table(create_request(path, schema), statement)
    replacing = create_request(path, schema_json(b="integer"), mode="create_or_replace", name="d.other")
    rows = {"plan": 0, "rowSchema": schema_json(b="integer")}
    for more, condition in (
        ({}, "DELTA_CREATE_TABLE_SCHEME_MISMATCH"),
        (rows, "DELTA_TABLE_ALREADY_EXISTS"),
        ({**rows, "schema": schema, "rowSchema": schema}, "DELTA_TABLE_ALREADY_EXISTS"),
    ):
        with pytest.raises(HeadwaterError) as refused:
            create_table({**replacing, "known": False, **more}, statement)
        assert refused.value.condition == condition
    create_table({**replacing, "known": False, "schema": schema}, statement)
    assert open_snapshot(str(path), statement).version == 0
    allowed: tuple[dict[str, Any], ...] = ({}, {"known": False, "external": False}, {"name": None})
    for version, change in enumerate(allowed, 1):
        create_table({**replacing, **change}, statement)
        assert open_snapshot(str(path), statement).version == version
    with pytest.raises(HeadwaterError, match="DELTA_SCHEMA_NOT_PROVIDED"):
        create_table({**replacing, "schema": schema_json()}, statement)


@pytest.mark.parametrize(
    ("other", "same"),
    [("t", True), ("link", True), ("./t", True), ("t/", True), ("link/../t", True), ("other", False), ("T", False)],
)
def test_a_location_is_the_table_s_own_in_any_spelling(tmp_path, statement, other, same):
    (tmp_path / "t").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "t")
    check = called("check_same_place")
    for name, condition in (("d.t", "DELTA_TABLE_LOCATION_MISMATCH"), (None, "DELTA_AMBIGUOUS_PATHS_IN_CREATE_TABLE")):
        request = {"table": f"{tmp_path}/t", "other": f"{tmp_path}/{other}", "name": name}
        with nullcontext() if same else pytest.raises(HeadwaterError, match=condition):
            check(request, statement)
    request = {"table": "s3a://bucket/t", "other": f"s3://bucket/{other}", "name": None}
    if other in ("t", "t/"):
        check(request, statement)


def test_what_does_not_follow_from_a_row_is_not_generated(tmp_path, statement):
    request = create_request(tmp_path / "t", schema_json(a="integer", g="integer"))
    with pytest.raises(HeadwaterError, match="DELTA_UNSUPPORTED_EXPRESSION_GENERATED_COLUMN.*now()"):
        create_table({**request, "generated": {"g": "now()"}}, statement)
    create_table({**request, "generated": {"g": "a + 1"}}, statement)


def test_files_of_something_else_are_not_taken_for_a_table(tmp_path, statement):
    (tmp_path / "data.csv").write_text("1,2")
    with pytest.raises(HeadwaterError) as refused:
        create_table(create_request(tmp_path, schema_json(a="integer")), statement)
    assert refused.value.condition == "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION"
    assert "data.csv" in refused.value.text


def test_session_defaults_are_properties_of_new_tables(tmp_path, make_statement):
    statement = make_statement({"spark.databricks.delta.properties.defaults.enableDeletionVectors": "true"})
    create_table(create_request(tmp_path / "t", schema_json(a="integer")), statement)
    table = load_table({"table": str(tmp_path / "t")}, statement)
    assert table["configuration"] == {"delta.enableDeletionVectors": "true"}
    assert "deletionVectors" in table["features"]


def test_column_mapping_gives_ids_and_stores_the_highest(tmp_path, statement):
    path = tmp_path / "t"
    request = create_request(
        path, schema_json(**{"a b": "integer", "c": "string"}), properties={"delta.columnMapping.mode": "name"}
    )
    create_table(request, statement)
    snapshot = open_snapshot(str(path), statement)
    assert [f.metadata["delta.columnMapping.id"] for f in snapshot.schema] == [1, 2]
    assert snapshot.metadata.configuration["delta.columnMapping.maxColumnId"] == "2"
    assert all("delta." not in key for f in json.loads(describe(snapshot).schema)["fields"] for key in f["metadata"])


def test_a_table_that_is_replaced_gives_no_id_a_second_time(tmp_path, statement):
    path, mapped = tmp_path / "t", {"delta.columnMapping.mode": "name"}
    used: set[int] = set()
    for number in range(3):
        schema = schema_json(**{f"c{each}": "integer" for each in range(number + 1)}, a="string")
        create_table(create_request(path, schema, properties=mapped, mode="create_or_replace"), statement)
        snapshot = open_snapshot(str(path), statement)
        ids = {f.metadata["delta.columnMapping.id"] for f in snapshot.schema}
        assert not ids & used
        used |= ids
        assert snapshot.metadata.configuration["delta.columnMapping.maxColumnId"] == str(max(used))


def test_metadata_of_another_tables_columns_stays_behind(tmp_path, statement):
    foreign = {"delta.columnMapping.physicalName": "x", "delta.identity.start": 1, "comment": "kept"}
    create_table(create_request(tmp_path / "t", schema_json(a=("long", foreign))), statement)
    assert open_snapshot(str(tmp_path / "t"), statement).schema.fields[0].metadata == {"comment": "kept"}


def test_clustering_is_a_domain_of_physical_columns(tmp_path, statement):
    path = tmp_path / "t"
    create_table(create_request(path, schema_json(a="integer", b="string"), partitioning=["cluster_by(a)"]), statement)
    domain = actions(path, 0, "domainMetadata")[0]
    assert domain["domain"] == "delta.clustering"
    assert json.loads(domain["configuration"])["clusteringColumns"] == [["a"]]
    assert {"clustering", "domainMetadata"} <= set(actions(path, 0, "protocol")[0]["writerFeatures"])


def test_a_partition_transform_is_refused(tmp_path, statement):
    for transform, condition in (
        ("years(a)", "DELTA_OPERATION_NOT_ALLOWED"),
        ("bucket(2, a)", "DELTA_OPERATION_NOT_ALLOWED_DETAIL"),
    ):
        with pytest.raises(HeadwaterError) as refused:
            create_table(create_request(tmp_path / "t", schema_json(a="date"), partitioning=[transform]), statement)
        assert refused.value.condition == condition
