"""CREATE, DROP, REFRESH INDEX and SHOW INDEXES, without Spark: what they commit, leave and refuse."""

from __future__ import annotations

import json

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.key_index import segments
from headwater.key_index.definition import indexes
from headwater.protocol.actions import AddFile
from headwater.statements.maintenance import key_indexes
from headwater.statements.maintenance.findings import findings
from headwater.statements.maintenance.health import by_section, health
from headwater.statements.maintenance.key_indexes import Built
from headwater.statements.maintenance.layouts import Settings
from headwater.statements.maintenance.planning import plan
from headwater.statements.running.opening import open_snapshot
from headwater.transaction import Provenance, Transaction
from support.commits import write_commit
from support.requests import actions, alter_table, called, create_request, create_table, schema_json

create_index, drop_index, refresh_index, show_indexes = map(
    called, ("create_index", "drop_index", "refresh_index", "show_indexes")
)
PROPERTY = "headwater.index.{}.columns"


def made(path, statement, **properties):
    bounded = ("string", {"__CHAR_VARCHAR_TYPE_STRING": "varchar(9)"})
    schema = schema_json(id="long", email="string", d="double", p="integer", c=bounded)
    create_table(create_request(path, schema, partitionColumns=["p"], properties=properties), statement)
    return path


@pytest.fixture
def table(tmp_path, statement):
    return made(tmp_path / "t", statement)


@pytest.fixture
def builds(monkeypatch):
    """The indexes that were built, each as if of two files. What is put there first is raised."""
    called: list[tuple[int, str, list[str]]] = []
    fails: list[Exception] = []

    def build(statement, snapshot, index):
        if fails:
            raise fails.pop(0)
        called.append((snapshot.version, index.name, [column.name for column in index.columns]))
        return Built(2, 10, 99)

    monkeypatch.setattr(key_indexes, "build", build)
    build.called, build.fails = called, fails
    return build


def asked(path, **arguments):
    return {"table": str(path), "name": "t", "arguments": arguments}


def properties(path, statement):
    found = open_snapshot(str(path), statement).metadata.configuration
    return {key: value for key, value in found.items() if key.startswith("headwater.index")}


def set_property(path, statement, key, value):
    change = {"kind": "set_property", "key": key, "value": value}
    alter_table({"table": str(path), "name": "t", "changes": [change]}, statement)


def unset_property(path, statement, key):
    alter_table({"table": str(path), "name": "t", "changes": [{"kind": "remove_property", "key": key}]}, statement)


def refused(condition, run, path, statement, **arguments):
    with pytest.raises(HeadwaterError) as error:
        run(asked(path, **arguments), statement)
    assert error.value.condition == condition
    return error.value


def test_an_index_is_declared_in_one_commit_and_then_built(table, statement, builds):
    answer = create_index(asked(table, index="By-Email", columns=[["EMAIL"], ["id"]]), statement)
    assert answer["rows"] == [{"index": "by-email", "files": 2, "rows": 10, "bytes": 99}]
    assert properties(table, statement) == {PROPERTY.format("by-email"): "email, id"}
    assert builds.called == [(1, "by-email", ["email", "id"])]
    (info,) = actions(table, 1, "commitInfo")
    assert info["operation"] == "CREATE INDEX"
    assert info["operationParameters"] == {"name": "by-email", "columns": '["email","id"]'}
    # Spark's side knows that the statement is not done with its commit.
    assert (statement.begun[1:], statement.inner_commits) == ([None], 1)
    error = refused(
        "HEADWATER_INDEX_ALREADY_EXISTS", create_index, table, statement, index="BY-EMAIL", columns=[["id"]]
    )
    assert error.sql_state == "42710"
    assert "REFRESH INDEX `by-email` ON t" in error.text
    create_index(asked(table, index="by-email", columns=[["id"]], ifNotExists=True), statement)
    assert builds.called[1:] == [(1, "by-email", ["email", "id"])]


def test_an_index_that_was_not_built_stays(table, statement, builds):
    builds.fails += [HeadwaterError("DELTA_EMPTY_DATA"), OSError("the disk is full.")]
    error = refused("HEADWATER_INDEX_NOT_BUILT", create_index, table, statement, index="i", columns=[["id"]])
    assert "Run REFRESH INDEX i ON t to build what is missing" in error.text
    error = refused("HEADWATER_INDEX_NOT_BUILT", refresh_index, table, statement, index="i")
    assert (error.sql_state, error.parameters["reason"]) == ("58030", "the disk is full")
    assert properties(table, statement) == {PROPERTY.format("i"): "id"}
    assert refresh_index(asked(table, index="I"), statement)["rows"][0]["files"] == 2
    assert open_snapshot(str(table), statement).version == 1


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ([["gone"]], "no column gone"),
        ([["d"]], "type double"),
        ([["c"]], "without collation or declared length"),
        ([["p"]], "partition column"),
        ([["id"], ["ID"]], "twice"),
        ([["s", "x"]], "s.x is a field of a struct"),
        ([["id"]] * 17, "at most 16"),
    ],
)
def test_what_no_table_can_have(table, statement, builds, columns, says):
    error = refused("HEADWATER_INVALID_INDEX", create_index, table, statement, index="i", columns=columns)
    assert says in error.text
    assert (error.sql_state, builds.called) == ("42601", [])
    text = ", ".join(".".join(path) for path in columns)
    with pytest.raises(HeadwaterError, match="HEADWATER_INVALID_INDEX") as by_hand:
        set_property(table, statement, PROPERTY.format("i"), text)
    assert says in by_hand.value.text
    assert open_snapshot(str(table), statement).version == 0


@pytest.mark.parametrize("arguments", [{"kind": "bloom"}, {"hasOptions": True}, {"index": "a b"}, {"index": ".."}])
def test_what_no_index_has(table, statement, builds, arguments):
    given = {"index": "i", "columns": [["id"]], **arguments}
    refused("HEADWATER_INVALID_INDEX", create_index, table, statement, **given)
    assert builds.called == []


def test_a_table_has_at_most_eight_indexes(table, statement, builds):
    for number in range(8):
        create_index(asked(table, index=f"i{number}", columns=[["id"]]), statement)
    assert (
        "at most 8"
        in refused("HEADWATER_INVALID_INDEX", create_index, table, statement, index="i", columns=[["id"]]).text
    )
    with pytest.raises(HeadwaterError, match="at most 8"):
        set_property(table, statement, PROPERTY.format("i"), "id")
    set_property(table, statement, PROPERTY.format("i7"), "email")
    drop_index(asked(table, index="i0"), statement)
    create_index(asked(table, index="i", columns=[["id"]]), statement)


def test_a_dropped_index_loses_its_files_after_the_commit(table, statement, builds, monkeypatch):
    create_index(asked(table, index="i", columns=[["id"]]), statement)
    deleted = []
    monkeypatch.setattr(segments, "delete_index", lambda snapshot, name: deleted.append((snapshot.version, name)))
    error = refused("HEADWATER_INDEX_NOT_FOUND", drop_index, table, statement, index="ii")
    assert (error.sql_state, deleted) == ("42704", [])
    assert "Did you mean i?" in error.text
    assert drop_index(asked(table, index="ii", ifExists=True), statement)["version"] == 1
    assert (drop_index(asked(table, index="I"), statement)["version"], deleted) == (2, [(2, "i")])
    assert actions(table, 2, "commitInfo")[0]["operation"] == "DROP INDEX"
    assert properties(table, statement) == {}


def test_the_property_by_hand_is_an_index(table, statement, builds):
    set_property(table, statement, "Headwater.INDEX.By_Id.Columns", "`id`")
    assert properties(table, statement) == {PROPERTY.format("by_id"): "`id`"}
    assert builds.called == []
    assert [row["index"] for row in show_indexes(asked(table), statement)["rows"]] == ["by_id"]
    assert [row["index"] for row in refresh_index(asked(table), statement)["rows"]] == ["by_id"]
    with pytest.raises(HeadwaterError, match=r"'headwater.index.<name>.columns'"):
        set_property(table, statement, "headwater.index.i", "id")
    unset_property(table, statement, "headwater.index.BY_ID.columns")
    assert properties(table, statement) == {}


def test_a_new_table_declares_indexes_that_it_can_have(tmp_path, statement):
    schema = schema_json(id="long")
    given = {"HEADWATER.index.A.columns": "id"}
    create_table(create_request(tmp_path / "a", schema, properties=given), statement)
    assert properties(tmp_path / "a", statement) == {PROPERTY.format("a"): "id"}
    with pytest.raises(HeadwaterError, match="no column no"):
        create_table(create_request(tmp_path / "b", schema, properties={PROPERTY.format("a"): "no"}), statement)
    assert not (tmp_path / "b").exists()


def test_indexes_follow_their_columns_and_go_with_them(tmp_path, statement, builds):
    table = made(tmp_path / "t", statement, **{"delta.columnMapping.mode": "name"})
    create_index(asked(table, index="both", columns=[["email"], ["id"]]), statement)
    create_index(asked(table, index="one", columns=[["email"]]), statement)
    before = indexes(open_snapshot(str(table), statement).definition)
    renamed = {"kind": "rename_column", "path": ["email"], "newName": "e, mail"}
    alter_table({"table": str(table), "name": "t", "changes": [renamed]}, statement)
    assert properties(table, statement) == {
        PROPERTY.format("both"): "`e, mail`, id",
        PROPERTY.format("one"): "`e, mail`",
    }
    after = indexes(open_snapshot(str(table), statement).definition)
    # The files have the same names as before, so the entries fit.
    assert [each.physical_names for each in after] == [each.physical_names for each in before]
    alter_table({"table": str(table), "name": "t", "changes": [{"kind": "drop_column", "path": ["id"]}]}, statement)
    assert properties(table, statement) == {PROPERTY.format("one"): "`e, mail`"}


def test_an_index_that_does_not_count_says_why(table, statement, builds):
    create_index(asked(table, index="good", columns=[["id"]]), statement)
    create_index(asked(table, index="odd", columns=[["email"]]), statement)
    # Another engine changes the column.
    (metadata,) = actions(table, 2, "metaData")
    changed = json.loads(metadata["schemaString"])
    changed["fields"][1]["type"] = "double"
    file = {"path": "f", "partitionValues": {"p": "1"}, "size": 7, "modificationTime": 1, "dataChange": True}
    write_commit(table, 3, {"metaData": metadata | {"schemaString": json.dumps(changed)}}, {"add": file})
    good, odd = show_indexes(asked(table), statement)["rows"]
    assert (good["coveredFiles"], good["files"], good["segments"], good["bytes"], good["problem"]) == (0, 1, 0, 0, None)
    assert "type double" in odd["problem"]
    assert odd.get("files") is None
    assert "DROP INDEX" in refused("HEADWATER_INVALID_INDEX", refresh_index, table, statement, index="odd").text
    facts = by_section(health(open_snapshot(str(table), statement), Settings()))
    assert facts["indexes"]["good"] == {
        "columns": "id", "filesCovered": 0, "filesMissing": 1, "segments": 0, "bytes": 0, "shareOfBytes": 0.0,
    }  # fmt: skip
    found = {each.name: each for each in findings(facts, "t")}
    assert found["indexes"].level == "note"
    assert found["indexes"].text.startswith("The index good lacks 1 of 1 file, ")
    assert "REFRESH INDEX ON t" in found["indexes"].text
    assert found["indexProblem"].text.endswith("DROP INDEX odd ON t removes it.")
    (action,) = plan(facts, "t", ["REFRESH INDEX"])
    assert (action.weight, action.before, action.statement) == (1.0, (1, None), "REFRESH INDEX ON t")
    assert "REFRESH INDEX" not in [each.kind for each in plan(facts | {"indexes": {}}, "t")]


def test_other_writers_do_not_lose_to_an_index(table, statement, builds):
    snapshot = open_snapshot(str(table), statement)
    writer = Transaction(snapshot.table_path, snapshot.store, snapshot)
    writer.read_whole_table()
    writer.add([AddFile("x", {"p": "1"}, 7, 5, True)])
    create_index(asked(table, index="i", columns=[["id"]]), statement)
    assert writer.commit(Provenance("WRITE")).version == 2
    assert properties(table, statement) == {PROPERTY.format("i"): "id"}
