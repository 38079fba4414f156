"""Micro-batches without Spark: which are skipped, what a lost race does, which settings are refused."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.protocol.actions import SetTransaction
from headwater.protocol.clustering import clustering_domain
from headwater.statements.running.committing import removals
from headwater.transaction.queueing import queue_of
from support.commits import later, live, newest, one_row, redefined
from support.requests import actions, called, create_request, create_table, data_file, schema_json

check_sink, plan_batch, write_batch = map(called, ("check_sink", "plan_batch", "write_batch"))
SCHEMA = schema_json(a="integer", b="string")


def sink(path, mode="Append", partition=(), cluster=None, **options):
    return {
        "table": str(path),
        "mode": mode,
        "partitionColumns": list(partition),
        "clusteringColumns": cluster,
        "options": options,
    }


def batch(path, number=0, schema=SCHEMA, query="q", **settings):
    return {"sink": sink(path, **settings), "queryId": query, "batchId": number, "schema": schema}


def write(path, statement, number=0, reads_table=False, **settings):
    """Plan and write a batch, as Spark's side does."""
    asked = batch(path, number, **settings)
    plan = plan_batch({"batch": asked}, statement)
    if plan.get("skipped"):
        return None
    request = {
        "batch": asked,
        "plan": 0,
        "schema": plan.get("columns", asked["schema"]),
        "version": plan.get("version"),
        "tableId": plan.get("tableId"),
        "readsTable": reads_table,
    }
    return write_batch(request, statement)


def files(name, low=1, high=5):
    return [data_file(f"{name}.parquet", 2, [[low, high, 0], ["x", "y", 0]])]


@pytest.fixture
def table(tmp_path, statement):
    path = tmp_path / "t"
    create_table(create_request(path, SCHEMA), statement)
    return path


@pytest.mark.parametrize("numbers", [True, False])
def test_a_batch_that_numbers_rows_waits_for_statements_that_lost(tmp_path, statement, numbers):
    path = tmp_path / "t"
    columns = {"a": "integer", "b": "string", "i": "long"} if numbers else {"a": "integer", "b": "string"}
    identity = [{"column": "i", "start": 1, "step": 1, "allowExplicitInsert": False}] if numbers else []
    create_table(create_request(path, schema_json(**columns), identity=identity), statement)
    queue = queue_of(str(path))
    place = queue.take_place(0.1, time.monotonic(), lambda: None)
    lengths = []
    statement.check_cancelled = lambda: queue.give_back(place)
    statement.before_commits.append(lambda: lengths.append(queue.length))
    statement.written = [[data_file("1.parquet", 2, [[1, 5, 0], ["x", "y", 0], [1, 2, 0]][: len(columns)])]]
    write(path, statement)
    queue.give_back(place)
    assert lengths == [0 if numbers else 1]


def all_removed(snapshot):
    return removals(snapshot.files)


def constrained(metadata):
    return replace(metadata, configuration={**metadata.configuration, "delta.constraints.c": "a > 3"})


def without_b(metadata):
    fields = [f for f in json.loads(metadata.schema_string)["fields"] if f["name"] != "b"]
    return replace(metadata, schema_string=json.dumps({"type": "struct", "fields": fields}))


def test_a_batch_is_there_once(table, statement):
    statement.written = [files("one")]
    assert write(table, statement, 3)["version"] == 1
    assert actions(table, 1, "txn")[0].items() >= {"appId": "q", "version": 3}.items()
    assert write(table, statement, 3) is None
    assert write(table, statement, 2) is None
    assert len(statement.specifications) == 1
    assert write(table, statement, 3, query="another")["version"] == 2


def test_the_first_batch_creates_the_table(tmp_path, statement):
    path = tmp_path / "new"
    statement.written = [files("one")]
    assert write(path, statement, cluster=["a"])["version"] == 0
    assert actions(path, 0, "domainMetadata")[0]["domain"] == "delta.clustering"
    assert actions(path, 0, "commitInfo")[0]["operation"] == "STREAMING UPDATE"
    assert write(path, statement, cluster=["a"]) is None


def test_settings_of_idempotent_writes_do_not_count(table, make_statement):
    confs = {"spark.databricks.delta.write.txnAppId": "app", "spark.databricks.delta.write.txnVersion": "1"}
    statement = make_statement(confs)
    write(table, statement, 0)
    write(table, statement, 1)
    assert [actions(table, version, "txn")[0]["appId"] for version in (1, 2)] == ["q", "q"]


def test_an_append_that_lost_is_committed_as_it_is(table, statement):
    statement.written = [files("mine")]
    statement.before_commits = [
        later(table, one_row("theirs")),
        later(table, redefined(lambda m: replace(m, description="d"))),
    ]
    assert write(table, statement)["version"] == 3
    assert len(statement.specifications) == 1
    assert actions(table, 3, "commitInfo")[0]["isBlindAppend"] is True
    assert live(table) == ["mine.parquet", "theirs"]


def test_a_complete_batch_that_lost_keeps_its_files(table, statement):
    statement.written = [files("first")]
    write(table, statement, mode="Complete")
    statement.written = [files("second")]
    statement.before_commits = [later(table, all_removed, one_row("theirs"), is_blind=False)]
    assert write(table, statement, 1, mode="Complete")["version"] == 3
    assert len(statement.specifications) == 2
    assert statement.discarded == 0
    assert live(table) == ["second.parquet"]
    assert [r["path"] for r in actions(table, 3, "remove")] == ["theirs"]


@pytest.mark.parametrize("before", [["cluster_by(a)"], ["cluster_by()"]])
def test_a_batch_that_lost_leaves_clustering_columns_as_they_are_now(tmp_path, statement, before):
    path = tmp_path / "clustered"
    create_table(create_request(path, SCHEMA, partitioning=before), statement)
    statement.written = [files("first")]
    write(path, statement, mode="Complete")
    statement.written = [files("second")]
    clustered = clustering_domain([("b",)])
    statement.before_commits = [later(path, all_removed, one_row("theirs"), clustered, is_blind=False)]
    write(path, statement, 1, mode="Complete")
    assert len(statement.specifications) == 2
    assert newest(path).clustering_columns == (("b",),)


def test_new_columns_of_a_batch_that_lost_keep_the_names_its_files_have(tmp_path, statement):
    path = tmp_path / "mapped"
    create_table(create_request(path, SCHEMA, properties={"delta.columnMapping.mode": "name"}), statement)
    statement.written = [files("first")]
    write(path, statement, mode="Complete")
    statement.written = [[data_file("second.parquet", 2, [[1, 5, 0], ["x", "y", 0], [1, 2, 0]])]]
    statement.before_commits = [later(path, all_removed, one_row("theirs"), is_blind=False)]
    wider = schema_json(a="integer", b="string", c="integer")
    write(path, statement, 1, mode="Complete", schema=wider, mergeSchema="true")
    assert statement.discarded == 0
    written = json.loads(statement.specifications[-1]["schema"])["fields"]
    assert newest(path).schema.find("c").physical_name == written[2]["name"]


def test_a_batch_that_lost_brings_the_features_of_its_columns(table, statement):
    statement.written = [files("first")]
    write(table, statement, mode="Complete")
    statement.written = [[data_file("mine.parquet", 2, [[1, 5, 0], ["x", "y", 0], [None, None, 0]])]]
    statement.before_commits = [later(table, all_removed, one_row("theirs"), is_blind=False)]
    wider = schema_json(a="integer", b="string", v="variant")
    write(table, statement, 1, mode="Complete", schema=wider, mergeSchema="true")
    assert len(statement.specifications) == 2
    assert newest(table).definition.supports("variantType")


def test_columns_that_the_rows_never_had_may_go_away(table, statement):
    statement.written = [files("lost"), [data_file("mine.parquet", 2, [[1, 5, 0]])]]
    statement.before_commits = [later(table, redefined(without_b))]
    assert write(table, statement, schema=schema_json(a="integer"))["version"] == 2
    assert live(table) == ["mine.parquet"]
    # The plan of the rows still has the column.
    assert [job["query"] for job in statement.specifications] == ["TABLE hw_plan.`0`", "SELECT `a`\nFROM hw_plan.`0`"]


def test_files_of_a_run_that_was_killed_do_not_matter(tmp_path, statement):
    path = tmp_path / "new"
    path.mkdir()
    (path / "part-00000-killed.parquet").write_bytes(b"PAR1")
    statement.written = [files("one")]
    assert write(path, statement)["version"] == 0
    assert live(path) == ["one.parquet"]


def test_a_new_constraint_is_checked(table, statement):
    statement.written = [files("unproven", low=1), files("checked", low=4)]
    statement.before_commits = [later(table, redefined(constrained))]
    assert write(table, statement)["version"] == 2
    assert len(statement.specifications) == 2
    assert statement.discarded == 1
    assert live(table) == ["checked.parquet"]


def test_a_dropped_column_ends_the_batch(table, statement):
    statement.written = [files("mine")]
    statement.before_commits = [later(table, redefined(without_b))]
    with pytest.raises(HeadwaterError, match="b") as caught:
        write(table, statement)
    assert caught.value.condition == "DELTA_METADATA_CHANGED"
    assert len(statement.specifications) == 1
    assert (newest(table).version, live(table)) == (1, [])


def test_rows_of_the_table_itself_are_no_blind_append(table, statement):
    statement.written = [files("mine")]
    assert write(table, statement, reads_table=True)["version"] == 1
    assert not actions(table, 1, "commitInfo")[0]["isBlindAppend"]
    statement.written = [files("more")]
    statement.before_commits = [later(table, one_row("theirs"), is_blind=False)]
    with pytest.raises(HeadwaterError) as caught:
        write(table, statement, 1, reads_table=True)
    assert caught.value.condition == "DELTA_CONCURRENT_APPEND"
    assert live(table) == ["mine.parquet", "theirs"]


def test_the_same_batch_of_a_run_that_was_stopped(table, statement):
    """It commits while the next run of the query commits it, too."""
    statement.written = [files("mine")]
    statement.before_commits = [later(table, one_row("theirs"), SetTransaction("q", 0))]
    assert write(table, statement)["skipped"] is True
    assert statement.discarded == 1
    assert live(table) == ["theirs"]
    statement.written = [files("mine")]
    statement.before_commits = [later(table, SetTransaction("q", 1))]
    with pytest.raises(HeadwaterError) as caught:
        write(table, statement, 2)
    assert caught.value.condition == "DELTA_CONCURRENT_TRANSACTION"


@pytest.mark.parametrize(
    ("settings", "condition"),
    [
        ({"mode": "Update"}, "DELTA_UNSUPPORTED_OUTPUT_MODE"),
        ({"mergeShema": "true"}, "HEADWATER_UNKNOWN_OPTION"),
        ({"txnVersion": "1"}, "HEADWATER_NOT_FOR_STREAMS"),
        ({"versionAsOf": "1"}, "DELTA_TIME_TRAVEL_WRITE_NOT_ALLOWED"),
        ({"overwriteSchema": "true"}, "DELTA_ILLEGAL_OPTION"),
        ({"partition": ["a"]}, "DELTA_METADATA_MISMATCH"),
        ({"cluster": ["a"]}, "DELTA_CLUSTERING_COLUMNS_MISMATCH"),
    ],
)
def test_settings_that_are_refused(table, statement, settings, condition):
    with pytest.raises(HeadwaterError) as caught:
        check_sink({"sink": sink(table, **settings)}, statement)
    assert caught.value.condition == condition


def test_settings_that_are_taken(table, statement):
    known = {
        "MERGESCHEMA": "true",
        "checkpointLocation": "/c",
        "maxFilesPerTrigger": "1",
        "parquet.block.size": "1",
        "unset": None,
    }
    check_sink({"sink": {**sink(table), "options": {**known, "path": str(table)}}}, statement)


def test_void_columns_are_refused_at_any_depth(table, statement):
    schema = schema_json(a={"type": "array", "elementType": "void", "containsNull": True})
    with pytest.raises(HeadwaterError) as caught:
        plan_batch({"batch": batch(table, schema=schema)}, statement)
    assert caught.value.condition == "DELTA_NULL_SCHEMA_IN_STREAMING_WRITE"
