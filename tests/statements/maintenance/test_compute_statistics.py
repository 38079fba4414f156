"""ANALYZE TABLE … COMPUTE DELTA STATISTICS over real files: what is committed, and races with writers."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.basics.errors import HeadwaterError
from headwater.log import deletion_vectors
from headwater.protocol.actions import AddFile, RemoveFile
from headwater.statements.running.opening import open_snapshot
from support.commits import commit, later
from support.requests import actions, called, create_request, create_table, schema_json

STATS = {
    "numRecords": 2,
    "minValues": {"a": 1, "s": "x"},
    "maxValues": {"a": 2, "s": "y"},
    "nullCount": {"a": 0, "s": 0},
}


@pytest.fixture
def table(tmp_path, statement):
    """A table of two files; the log knows nothing of the first, and a wrong maximum of the second."""
    path = tmp_path / "a table"
    properties = {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"}
    create_table(create_request(path, schema_json(a="integer", s="string"), properties=properties), statement)
    wrong = json.dumps({**STATS, "maxValues": {"a": 1}, "nullCount": {}})
    commit(path, file(path, "f 1.parquet"), file(path, "f2.parquet", wrong))
    return path


def file(path, name, stats='{"numRecords":2}'):
    pq.write_table(pa.table({"a": pa.array([1, 2], pa.int32()), "s": ["x", "y"]}), path / name)
    return AddFile(name.replace(" ", "%20"), {}, (path / name).stat().st_size, 5, True, stats, {"k": "v"})


def compute(path, statement, columns=None):
    request = {"table": str(path), "name": "t", "arguments": {"columns": columns}}
    return called("analyze_table")(request, statement)["version"]


def test_files_are_added_again_as_they_are_but_for_statistics(table, statement):
    version = compute(table, statement)
    before = {add["path"]: add for add in actions(table, 1, "add")}
    after = {add["path"]: add for add in actions(table, version, "add")}
    assert before.keys() == after.keys() == {"f%201.parquet", "f2.parquet"}
    for path, add in after.items():
        assert json.loads(add.pop("stats")) == STATS
        assert add == {**{k: v for k, v in before[path].items() if k != "stats"}, "dataChange": False}
        assert "baseRowId" in add
    assert not actions(table, version, "remove")
    (info,) = actions(table, version, "commitInfo")
    assert (info["operation"], info["operationParameters"]) == ("COMPUTE STATS", {"predicate": '["true"]'})
    assert info["isBlindAppend"] is False


def test_right_statistics_are_not_committed_again(table, statement):
    version = compute(table, statement)
    assert compute(table, statement) == version
    commit(table, file(table, "f3.parquet"))
    assert [add["path"] for add in actions(table, compute(table, statement), "add")] == ["f3.parquet"]


def test_named_columns_leave_the_others_as_they_are(table, statement):
    (add, _) = (json.loads(add["stats"]) for add in actions(table, compute(table, statement, [["S"]]), "add"))
    assert add["minValues"] == {"s": "x"}
    (other,) = (
        json.loads(add["stats"]) for add in actions(table, 2, "add") if add["path"] == "f2.parquet"
    )  # its wrong maximum is not asked about
    assert other["maxValues"] == {"a": 1, "s": "y"}
    for column, condition in (("none", "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA"),):
        with pytest.raises(HeadwaterError) as caught:
            compute(table, statement, [[column]])
        assert caught.value.condition == condition


@pytest.mark.parametrize("columns", [None, [["a"]], [["b"]]], ids=str)
@pytest.mark.parametrize(
    ("precision", "scale", "digits"),
    [
        (18, 2, "1234567890123456.78"),
        (38, 18, "12345678901234567890.123456789012345678"),
        (38, 18, "0.000000000000000001"),
    ],
)
def test_decimals_keep_their_digits(tmp_path, statement, precision, scale, digits, columns):
    path = tmp_path / "t"
    kind = f"decimal({precision},{scale})"
    create_table(create_request(path, schema_json(a=kind, b=kind)), statement)
    values = pa.array([Decimal(digits)], pa.decimal128(precision, scale))
    pq.write_table(pa.table({"a": values, "b": values}), path / "f.parquet")
    bounds = f'{{"a":{digits},"b":{digits}}}'
    right = f'{{"numRecords":1,"minValues":{bounds},"maxValues":{bounds},"nullCount":{{"a":0,"b":0}}}}'
    # What a writer says who rounds numbers.
    wrong = right.replace(f'"b":{digits}', f'"b":{float(digits) * (1 + 1e-15)}')
    assert wrong != right
    add = AddFile("f.parquet", {}, (path / "f.parquet").stat().st_size, 5, True, wrong, {})
    commit(path, add)
    version = compute(path, statement, columns)
    if columns == [["a"]]:  # which is right
        assert version == 1
    else:
        assert [add["stats"] for add in actions(path, version, "add")] == [right]
    assert compute(path, statement, columns) == version


def test_named_columns_leave_the_digits_of_others(tmp_path, statement):
    path = tmp_path / "t"
    create_table(create_request(path, schema_json(a="integer", s="decimal(38,18)")), statement)
    stats = '{"numRecords":2,"minValues":{"s":0.10000000000000000001},"maxValues":{"s":12345678901234567.12}}'
    commit(path, file(path, "f.parquet", stats))
    (add,) = actions(path, compute(path, statement, [["a"]]), "add")
    assert '"minValues":{"s":0.10000000000000000001,"a":1}' in add["stats"]
    assert '"maxValues":{"s":12345678901234567.12,"a":2}' in add["stats"]


def test_columns_without_statistics_are_refused_by_name(tmp_path, statement):
    path = tmp_path / "t"
    properties = {"delta.dataSkippingStatsColumns": "a"}
    create_table(create_request(path, schema_json(a="integer", s="string"), properties=properties), statement)
    commit(path, file(path, "f.parquet"))
    with pytest.raises(HeadwaterError) as caught:
        compute(path, statement, [["s"]])
    assert caught.value.condition == "HEADWATER_COLUMN_WITHOUT_STATISTICS"
    (add,) = actions(path, compute(path, statement), "add")
    assert json.loads(add["stats"])["maxValues"] == {"a": 2}


def test_bounds_of_files_with_deleted_rows_are_not_tight(table, statement):
    snapshot = open_snapshot(str(table), statement)
    from pyroaring import BitMap64

    (vector,) = deletion_vectors.write_file([BitMap64([1])], snapshot.table_path, snapshot.store)
    marked = replace(file(table, "f2.parquet"), deletion_vector=vector)
    commit(table, marked, RemoveFile("f2.parquet", 1, True))
    adds = {add["path"]: add for add in actions(table, compute(table, statement), "add")}
    assert json.loads(adds["f2.parquet"]["stats"]) == {**STATS, "tightBounds": False}
    assert adds["f2.parquet"]["deletionVector"]["cardinality"] == 1
    assert json.loads(adds["f%201.parquet"]["stats"]) == STATS


def test_a_writer_that_removes_a_file_meanwhile_is_no_conflict(table, statement):
    gone = [later(table, RemoveFile("f2.parquet", 1, True))]
    more = [lambda: commit(table, file(table, "f3.parquet"))]
    statement.before_commits = [*gone, *more]
    version = compute(table, statement)
    assert version == 4
    assert [add["path"] for add in actions(table, version, "add")] == ["f%201.parquet"]
    assert open_snapshot(str(table), statement).num_files == 2


@pytest.mark.parametrize(
    ("spoil", "condition"), [("missing", "DELTA_FILE_NOT_FOUND_DETAILED"), ("damaged", "HEADWATER_DATA_FILE_DAMAGED")]
)
def test_files_that_cannot_be_read_are_named(table, statement, spoil, condition):
    if spoil == "missing":
        (table / "f2.parquet").unlink()
    else:
        (table / "f2.parquet").write_bytes(b"x" * 2000)
    with pytest.raises(HeadwaterError) as caught:
        compute(table, statement)
    assert caught.value.condition == condition
    assert "f2.parquet" in caught.value.text
