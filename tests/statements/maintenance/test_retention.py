"""Old versions whose files VACUUM may have deleted: who is refused them, and from when on."""

from __future__ import annotations

import json
import os
import time

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.protocol.actions import AddFile, RemoveFile
from headwater.statements.running.opening import CACHE, open_snapshot
from headwater.transaction import Provenance, Transaction
from support.recording_statement import RecordingStatement
from support.requests import called, create_request, create_table, load_table, schema_json

REFUSED = "DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION"
UNCHECKED = {"spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false"}
DAY = 24 * 3600


@pytest.fixture(params=["file times", "in-commit timestamps"])
def table(tmp_path, statement, request, monkeypatch):
    """Versions of 40, 30, 20, 3 and 1 days ago, each of another file; a week is how long files stay."""
    path = tmp_path / "t"
    in_commit = request.param != "file times"
    properties = {"delta.enableInCommitTimestamps": str(in_commit).lower(), "delta.enableChangeDataFeed": "true"}
    now = time.time()
    for version, days in enumerate((40, 30, 20, 3, 1)):
        monkeypatch.setattr("headwater.transaction.commit_loop._now", lambda at=days: int((now - at * DAY) * 1000))
        if version == 0:
            create_table(create_request(path, schema_json(a="integer"), properties=properties), statement)
        else:
            snapshot = open_snapshot(str(path), statement)
            txn = Transaction(snapshot.table_path, snapshot.store, snapshot)
            for number in (version - 1, version):
                (path / f"f{number}").touch()
            txn.add([AddFile(f"f{version}", {}, 4, 5, True)])
            if version > 1:
                txn.remove([RemoveFile(f"f{version - 1}", 1, True, partition_values={}, size=4)])
            txn.commit(Provenance("WRITE"))
        if not in_commit:
            os.utime(path / f"_delta_log/{version:020d}.json", (now - days * DAY,) * 2)
    CACHE.forget(str(path))
    return path


def refused(call, request, statement):
    """Whether a call is refused as the files may be gone."""
    try:
        called(call)(request, statement)
    except HeadwaterError as error:
        if error.condition != REFUSED:
            raise
        return "168 hours" in error.text
    return False


def test_a_version_is_read_until_the_next_is_too_old(table, statement):
    """Version 2 was the newest three days ago, however old it is itself."""
    found = [refused("load_table", {"table": str(table), "version": v}, statement) for v in range(5)]
    assert found == [True, True, False, False, False]
    found = [refused("load_table", {"table": f"{table}@v{v}"}, statement) for v in range(5)]
    assert found == [True, True, False, False, False]
    at = [str(int((time.time() - days * DAY) * 1e6)) for days in (25, 15, 2)]  # of versions 1, 2 and 3
    assert [refused("load_table", {"table": str(table), "timestamp": t}, statement) for t in at] == [True, False, False]
    open_to_all = RecordingStatement(UNCHECKED)
    assert load_table({"table": str(table), "version": 0}, open_to_all)["version"] == 0


def test_what_a_statement_works_on_is_never_refused(table, statement):
    for version in range(5):
        found = load_table({"table": str(table), "version": version, "pinned": True}, statement)
        assert (found["version"], found["timeTravel"]) == (version, True)


def test_restore(table, statement):
    def request(version):
        return {"table": str(table), "name": "t", "arguments": {"version": str(version)}}

    assert [refused("restore", request(v), statement) for v in (0, 1)] == [True, True]
    called("restore")(request(2), statement)
    assert open_snapshot(str(table), statement).files["path"].to_pylist() == ["f2"]
    called("restore")(request(1), RecordingStatement(UNCHECKED))
    assert open_snapshot(str(table), statement).files["path"].to_pylist() == ["f1"]


def test_changes(table, statement):
    """Their own files, and those that they removed, are as old as themselves."""

    def request(version):
        bounds = [{"name": "startingVersion", "value": str(version)}]
        return {"table": str(table), "bounds": bounds, "form": {}}

    assert [refused("table_changes", request(v), statement) for v in range(5)] == [True, True, True, False, False]


@pytest.mark.parametrize("feed", ["false", "true"])
def test_a_stream_goes_on_from_where_it_is(table, statement, feed):
    """It was there before the files were old; one that is gone is an error when it is read."""
    bounds = [{"name": "startingVersion", "value": "1"}]
    request = {"table": str(table), "options": {"readChangeFeed": feed}, "bounds": bounds}
    opened = called("open_stream")({**request, "schema": None, "checkpoint": "/c/sources/0"}, statement)
    end = called("stream_end")({"stream": opened["stream"], "start": None}, statement)
    assert json.loads(end["offset"])["reservoirVersion"] == 5
