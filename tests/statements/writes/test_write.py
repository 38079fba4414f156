import json

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.protocol.types import parse_schema
from headwater.statements.running.opening import open_snapshot
from support.requests import (
    actions,
    create_request,
    create_table,
    data_file,
    plan_save,
    recover_commit,
    resolve_write,
    schema_json,
    truncate,
    write,
)

SCHEMA = schema_json(a="integer", p="string")


@pytest.fixture
def table(tmp_path, statement):
    """A partitioned table with a file in each of three partitions."""
    path = tmp_path / "t"
    create_table(create_request(path, SCHEMA, partitionColumns=["p"]), statement)
    statement.written = [
        [
            data_file("p=x/one.parquet", 2, [[1, 5, 0]], {"p": "x"}),
            data_file("p=y/two.parquet", 1, [[7, 7, 0]], {"p": "y"}),
            data_file("p=__HIVE_DEFAULT_PARTITION__/three.parquet", 1, [[9, 9, 0]], {"p": None}),
        ]
    ]
    insert(path, statement)
    return path


def request_of(path, schema=SCHEMA, mode="append", **options):
    return {
        "table": str(path),
        "name": "t",
        "plan": 0,
        "schema": schema,
        "mode": mode,
        "options": options,
    }


def insert(path, statement, schema=SCHEMA, mode="append", **options):
    return write(request_of(path, schema, mode, **options), statement)


def resolve(path, statement, schema, by_name=True, **options):
    version = open_snapshot(str(path), statement).version
    request = {"table": str(path), "name": "t", "version": version, "schema": schema, "byName": by_name}
    return parse_schema(resolve_write({**request, "options": options}, statement)["schema"])


def live(path, statement):
    return sorted(open_snapshot(str(path), statement).files["path"].to_pylist())


def test_an_append_adds_and_says_so_before_it_commits(table, statement):
    adds = actions(table, 1, "add")
    assert [a["partitionValues"] for a in adds] == [{"p": "x"}, {"p": "y"}, {"p": None}]
    info = actions(table, 1, "commitInfo")[0]
    assert info["operation"] == "WRITE"
    assert info["operationParameters"] == {"mode": "Append", "partitionBy": '["p"]'}
    assert info["operationMetrics"] == {"numFiles": "3", "numOutputRows": "4", "numOutputBytes": "300"}
    assert info["isBlindAppend"] is True
    path = str(table / "_delta_log" / f"{1:020d}.json")
    assert {"version": 1, "txnId": info["txnId"], "table": str(table), "path": path} in statement.begun


def test_an_overwrite_replaces_every_file(table, statement):
    statement.written = [[data_file("p=x/new.parquet", 1, [[1, 1, 0]], {"p": "x"})]]
    insert(table, statement, mode="overwrite")
    assert live(table, statement) == ["p=x/new.parquet"]
    assert actions(table, 2, "commitInfo")[0]["operationMetrics"]["numRemovedFiles"] == "3"


def test_a_dynamic_overwrite_replaces_the_partitions_it_writes(table, statement):
    statement.written = [
        [
            data_file("p=x/new.parquet", 1, [[1, 1, 0]], {"p": "x"}),
            data_file("p=__HIVE_DEFAULT_PARTITION__/new.parquet", 1, [[1, 1, 0]], {"p": None}),
        ]
    ]
    insert(table, statement, mode="dynamic")
    assert live(table, statement) == [
        "p=__HIVE_DEFAULT_PARTITION__/new.parquet",
        "p=x/new.parquet",
        "p=y/two.parquet",
    ]


def test_a_dynamic_overwrite_of_no_rows_replaces_nothing(table, statement):
    before = live(table, statement)
    insert(table, statement, mode="dynamic")
    assert live(table, statement) == before


def test_replace_where_over_partitions_rewrites_nothing(table, statement):
    statement.written = [[data_file("p=x/new.parquet", 1, [[1, 1, 0]], {"p": "x"})]]
    insert(table, statement, mode="overwrite", replaceWhere="p = 'x'")
    assert live(table, statement) == [
        "p=__HIVE_DEFAULT_PARTITION__/three.parquet",
        "p=x/new.parquet",
        "p=y/two.parquet",
    ]
    assert statement.relations == []
    assert actions(table, 2, "commitInfo")[0]["operationParameters"]["predicate"] == "p = 'x'"


def test_replace_where_keeps_the_other_rows_of_a_file(table, statement):
    statement.written = [
        [data_file("p=x/new.parquet", 1, [[2, 2, 0]], {"p": "x"})],
        [data_file("p=x/kept.parquet", 1, [[5, 5, 0]], {"p": "x"})],
    ]
    insert(table, statement, mode="overwrite", replaceWhere="a < 3")
    assert "p=x/one.parquet" not in live(table, statement)
    assert {"p=x/new.parquet", "p=x/kept.parquet", "p=y/two.parquet"} <= set(live(table, statement))
    assert len(statement.relations) == 1
    kept = statement.placed.index("a < 3")
    assert f"NOT coalesce(hw_expr.`{kept}`, false)" in statement.specifications[-1]["query"]


def test_rows_of_replace_where_are_checked(table, statement):
    insert(table, statement, mode="overwrite", replaceWhere="p = 'x'")
    assert "DELTA_REPLACE_WHERE_MISMATCH" in statement.specifications[-1]["query"]


@pytest.mark.parametrize(
    ("mode", "options", "condition"),
    [
        ("append", {"replaceWhere": "p = 'x'"}, "DELTA_REPLACE_WHERE_IN_APPEND"),
        (
            "overwrite",
            {"replaceWhere": "p = 'x'", "partitionOverwriteMode": "dynamic"},
            "DELTA_REPLACE_WHERE_WITH_DYNAMIC_PARTITION_OVERWRITE",
        ),
        ("overwrite", {"partitionOverwriteMode": "sometimes"}, "DELTA_ILLEGAL_OPTION"),
        ("append", {"mergeSchema": "maybe"}, "DELTA_ILLEGAL_OPTION"),
        ("append", {"txnAppId": "app"}, "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS"),
        ("append", {"txnAppId": "app", "txnVersion": "one"}, "DELTA_ILLEGAL_OPTION"),
    ],
)
def test_options_that_contradict_are_refused(table, statement, mode, options, condition):
    with pytest.raises(HeadwaterError) as refused:
        insert(table, statement, mode=mode, **options)
    assert refused.value.condition == condition
    assert open_snapshot(str(table), statement).version == 1


def test_an_idempotent_write_happens_once(table, statement):
    once = {"txnAppId": "app", "txnVersion": "3"}
    assert insert(table, statement, **once)["version"] == 2
    assert insert(table, statement, **once)["skipped"]
    assert insert(table, statement, txnAppId="app", txnVersion="2")["skipped"]
    assert insert(table, statement, txnAppId="app", txnVersion="4")["version"] == 3


def test_unknown_columns_are_refused_and_the_way_out_is_named(table, statement):
    with pytest.raises(HeadwaterError) as refused:
        resolve(table, statement, schema_json(a="integer", p="string", extra="string"))
    assert refused.value.condition == "DELTA_METADATA_MISMATCH"
    assert "extra" in refused.value.text
    assert "mergeSchema" in refused.value.text


def test_merge_schema_adds_columns_behind_the_tables(table, statement):
    resolved = resolve(table, statement, schema_json(extra="string", a="integer"), mergeSchema="true")
    assert resolved.names == ["a", "p", "extra"]
    statement.written = [[]]
    insert(table, statement, schema_json(a="integer", p="string", extra="string"), mergeSchema="true")
    assert open_snapshot(str(table), statement).schema.names == ["a", "p", "extra"]


def test_auto_merge_of_the_session_does_the_same(table, make_statement):
    statement = make_statement({"spark.databricks.delta.schema.autoMerge.enabled": "true"})
    assert resolve(table, statement, schema_json(a="integer", p="string", b="long")).names == ["a", "p", "b"]


def test_by_position_extra_columns_keep_their_names_when_merging(table, statement):
    data = schema_json(x="integer", y="string", z="long")
    assert resolve(table, statement, data, by_name=False, mergeSchema="true").names == ["a", "p", "z"]


def test_computed_columns_may_be_left_out(tmp_path, statement):
    path = tmp_path / "t"
    request = create_request(
        path,
        schema_json(a="integer", g="integer", i="long"),
        generated={"g": "a + 1"},
        identity=[{"column": "i", "start": 10, "step": 5, "allowExplicitInsert": False}],
    )
    create_table(request, statement)
    assert resolve(path, statement, schema_json(a="integer")).names == ["a"]
    with pytest.raises(HeadwaterError) as refused:
        resolve(path, statement, schema_json(a="integer", i="long"))
    assert refused.value.condition == "DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED"
    statement.written = [[data_file("f.parquet", 3, [[1, 3, 0], [2, 4, 0], [10, 20, 0]])]]
    insert(path, statement, schema_json(a="integer"))
    query = statement.specifications[-1]["query"]
    assert statement.placed == ["a + 1"]
    assert "CAST(hw_expr.`0` AS int) AS `g`" in query
    assert "10L + (5L * monotonically_increasing_id()) AS `i`" in query
    identity = open_snapshot(str(path), statement).schema.find("i")
    assert identity.metadata["delta.identity.highWaterMark"] == 20


def test_constraints_are_part_of_the_query_and_show_the_row(tmp_path, statement):
    path = tmp_path / "t"
    constraint = {"kind": "check", "name": "positive", "expression": "a > 0"}
    create_table(create_request(path, schema_json(a="integer"), constraints=[constraint]), statement)
    insert(path, statement, schema_json(a="integer"))
    query = statement.specifications[-1]["query"]
    assert statement.placed == ["a > 0"]
    assert "CASE WHEN hw_expr.`0` THEN true ELSE raise_row_error('DELTA_VIOLATE_CONSTRAINT_WITH_VALUES'" in query
    assert "coalesce(CAST(`a` AS string), 'null')" in query


def test_column_mapping_writes_physical_names_and_ids(tmp_path, statement):
    path = tmp_path / "t"
    request = create_request(
        path,
        schema_json(**{"a b": "integer", "p q": "string"}),
        partitionColumns=["p q"],
        properties={"delta.columnMapping.mode": "id"},
    )
    create_table(request, statement)
    schema = open_snapshot(str(path), statement).schema
    insert(path, statement, schema_json(**{"a b": "integer", "p q": "string"}))
    specification = statement.specifications[-1]
    written = parse_schema(specification["schema"])
    assert written.names == [f.physical_name for f in schema]
    assert [f.metadata for f in written] == [{"parquet.field.id": 1}, {"parquet.field.id": 2}]
    assert specification["partitionBy"] == [schema.fields[1].physical_name]


def test_timestamps_in_partitions_are_unambiguous(tmp_path, statement):
    path = tmp_path / "t"
    create_table(create_request(path, schema_json(a="integer", ts="timestamp"), partitionColumns=["ts"]), statement)
    statement.written = [[data_file("ts=1/f.parquet", 1, [[1, 1, 0]], {"ts": "2024-01-02 03:04:05.5"})]]
    insert(path, statement, schema_json(a="integer", ts="timestamp"))
    assert actions(path, 1, "add")[0]["partitionValues"] == {"ts": "2024-01-02T03:04:05.500000Z"}
    assert statement.specifications[-1]["options"]["timeZone"] == "UTC"


@pytest.mark.parametrize(
    ("mode", "options", "expected"),
    [
        ("Append", {}, {"action": "write", "write": "append"}),
        ("Overwrite", {}, {"action": "write", "write": "overwrite"}),
        ("Overwrite", {"overwriteSchema": "true"}, {"action": "create", "mode": "replace"}),
        ("Ignore", {}, {"action": "skip"}),
    ],
)
def test_a_save_knows_what_it_does_to_a_table(table, statement, mode, options, expected):
    request = {"table": str(table), "mode": mode, "partitionColumns": [], "options": options}
    assert plan_save(request, statement) == expected


@pytest.mark.parametrize(
    ("mode", "partitioning", "options", "condition"),
    [
        ("ErrorIfExists", [], {}, "DELTA_PATH_EXISTS"),
        ("Append", ["a"], {}, "DELTA_METADATA_MISMATCH"),
        ("Append", [], {"replaceWhere": "p = 'x'"}, "DELTA_REPLACE_WHERE_IN_APPEND"),
        (
            "Overwrite",
            [],
            {"overwriteSchema": "true", "replaceWhere": "p = 'x'"},
            "DELTA_OVERWRITE_SCHEMA_WITH_DYNAMIC_PARTITION_OVERWRITE",
        ),
    ],
)
def test_a_save_that_cannot_be_is_refused(table, statement, mode, partitioning, options, condition):
    request = {"table": str(table), "mode": mode, "partitionColumns": partitioning, "options": options}
    with pytest.raises(HeadwaterError) as refused:
        plan_save(request, statement)
    assert refused.value.condition == condition


def test_a_save_to_a_new_path_creates(tmp_path, statement):
    request = {"table": str(tmp_path / "new"), "mode": "Append", "partitionColumns": [], "options": {}}
    assert plan_save(request, statement) == {"action": "create", "mode": "create"}


def test_truncate_removes_every_file_once(table, statement):
    truncate({"table": str(table)}, statement)
    assert live(table, statement) == []
    assert truncate({"table": str(table)}, statement) == {"version": 2}


def test_a_truncate_of_a_version_that_the_session_names_runs_once(tmp_path, make_statement):
    confs = {"spark.databricks.delta.write.txnAppId": "app", "spark.databricks.delta.write.txnVersion": "4"}
    once, statement = make_statement(confs), make_statement()
    path = tmp_path / "t"
    create_table(create_request(path, schema_json(a="integer")), statement)

    def fill(name):
        statement.written = [[data_file(name, 2, [[1, 5, 0]])]]
        request = {"table": str(path), "name": "t", "version": 0, "plan": 0, "schema": schema_json(a="integer")}
        write({**request, "mode": "append", "readsTable": False, "options": {}}, statement)

    fill("1.parquet")
    assert truncate({"table": str(path)}, once)["version"] == 2
    fill("2.parquet")
    assert truncate({"table": str(path)}, once)["version"] == 3
    assert [a["path"] for a in actions(path, 3, "add")] == ["2.parquet"]


def test_a_table_made_anew_meanwhile_is_not_written_to(table, statement):
    with pytest.raises(HeadwaterError) as refused:
        write({**request_of(table), "tableId": "another"}, statement)
    assert refused.value.condition == "DELTA_TABLE_ID_MISMATCH"


def test_a_table_with_an_unknown_writer_feature_is_read_but_not_written(table, statement):
    protocol = {
        "protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["appendOnly", "fromTheFuture"]}
    }
    (table / "_delta_log" / f"{2:020d}.json").write_text(json.dumps(protocol) + "\n")
    assert open_snapshot(str(table), statement).num_files == 3
    with pytest.raises(HeadwaterError) as refused:
        insert(table, statement)
    assert refused.value.condition == "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE"
    assert "fromTheFuture" in refused.value.text


def test_append_only_tables_are_not_overwritten(tmp_path, statement):
    path = tmp_path / "t"
    create_table(create_request(path, schema_json(a="integer"), properties={"delta.appendOnly": "true"}), statement)
    statement.written = [[data_file("f.parquet", 1, [[1, 1, 0]])]]
    insert(path, statement, schema_json(a="integer"))
    with pytest.raises(HeadwaterError) as refused:
        insert(path, statement, schema_json(a="integer"), mode="overwrite")
    assert refused.value.condition == "DELTA_CANNOT_MODIFY_APPEND_ONLY"


def test_the_session_s_version_is_used_once_where_it_asks_for_it(table, make_statement):
    """By the write that commits it, and by one that finds it committed; not by other statements, nor an option."""
    prefix = "spark.databricks.delta.write."
    numbered = {f"{prefix}txnAppId": "app", f"{prefix}txnVersion": "7"}

    def write_once(confs, **options):
        statement = make_statement(confs)
        statement.written = [[data_file(f"p=x/{len(confs)}-{len(options)}.parquet", 1, [[1, 1, 0]], {"p": "x"})]]
        return insert(table, statement, **options), statement.unset

    resets = {**numbered, f"{prefix}txnVersion.autoReset.enabled": "true"}
    answer, unset = write_once(resets)
    assert (answer.get("skipped", False), unset) == (False, [f"{prefix}txnVersion"])
    answer, unset = write_once(resets)
    assert (answer["skipped"], unset) == (True, [f"{prefix}txnVersion"])
    assert write_once(numbered)[1] == []
    assert write_once(resets, txnAppId="other", txnVersion="1")[1] == []
    statement = make_statement(resets)
    recovered = {"table": str(table), "version": 1, "path": f"{table}/_delta_log/{2:020d}.json"}
    commit = {**recovered, "txnId": actions(table, 2, "commitInfo")[0]["txnId"]}
    recover_commit({"commit": commit}, statement)
    assert statement.unset == [f"{prefix}txnVersion"]
