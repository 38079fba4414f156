"""INSERT and overwrites that lose a race: when they commit all the same, run again, or fail."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.protocol.types import PrimitiveType, StructField, StructType, schema_string
from headwater.schema.identity import identity_columns
from headwater.transaction.queueing import queue_of
from support.commits import later, live, newest, one_row, redefined
from support.requests import actions, create_request, create_table, data_file, schema_json, truncate, write

SCHEMA = schema_json(a="integer", b="string")
MAPPED = {"delta.columnMapping.mode": "name"}


@pytest.fixture
def make_table(tmp_path, statement):
    def make(schema=SCHEMA, **more):
        path = tmp_path / "t"
        create_table(create_request(path, schema, **more), statement)
        return path

    return make


def with_schema(change):
    """Metadata with the fields that ``change`` makes of the table's."""

    def changed(metadata):
        fields = change({f["name"]: f for f in json.loads(metadata.schema_string)["fields"]})
        return replace(metadata, schema_string=json.dumps({"type": "struct", "fields": fields}))

    return changed


def insert(path, statement, schema=SCHEMA, mode="append", reads_table=False, version=0, **options):
    request = {"table": str(path), "name": "t", "version": version, "plan": 0, "schema": schema, "mode": mode}
    return write({**request, "readsTable": reads_table, "options": options}, statement)["version"]


def files(number, low=1, high=5, columns=2):
    statistics = [[low, high, 0], ["x", "y", 0], [1, 1, 0]]
    return [data_file(f"{number}.parquet", 2, statistics[:columns])]


def commented(metadata):
    return replace(metadata, description="text")


def constrained(metadata):
    return replace(metadata, configuration={**metadata.configuration, "delta.constraints.c": "a > 3"})


def test_an_insert_is_not_run_again_for_a_comment(make_table, statement):
    path = make_table()
    statement.written = [files(1)]
    statement.before_commits = [later(path, redefined(commented))]
    assert insert(path, statement) == 2
    assert (len(statement.specifications), len(statement.begun)) == (1, 3)  # one of them created the table


@pytest.mark.parametrize(("low", "runs"), [(4, 1), (1, 2)])
def test_an_insert_runs_again_unless_its_files_meet_a_new_constraint(make_table, statement, low, runs):
    """The second run has the constraint in its query."""
    path = make_table()
    statement.written = [files(1, low), files(2, low)]
    statement.before_commits = [later(path, redefined(constrained))]
    assert insert(path, statement) == 2
    assert live(path) == [f"{runs}.parquet"]
    assert ["raise_row_error" in s["query"] for s in statement.specifications] == [False, True][:runs]
    assert statement.discarded == runs - 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda fields: [fields["a"]], "the column b was dropped"),
        (lambda fields: [fields["a"], {**fields["b"], "name": "c"}], "the column b was renamed to c"),
        (lambda fields: [{**fields["a"], "type": "long"}, fields["b"]], "the type of a was changed from int to bigint"),
    ],
    ids=["drop", "rename", "retype"],
)
def test_an_insert_whose_columns_are_gone_fails_with_what_changed(make_table, statement, change, words):
    path = make_table(properties=MAPPED)
    statement.written = [files(1), files(2)]
    statement.before_commits = [later(path, redefined(with_schema(change)))]
    with pytest.raises(HeadwaterError) as failed:
        insert(path, statement)
    assert failed.value.condition == "DELTA_METADATA_CHANGED"
    assert words in str(failed.value)
    assert len(statement.specifications) == 1
    assert live(path) == []


def test_an_insert_runs_again_when_a_column_that_it_lacks_is_dropped(make_table, statement):
    path = make_table(properties=MAPPED)
    statement.written = [files(1), files(2, columns=1)]
    statement.before_commits = [later(path, redefined(with_schema(lambda fields: [fields["a"]])))]
    assert insert(path, statement, schema_json(a="integer")) == 2
    assert live(path) == ["2.parquet"]


@pytest.mark.parametrize(
    ("columns", "reads_table", "waits"),
    [("a", False, True), ("a", True, False), ("ai", False, False)],
    ids=["numbers rows", "has an old version's rows", "brings the values"],
)
def test_an_insert_that_numbers_rows_waits_for_statements_that_lost(make_table, statement, columns, reads_table, waits):
    """Each such insert makes a MERGE that numbers rows lose, and is the quicker one."""
    identity = [{"column": "i", "start": 1, "step": 1, "allowExplicitInsert": True}]
    path = make_table(schema_json(a="integer", i="long"), identity=identity)
    queue = queue_of(str(path))
    place = queue.take_place(0.1, time.monotonic(), lambda: None)
    lengths = []
    statement.check_cancelled = lambda: queue.give_back(place)
    statement.before_commits.append(lambda: lengths.append(queue.length))
    statement.written = [[data_file("1.parquet", 2, [[1, 5, 0], [1, 2, 0]])]]
    schema = schema_json(**{"a": "integer", "i": "long"} if columns == "ai" else {"a": "integer"})
    insert(path, statement, schema, reads_table=reads_table)
    queue.give_back(place)
    assert lengths == [0 if waits else 1]


def test_identity_values_of_two_inserts_are_never_the_same(make_table, statement):
    identity = [{"column": "i", "start": 10, "step": 5, "allowExplicitInsert": False}]
    path = make_table(schema_json(a="integer", i="long"), identity=identity)
    first, second = ([data_file(f"{n}.parquet", 2, [[1, 5, 0], [n, n + 5, 0]])] for n in (10, 20))
    statement.written = [first, first, second]
    schema = schema_json(a="integer")
    statement.before_commits = [lambda: insert(path, statement, schema)]
    # The insert that begins between the two of the other one wins: its values are 10 and 15.
    assert insert(path, statement, schema) == 2
    queries = [s["query"] for s in statement.specifications]
    assert ["10L +" in query for query in queries] == [True, True, False]
    assert "20L + (5L * monotonically_increasing_id()) AS `i`" in queries[2]
    (column,) = identity_columns(newest(path).schema)
    assert column.high_water_mark == 25


@pytest.mark.parametrize("mode", ["overwrite", "dynamic"])
def test_an_overwrite_that_lost_to_rows_replaces_those_too(make_table, statement, mode):
    path = make_table()
    statement.written = [files(1), files(2)]
    statement.before_commits = [later(path, one_row("theirs"), is_blind=False)]
    assert insert(path, statement, mode=mode) == 2
    assert live(path) == ["2.parquet"]
    assert [a["path"] for a in actions(path, 2, "remove")] == ["theirs"]


def test_an_overwrite_of_what_it_reads_is_not_run_again(make_table, statement):
    path = make_table()
    statement.written = [files(1), files(2)]
    statement.before_commits = [later(path, one_row("theirs"), is_blind=False)]
    with pytest.raises(HeadwaterError, match="DELTA_CONCURRENT_APPEND"):
        insert(path, statement, mode="overwrite", reads_table=True)
    assert live(path) == ["theirs"]
    # Rows that came after the version it was analysed with are not in what it writes.
    with pytest.raises(HeadwaterError, match="DELTA_CONCURRENT_APPEND"):
        insert(path, statement, mode="overwrite", reads_table=True, version=0)
    assert insert(path, statement, mode="overwrite", reads_table=True, version=1) == 2


def test_a_partition_overwritten_from_the_table_depends_on_all_of_it(make_table, statement):
    """Another partition got rows, which might have been among those that the overwrite reads."""
    path = make_table(partitionColumns=["b"])
    for reads_table in (False, True):
        statement.written = [[data_file(f"b=x/{reads_table}.parquet", 2, [[1, 5, 0]], {"b": "x"})]]
        statement.before_commits = [later(path, one_row(f"theirs-{reads_table}", b="theirs"), is_blind=False)]
        if reads_table:
            with pytest.raises(HeadwaterError, match="DELTA_CONCURRENT_APPEND"):
                insert(path, statement, mode="dynamic", reads_table=True, version=2)
        else:
            assert insert(path, statement, mode="dynamic") == 2


def test_an_insert_that_adds_columns_runs_again_after_another_change(make_table, statement):
    path = make_table()
    statement.written = [files(1, columns=3), files(2, columns=3)]
    statement.before_commits = [later(path, redefined(commented))]
    wider = schema_json(a="integer", b="string", c="long")
    assert insert(path, statement, wider, mergeSchema="true") == 2
    assert (newest(path).schema.names, newest(path).metadata.description) == (["a", "b", "c"], "text")
    assert live(path) == ["2.parquet"]


def test_a_truncate_that_lost_to_rows_removes_those_too(make_table, statement):
    path = make_table()
    statement.written = [files(1)]
    insert(path, statement)
    statement.before_commits = [later(path, one_row("theirs"), is_blind=False)]
    truncate({"table": str(path)}, statement)
    assert live(path) == []


def test_without_time_to_run_again_it_fails(make_table, make_statement):
    path = make_table()
    statement = make_statement({"spark.headwater.dml.retrySeconds": "0"})
    statement.written = [files(1)]
    statement.before_commits = [later(path, redefined(constrained))]
    with pytest.raises(HeadwaterError, match="the CHECK constraint c"):
        insert(path, statement)


def test_a_column_that_another_adds_is_null_in_the_rows(make_table, statement):
    path = make_table()
    statement.written = [files(1)]
    column = StructField("new", PrimitiveType("long"))

    def widened(metadata):
        fields = (*newest(path).schema, column)
        return replace(metadata, schema_string=schema_string(StructType(fields)))

    statement.before_commits = [later(path, redefined(widened))]
    assert insert(path, statement) == 2
    assert live(path) == ["1.parquet"]


def test_an_insert_of_rows_of_the_table_is_no_blind_append(make_table, statement):
    """Rows of another's blind append it need not have seen, but rows that another changed."""
    path = make_table()
    statement.written = [files(1), files(2), files(3)]
    statement.before_commits = [later(path, redefined(commented), one_row("theirs"))]
    assert insert(path, statement, reads_table=True) == 2
    assert actions(path, 2, "commitInfo")[0]["isBlindAppend"] is False
    statement.before_commits = [later(path, redefined(commented), one_row("more"), is_blind=False)]
    with pytest.raises(HeadwaterError, match="DELTA_CONCURRENT_APPEND"):
        insert(path, statement, reads_table=True, version=2)
    assert live(path) == ["1.parquet", "more", "theirs"]
    assert len(statement.specifications) == 2


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_rows_of_unknown_origin_replace_nothing_that_came_since(make_table, statement, mode):
    path = make_table()
    statement.written = [files(1), files(2)]
    statement.before_commits = [later(path, redefined(constrained), one_row("theirs"), is_blind=False)]
    request = {"table": str(path), "name": "t", "version": 0, "plan": 0, "schema": SCHEMA, "mode": mode, "options": {}}
    if mode == "append":
        write({**request, "rowsAreFixed": True}, statement)
        assert live(path) == ["2.parquet", "theirs"]
    else:
        with pytest.raises(HeadwaterError, match="DELTA_METADATA_CHANGED"):
            write({**request, "rowsAreFixed": True}, statement)
        assert live(path) == ["theirs"]
