"""ALTER TABLE that loses a race: it is applied again, or says what both changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.protocol.actions import AddFile
from support.commits import commit, later, newest, one_row
from support.requests import actions, alter_table, create_request, create_table, data_file, schema_json


@pytest.fixture
def table(tmp_path, statement):
    path = tmp_path / "t"
    create_table(create_request(path, schema_json(a="integer", b="string"), properties={"k": "0"}), statement)
    return path


def alter(path, statement, *changes):
    alter_table({"table": str(path), "name": "t", "changes": list(changes)}, statement)
    return newest(path)


def prop(key, value):
    return {"kind": "set_property", "key": key, "value": value}


def column(name, kind='"string"'):
    return {"kind": "add_column", "path": [name], "type": kind, "nullable": True}


def comment(name, text):
    return {"kind": "column_comment", "path": [name], "comment": text}


def check(name, sql):
    return {"kind": "add_constraint", "constraint": {"kind": "check", "name": name, "expression": sql}}


@pytest.mark.parametrize(
    "change", [prop("k", "1"), column("c"), comment("a", "x"), {"kind": "cluster_by", "columns": [["a"]]}]
)
def test_an_append_meanwhile_is_no_reason_to_begin_again(table, statement, change):
    statement.before_commits = [later(table, one_row("theirs"))]
    alter(table, statement, change)
    assert len(statement.begun) == 3  # CREATE TABLE, and the ALTER for both versions
    assert statement.discarded == 0
    assert newest(table).version == 2


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (prop("k", "1"), prop("l", "1")),
        (prop("k", "1"), prop("k", "1")),
        (prop("k", "1"), column("c")),
        (column("c"), column("d")),
        (comment("a", "mine"), comment("b", "theirs")),
        (check("x", "a > 0"), check("y", "a > 1")),
        (prop("delta.columnMapping.mode", "name"), column("c")),
        (column("c"), prop("delta.columnMapping.mode", "name")),
        ({"kind": "cluster_by", "columns": [["a"]]}, comment("a", "x")),
    ],
)
def test_two_alters_of_different_things_both_count(table, statement, make_statement, mine, theirs):
    other = make_statement()
    statement.before_commits = [lambda: alter(table, other, theirs)]
    after = alter(table, statement, mine)
    configuration = after.metadata.configuration
    for change in (mine, theirs):
        match change["kind"]:
            case "set_property":
                assert configuration[change["key"]] == change["value"]
            case "add_column":
                assert after.schema.find(change["path"][0]) is not None
            case "column_comment":
                assert after.schema.find(change["path"][0]).comment == change["comment"]
            case "add_constraint":
                assert f"delta.constraints.{change['constraint']['name']}" in configuration
            case "cluster_by":
                assert '["a"]' in after.domain_metadata["delta.clustering"].configuration


@pytest.mark.parametrize(
    ("mine", "theirs", "condition", "thing"),
    [
        (prop("k", "1"), prop("k", "2"), "DELTA_METADATA_CHANGED", "property k"),
        (prop("comment", "1"), prop("comment", "2"), "DELTA_METADATA_CHANGED", "comment"),
        (comment("a", "1"), comment("a", "2"), "DELTA_METADATA_CHANGED", "column a (comment)"),
        (
            {"kind": "cluster_by", "columns": [["a"]]},
            {"kind": "cluster_by", "columns": [["b"]]},
            "DELTA_METADATA_CHANGED",
            "domain delta.clustering",
        ),
        (column("c"), column("C"), "DELTA_ADD_COLUMN_EXISTS", "c"),
        (check("x", "a > 0"), check("x", "a > 1"), "DELTA_CONSTRAINT_ALREADY_EXISTS", "x"),
    ],
)
def test_two_alters_of_one_thing(table, statement, make_statement, mine, theirs, condition, thing):
    other = make_statement()
    statement.before_commits = [lambda: alter(table, other, theirs)]
    with pytest.raises(HeadwaterError, match=thing.replace("(", r"\(").replace(")", r"\)")) as raised:
        alter(table, statement, mine)
    assert raised.value.condition == condition
    assert newest(table).version == 1


def test_a_constraint_that_loses_to_data_looks_at_what_was_added(table, statement, monkeypatch):
    looked: list[Any] = []
    statement.query = looked.append
    stats = '{"numRecords":1,"minValues":{"a":1},"maxValues":{"a":9},"nullCount":{"a":0}}'
    commit(table, replace(one_row("proven.parquet"), stats=stats))
    commit(table, one_row("unproven.parquet"))
    statement.before_commits = [later(table, one_row("theirs.parquet"))]
    alter(table, statement, check("x", "a > 0"))
    assert len(looked) == 2
    # The file whose statistics prove it is never read, and a file that was read is not read again.
    assert [[row[0].rpartition("/")[2] for row in files] for _, _, files in statement.relations] == [
        ["unproven.parquet"],
        ["theirs.parquet"],
    ]
    assert actions(table, 4, "commitInfo")[0]["operation"] == "ADD CONSTRAINT"


def _partitioned(tmp_path, statement):
    path = tmp_path / "p"
    create_table(create_request(path, schema_json(a="integer", b="string"), partitionColumns=["b"]), statement)
    return path


def _add(name, partition_values):
    return AddFile(name, partition_values, 100, 1, True, '{"numRecords":10}')


def test_a_table_that_loses_its_partitions_takes_along_what_others_commit(tmp_path, statement):
    path = _partitioned(tmp_path, statement)
    commit(path, _add("1.parquet", {"b": "x"}), _add("2.parquet", {"b": None}))
    statement.written = [
        [data_file(f"part-00000-{name}", rows, [[1, 9, 0], ["a", "b", 0]])]
        for name, rows in (("both", 20), ("third", 10))
    ]
    statement.before_commits = [later(path, _add("3.parquet", {"b": "y"}))]
    after = alter(path, statement, {"kind": "cluster_by", "columns": [["a"]]})
    assert after.partition_columns == []
    assert sorted(after.files["path"].to_pylist()) == ["part-00000-both", "part-00000-third"]
    assert [[row[0].rpartition("/")[2] for row in files] for _, _, files in statement.relations] == [
        ["1.parquet", "2.parquet"],
        ["3.parquet"],
    ]
    assert after.version == 3
    assert not any(file["dataChange"] for kind in ("add", "remove") for file in actions(path, 3, kind))


def test_a_table_does_not_lose_its_partitions_twice(tmp_path, statement, make_statement):
    path = _partitioned(tmp_path, statement)
    other = make_statement()
    statement.before_commits = [lambda: alter(path, other, {"kind": "cluster_by", "columns": [["a"]]})]
    after = alter(path, statement, {"kind": "cluster_by", "columns": [["a"]]})
    assert after.version == 1
    with pytest.raises(HeadwaterError, match="part-00000") as raised:
        commit(path, _add("part-00000-x.parquet", {"b": "x"}))
    assert raised.value.condition == "HEADWATER_PARTITION_VALUES_MISMATCH"
