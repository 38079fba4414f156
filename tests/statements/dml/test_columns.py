"""DELETE, UPDATE and MERGE of a table that got other columns after the statement was analysed: refused, whole."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.statements.running.opening import open_snapshot
from support.commits import commit, newest
from support.predicate_text import tree
from support.requests import create_request, create_table, data_file, delete, merge, schema_json, update

THEN = {"a": "integer", "b": "string"}


@pytest.fixture
def table(tmp_path, statement):
    path = tmp_path / "t"
    create_table(create_request(path, schema_json(**THEN)), statement)
    return path


def with_schema(path, text):
    """Another writer's new schema."""
    commit(path, replace(newest(path).metadata, schema_string=text))


def request_of(path, statement):
    snapshot = open_snapshot(str(path), statement)
    clause = {"kind": "update", "condition": None, "conditionText": None, "values": [2, 3], "assigned": ["b"]}
    return {
        "table": str(path),
        "name": "t",
        "version": snapshot.version,
        "tableId": snapshot.metadata.id,
        "tableSchema": snapshot.metadata.schema_string,
        "target": 0,
        "columns": [0, 1],
        "source": 1,
        "sourceColumns": [4, 5],
        "sourceNames": ["k", "v"],
        "sourceDeterministic": True,
        "sourceBytes": None,
        "sourceIsScan": False,
        "conditionDeterministic": True,
        "runsPython": False,
        "condition": 6,
        "conditionText": "a = 1",
        "conditionColumns": [],
        "conjuncts": [{"target": tree("a = 1")}],
        "matched": [clause],
        "notMatched": [],
        "notMatchedBySource": [],
        "readsTargetElsewhere": False,
    }


@pytest.mark.parametrize(
    "now",
    [
        schema_json(**THEN, c="long"),
        schema_json(c="long", **THEN),
        schema_json(b="string", a="integer"),
    ],
    ids=["one more", "one more, first", "another order"],
)
@pytest.mark.parametrize("handler", [delete, update, merge])
def test_other_columns_than_it_was_analysed_with(table, statement, handler, now):
    statement.written = [[data_file("f.parquet", 1, [[1, 1, 0], [None, None, 0]])]]
    request = request_of(table, statement)
    with_schema(table, now)
    with pytest.raises(HeadwaterError) as refused:
        handler(request, statement)
    assert refused.value.condition == "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS"
    assert statement.specifications == []
    assert open_snapshot(str(table), statement).version == 1


def test_a_comment_is_no_other_column(table, statement):
    request = request_of(table, statement)
    with_schema(table, schema_json(a=("integer", {"comment": "a number"}), b="string"))
    assert update(request, statement)["counts"] == [0]
