import json
import shutil

import pyarrow as pa
import pytest

from headwater.basics.errors import HeadwaterError
from headwater.statements.files import file_lists
from headwater.statements.running.opening import open_snapshot
from headwater.transaction import wait_for_maintenance
from support.predicate_text import tree
from support.requests import (
    actions,
    aggregate,
    called,
    create_request,
    create_table,
    data_file,
    describe_detail,
    describe_history,
    load_table,
    recover_commit,
    refresh_table,
    scan_of,
    schema_json,
    write,
)

SCHEMA = schema_json(a="integer", p="string")


@pytest.fixture
def table(tmp_path, statement):
    """Partitions ``x y`` and null, a file each; the files are there."""
    path = tmp_path / "a table"
    create_table(create_request(path, SCHEMA, partitionColumns=["p"]), statement)
    files = {"p=x y/one.parquet": ("x y", 1, 5), "p=__HIVE_DEFAULT_PARTITION__/two%.parquet": (None, 7, 9)}
    for name in files:
        (path / name).parent.mkdir(parents=True)
        (path / name).write_bytes(b"")
    statement.written = [[data_file(n, 2, [[low, high, 0]], {"p": p}) for n, (p, low, high) in files.items()]]
    write({"table": str(path), "name": "t", "plan": 0, "schema": SCHEMA, "options": {}}, statement)
    return path


def scan(path, statement, *filters, version=1):
    return scan_of({"table": str(path), "version": version, "filters": [tree(text) for text in filters]}, statement)


def test_a_scan_lists_paths_as_they_are_on_disk(table, statement):
    files = scan(table, statement)["files"]
    assert sorted((f[0], f[4]) for f in files) == [
        (f"{table}/p=__HIVE_DEFAULT_PARTITION__/two%.parquet", None),
        (f"{table}/p=x y/one.parquet", "x y"),
    ]
    assert all(f[1:4] == [100, 1_700_000_000_000, None] for f in files)


def test_a_scan_skips_files_no_row_can_match(table, statement):
    assert [f[4] for f in scan(table, statement, "(`a` > 6)")["files"]] == [None]
    assert [f[4] for f in scan(table, statement, "(`p` = 'x y')")["files"]] == ["x y"]
    assert scan(table, statement, "(`a` > 6)", "(`p` = 'x y')")["files"] == []


def test_a_missing_file_is_named_with_the_version(table, statement):
    (table / "p=x y/one.parquet").unlink()
    with pytest.raises(HeadwaterError) as missing:
        scan(table, statement)
    assert missing.value.condition == "DELTA_FILE_NOT_FOUND_DETAILED"
    assert "p=x y/one.parquet" in missing.value.text
    assert "version 1" in missing.value.text


def test_missing_files_may_be_ignored(table, make_statement):
    (table / "p=x y/one.parquet").unlink()
    statement = make_statement({"spark.sql.files.ignoreMissingFiles": "true"})
    assert len(scan(table, statement)["files"]) == 2


def test_a_long_list_comes_as_arrow(table, statement, monkeypatch):
    monkeypatch.setattr(file_lists, "_LONGEST_JSON_LIST", 1)
    answer = scan(table, statement)
    with pa.ipc.open_stream(answer["arrow"]) as stream:
        listed = stream.read_all()
    assert listed.num_rows == 2
    assert listed.schema.names == ["path", "size", "modification_time", "deletion_vector", "partition0"]


def test_scans_of_a_query_are_answered_in_their_order(table, statement, monkeypatch):
    wanted = [{"table": str(table), "version": 1, "filters": [tree(text)]} for text in ("(`a` > 6)", "(`a` < 6)")]
    scans_of = called("scans")
    answers = scans_of({"requests": wanted}, statement)
    assert [[file[4] for file in answer["files"]] for answer in answers] == [[None], ["x y"]]
    assert scans_of({"requests": []}, statement) == []


def test_a_query_that_fails_leaves_no_list_behind(table, statement, monkeypatch, tmp_path):
    """The list of its first scan waits in a file for Spark, which never hears of it."""
    monkeypatch.setattr(file_lists, "_LONGEST_JSON_LIST", 1)
    (tmp_path / "lists").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "lists"))
    good = {"table": str(table), "version": 1, "filters": []}
    assert len(called("scans")({"requests": [good, good]}, statement)) == 2
    assert len(list((tmp_path / "lists").iterdir())) == 2
    with pytest.raises(HeadwaterError):
        called("scans")({"requests": [good, {**good, "tableId": "another"}]}, statement)
    assert len(list((tmp_path / "lists").iterdir())) == 2


@pytest.mark.parametrize("odd", [None, "a%20b", "/elsewhere/c", "file:/d", "s3://bucket/e", "x/..e", "a:b"])
def test_paths_are_the_same_one_by_one_and_all_at_once(table, statement, monkeypatch, odd):
    snapshot = open_snapshot(str(table), statement)
    paths = pa.chunked_array([["p=x%20y/one", *([odd] if odd else []), "two"], ["three"]])
    one_by_one = file_lists.absolute_paths(snapshot, paths).to_pylist()
    monkeypatch.setattr(file_lists, "_FEW_PATHS", 0)
    assert file_lists.absolute_paths(snapshot, paths).to_pylist() == one_by_one
    plain = paths.slice(len(paths) - 2)
    assert file_lists.absolute_paths(snapshot, plain).to_pylist() == [f"{table}/two", f"{table}/three"]


@pytest.mark.parametrize("suffix", ["@v0", "@v1"])
def test_a_path_may_carry_its_version(table, statement, suffix):
    answer = load_table({"table": f"{table}{suffix}"}, statement)
    assert answer["version"] == int(suffix[2:])
    assert answer["path"] == str(table)
    assert answer["timeTravel"]


def test_the_newest_version_is_no_time_travel(table, statement):
    answer = load_table({"table": str(table)}, statement)
    assert (answer["version"], answer["timeTravel"]) == (1, False)


def test_a_version_that_is_not_there_says_what_is(table, statement):
    with pytest.raises(HeadwaterError) as refused:
        load_table({"table": str(table), "version": 7}, statement)
    assert refused.value.condition == "DELTA_VERSION_NOT_FOUND"
    assert "0" in refused.value.text
    assert "1" in refused.value.text


def test_a_missing_table_is_named_as_the_user_named_it(tmp_path, statement):
    with pytest.raises(HeadwaterError) as refused:
        load_table({"table": str(tmp_path / "none"), "name": "db.t"}, statement)
    assert refused.value.condition == "DELTA_TABLE_NOT_FOUND"
    assert "db.t" in refused.value.text


def refreshed(seen, statement):
    """What a query that was defined over ``seen`` reads now, or the condition that stops it."""
    now = refresh_table({"table": seen["path"]}, statement)
    try:
        called("check_columns")(
            {"table": seen["path"], "then": seen["tableSchema"], "now": now["tableSchema"]}, statement
        )
    except HeadwaterError as error:
        return error.condition
    return now["version"]


def test_a_changed_schema_stops_a_query_that_was_defined_before(table, statement):
    seen = load_table({"table": str(table)}, statement)
    data = schema_json(b="long", p="string")
    request = {"table": str(table), "name": "t", "plan": 0, "schema": data, "mode": "overwrite"}
    write({**request, "options": {"overwriteSchema": "true"}}, statement)
    assert refreshed(seen, statement) == "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS"


def test_a_new_column_does_not_stop_a_query_that_was_defined_before(table, statement):
    seen = load_table({"table": str(table)}, statement)
    data = schema_json(a="integer", p="string", b="long")
    write({"table": str(table), "name": "t", "plan": 0, "schema": data, "options": {"mergeSchema": "true"}}, statement)
    assert refreshed(seen, statement) == 2


@pytest.mark.parametrize("commits", [0, 1, 2])
@pytest.mark.parametrize(("columns", "fits"), [({"a": "integer", "p": "string"}, True), ({"a": "long"}, False)])
def test_a_query_reads_the_table_that_is_at_the_path_now(table, statement, columns, fits, commits):
    """However many versions that has: nothing is asked about the table that the query was defined over."""
    seen = load_table({"table": str(table)}, statement)
    assert wait_for_maintenance()
    shutil.rmtree(table)
    create_table(create_request(table, schema_json(**columns)), statement)
    for _ in range(commits):
        write({"table": str(table), "plan": 0, "schema": schema_json(**columns), "options": {}}, statement)
    assert refreshed(seen, statement) == (commits if fits else "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS")


def test_a_query_of_a_transaction_reads_the_table_without_it(table, statement):
    """Whether the transaction's version is there afterwards or not, and whoever made it."""
    columns = schema_json(a="integer", p="string")
    called("begin_transaction")({"arguments": {}}, statement)
    write({"table": str(table), "plan": 0, "schema": columns, "options": {}}, statement)
    write({"table": str(table), "plan": 0, "schema": columns, "options": {}}, statement)
    seen = load_table({"table": str(table)}, statement)
    assert seen["version"] == 3
    called("rollback_transaction")({"arguments": {}}, statement)
    assert refreshed(seen, statement) == 1
    data = schema_json(b="long", p="string")
    request = {"table": str(table), "plan": 0, "schema": data, "options": {"overwriteSchema": "true"}}
    for version in (2, 3):
        write({**request, "mode": "overwrite"}, statement)
        assert load_table({"table": str(table)}, statement)["version"] == version
        assert refreshed(seen, statement) == "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS"


def test_counts_come_from_the_log(table, statement):
    def count(*filters):
        outputs = [{"kind": "count"}, {"kind": "max", "column": "a"}, {"group": "p"}]
        predicates = [tree(text) for text in filters]
        request = {"table": str(table), "version": 1, "groups": ["p"], "outputs": outputs, "filters": predicates}
        return sorted(aggregate(request, statement)["rows"], key=str)

    assert count() == [["2", "5", "x y"], ["2", "9", None]]
    assert count("(`p` IS NULL)") == [["2", "9", None]]


def test_history_is_newest_first(table, statement):
    rows = describe_history({"table": str(table), "name": "t", "arguments": {"limit": None}}, statement)["rows"]
    assert [(r["version"], r["operation"]) for r in rows] == [(1, "WRITE"), (0, "CREATE TABLE")]
    limited = describe_history({"table": str(table), "name": "t", "arguments": {"limit": 1}}, statement)["rows"]
    assert [r["version"] for r in limited] == [1]


def test_detail_sums_up(table, statement):
    row = describe_detail({"table": str(table), "name": f"delta.`{table}`", "arguments": {}}, statement)["rows"][0]
    assert (row["numFiles"], row["sizeInBytes"], row["partitionColumns"]) == (2, 200, ["p"])
    assert row["location"] == f"file:{table}"


def test_a_commit_that_was_made_is_recognised(table, statement):
    def recovered(version, transaction):
        path = str(table / "_delta_log" / f"{version:020d}.json")
        commit = {
            "table": str(table),
            "version": version,
            "txnId": transaction,
            "path": path,
            "counts": [2],
        }
        return recover_commit({"commit": commit}, statement)

    made = actions(table, 1, "commitInfo")[0]["txnId"]
    assert recovered(1, made) == {"version": 1, "counts": [2]}
    for version, transaction in ((1, "another"), (2, made)):
        with pytest.raises(HeadwaterError) as lost:
            recovered(version, transaction)
        assert lost.value.condition == "DELTA_COMMIT_NOT_MADE"


def test_a_relative_path_that_leaves_the_table_is_not_followed(table, statement):
    add = {
        "path": "../../etc/secret.parquet",
        "partitionValues": {"p": None},
        "size": 1,
        "modificationTime": 0,
        "dataChange": True,
    }
    (table / "_delta_log" / f"{2:020d}.json").write_text(json.dumps({"add": add}) + "\n")
    assert open_snapshot(str(table), statement).version == 2
    with pytest.raises(HeadwaterError):
        scan(table, statement, version=2)


def test_a_session_may_read_a_table_as_it_was_a_moment_ago(table, statement):
    """Another process commits; what the session reads is not older than its limit allows, and what it writes is new."""
    open_snapshot(str(table), statement)
    log = table / "_delta_log"
    (log / f"{2:020d}.json").write_text('{"txn":{"appId":"other","version":1}}\n')
    request = {"table": str(table)}
    assert load_table(request, stale(statement, "1 hour"))["version"] == 1
    (log / f"{3:020d}.json").write_text('{"txn":{"appId":"other","version":2}}\n')
    assert load_table(request, statement)["version"] == 3
    with pytest.raises(HeadwaterError, match="DELTA_INVALID_INTERVAL"):
        load_table(request, stale(statement, "a while"))


def stale(statement, limit):
    return type(statement)({"spark.headwater.stalenessLimit": limit})
