"""Tables by their names in a catalog that manages them, through statements: over HTTP, without Spark."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.basics import clock
from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.callbacks import FileFooter, Footers
from headwater.log.checkpoint_writing import write_checkpoint
from headwater.log.cleanup import truncate
from headwater.statements.running.opening import open_snapshot
from headwater.transaction import wait_for_maintenance
from headwater.transaction.catalog_commits import CatalogCommitter
from support.managed_tables import TOKEN
from support.requests import called, create_request, describe_history, load_table, schema_json
from support.unity_server import UnityModel, serving

SETTING = "spark.sql.catalog.main"
T = {"catalog": "main", "schema": "s", "table": "t"}
ASKED = T | {"others": False}


@pytest.fixture
def model(tmp_path):
    return UnityModel(str(tmp_path), TOKEN)


@pytest.fixture
def confs(model):
    with serving(model) as uri:
        yield {SETTING: "headwater.spark.HeadwaterUnityCatalog", f"{SETTING}.uri": uri, f"{SETTING}.token": TOKEN}
        assert wait_for_maintenance(60)


def find(statement, **more):
    """Find a table as the JVM does, which gives the handle back with each call; its path, None where there is none."""
    found = called("find_in_catalog")(ASKED | more, statement)
    return noted(found, statement) if "location" in found else None


def noted(found, statement):
    statement.handles[found["location"]] = found["options"]["fs.headwater.managed"]
    return found["location"]


def make(statement, **more):
    """Create a table as the JVM does; its path."""
    path = noted(called("stage_in_catalog")(T, statement), statement)
    called("create_table")(
        create_request(path, schema_json(id="long"), properties=more, plan=None, rowSchema=None),
        statement,
    )
    return path


def change(path, statement, value="a"):
    """Commit a version."""
    called("alter_table")(
        {"table": path, "name": "t", "changes": [{"kind": "set_property", "key": "team", "value": value}]},
        statement,
    )


def test_a_table_is_created_found_renamed_and_dropped(model, confs, make_statement):
    statement = make_statement(confs)
    path = make(statement)
    assert called("list_catalog")({"catalog": "main", "schema": None}, statement) == {"names": ["s"]}
    assert called("list_catalog")({"catalog": "main", "schema": "s"}, statement) == {"names": ["t"]}
    assert find(statement) == path
    entry = model.schemas["s"]["t"]
    assert {"catalogManaged", "inCommitTimestamp", "vacuumProtocolCheck"} <= {*entry.protocol["writer-features"]}
    assert entry.columns["fields"][0]["name"] == "id"
    called("rename_in_catalog")({**T, "newName": "u"}, statement)
    assert find(statement) is None
    assert called("drop_from_catalog")({**T, "table": "u"}, statement) is True
    assert called("drop_from_catalog")({**T, "table": "u"}, statement) is False


def test_a_commit_goes_through_the_catalog_and_is_in_the_history(model, confs, make_statement):
    statement = make_statement(confs)
    make(statement)
    path = find(statement)
    change(path, statement)
    assert (model.schemas["s"]["t"].latest, model.schemas["s"]["t"].properties["team"]) == (1, "a")
    rows = describe_history({"table": path, "name": "t", "arguments": {}}, statement)["rows"]
    assert [row["version"] for row in rows] == [1, 0]


def test_a_session_without_the_catalog_or_with_a_wrong_token_reads_nothing(confs, make_statement):
    path = make(make_statement(confs))
    statement, other = make_statement(confs), make_statement({**confs, f"{SETTING}.token": "wrong"})
    find(statement)
    opens = {"table": path, "name": None, "version": None, "timestamp": None, "pinned": False}
    assert load_table(opens, statement)["version"] == 0
    with pytest.raises(HeadwaterError) as raised:
        load_table(opens, make_statement(confs))
    assert raised.value.condition == "DELTA_PATH_BASED_ACCESS_TO_CATALOG_MANAGED_TABLE_BLOCKED"
    other.handles = statement.handles
    with pytest.raises(HeadwaterError, match="status 401") as raised:
        load_table(opens, other)
    assert raised.value.condition == "HEADWATER_CATALOG_FAILED"
    assert "wrong" not in raised.value.text


_KINDS = {"optimize": "DATA_REORGANIZATION", "reorg": "DATA_REORGANIZATION", "vacuum": "DATA_CLEANUP"}
_ALL = ["DATA_REORGANIZATION", "DATA_CLEANUP", "METADATA_CLEANUP"]


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("others", [None, [], "all others", "nonsense"])
def test_maintenance_is_the_catalogs_unless_it_allows_it(kind, others, model, confs, make_statement):
    """The catalog is asked when the statement runs, and a name that is not known allows nothing."""
    statement = make_statement(confs)
    make(statement)
    path = find(statement)
    wrong = {"all others": ["OPTIMIZE", *({*_ALL} - {_KINDS[kind]})], "nonsense": {"DATA_CLEANUP": [1]}}
    model.allowed = wrong[others] if isinstance(others, str) else others
    with pytest.raises(HeadwaterError, match=kind.upper()) as raised:
        called(kind)({"table": path, "name": "t", "arguments": {}}, statement)
    assert raised.value.condition == "DELTA_UNSUPPORTED_CATALOG_MANAGED_TABLE_OPERATION"
    assert _KINDS[kind] in raised.value.text
    model.allowed = [_KINDS[kind]]
    called(kind)({"table": path, "name": "t", "arguments": {}}, statement)


@pytest.mark.parametrize("allowed", [None, ["METADATA_CLEANUP"]])
def test_the_log_is_cleaned_up_if_the_catalog_allows_it(allowed, model, confs, make_statement, monkeypatch):
    statement = make_statement(confs)
    path = make(statement, **{"delta.checkpointInterval": "2"})
    for value in "abcde":
        change(path, statement, value)
    assert wait_for_maintenance(60)
    model.allowed = allowed
    snapshot = open_snapshot(path, statement)
    week = 7 * 24 * 3600 * 1000
    monkeypatch.setattr(clock, "milliseconds", lambda: snapshot.timestamp + week)
    cleaned = truncate(snapshot, 0, snapshot.timestamp)
    if allowed is None:
        assert cleaned is None
        assert open_snapshot(path, statement, 0).version == 0
    else:
        assert cleaned is not None
        assert f"{0:020}.json" not in os.listdir(Path(path) / "_delta_log")
        # What is left is a table, and takes commits.
        change(path, statement, "f")
        assert open_snapshot(path, statement).version == 6


@pytest.mark.parametrize("reported", [True, False])
def test_the_log_is_cleaned_up_and_what_is_not_published_stays_however_old_it_is(
    reported, model, confs, make_statement, monkeypatch
):
    """Five days after four commits, a client publishes two, and dies, perhaps before it tells the catalog."""

    def dies(*_):
        raise OSError("no answer")

    statement = make_statement(confs)
    path = make(statement, **{"delta.checkpointInterval": "1000"})
    with monkeypatch.context() as context:
        context.setattr(CatalogCommitter, "_publish", dies)
        for value in "abcd":
            change(path, statement, value)
    assert wait_for_maintenance(60)
    log, on_record = Path(path) / "_delta_log", model.schemas["s"]["t"].commits
    staged = sorted((log / "_staged_commits").iterdir())
    days_ago = (clock.milliseconds() - 5 * 24 * 3600 * 1000) / 1000
    for file in log.rglob("*.json"):
        os.utime(file, (days_ago, days_ago))
    for version in (1, 2):
        (log / f"{version:020}.json").write_bytes(staged[version - 1].read_bytes())
        if reported:
            del on_record[version]
    write_checkpoint(open_snapshot(path, statement, 2))
    model.allowed = ["METADATA_CLEANUP"]
    cleaned = truncate(open_snapshot(path, statement), 0)
    assert (cleaned is None) == (not reported)
    assert {file.name for file in staged[2:]} <= {*os.listdir(log / "_staged_commits")}
    change(path, statement, "e")
    for version in range(2, 6):
        assert (log / f"{version:020}.json").exists()


@pytest.mark.parametrize("missing", ["uri", "token"])
def test_a_catalog_without_an_address_or_a_token(confs, missing, make_statement):
    del confs[f"{SETTING}.{missing}"]
    with pytest.raises(HeadwaterError, match=f"spark.sql.catalog.main.{missing}") as raised:
        called("find_in_catalog")(ASKED, make_statement(confs))
    assert raised.value.condition == "HEADWATER_CATALOG_NOT_CONFIGURED"


def test_a_table_of_another_format_is_left_to_who_has_it(model, confs, make_statement):
    model.of_other_formats.add("t")
    statement = make_statement(confs)
    assert "location" not in called("find_in_catalog")(ASKED | {"others": True}, statement)
    with pytest.raises(HeadwaterError, match="no Delta table") as raised:
        called("find_in_catalog")(ASKED, statement)
    assert raised.value.condition == "HEADWATER_CATALOG_FAILED"


def test_a_catalog_that_is_away(confs, make_statement):
    confs[f"{SETTING}.uri"] = "http://127.0.0.1:1"
    with pytest.raises(HeadwaterError, match="cannot be reached") as raised:
        called("find_in_catalog")(ASKED, make_statement(confs))
    assert raised.value.condition == "HEADWATER_CATALOG_FAILED"


def test_what_became_of_a_commit_is_the_catalogs_to_say(model, confs, make_statement):
    """As the JVM asks after the handler has died: ratified and not yet published, never ratified, or nobody answers."""
    statement = make_statement(confs)
    make(statement)
    path = find(statement)
    change(path, statement)
    assert wait_for_maintenance(60)
    published = Path(path) / f"_delta_log/{1:020d}.json"
    own = next(json.loads(line)["commitInfo"] for line in published.read_text().splitlines() if "commitInfo" in line)
    published.unlink()
    begun = {"table": path, "version": 1, "path": str(published), "txnId": own["txnId"]}
    assert called("recover_commit")({"commit": begun}, statement)["version"] == 1
    later = {**begun, "version": 2, "path": str(published.with_name(f"{2:020d}.json"))}
    with pytest.raises(HeadwaterError) as raised:
        called("recover_commit")({"commit": later}, statement)
    assert raised.value.condition == "DELTA_COMMIT_NOT_MADE"
    away = make_statement({**confs, f"{SETTING}.uri": "http://127.0.0.1:1"})
    away.handles = statement.handles
    with pytest.raises(HeadwaterError, match="cannot be reached") as raised:
        called("recover_commit")({"commit": begun}, away)
    assert raised.value.condition == "HEADWATER_COMMIT_MAY_STAND"


MANAGED = {"catalogManaged", "inCommitTimestamp", "vacuumProtocolCheck"}


def test_a_stream_creates_the_table_that_the_catalog_demands(model, confs, make_statement):
    statement = make_statement(confs)
    path = noted(called("stage_in_catalog")(T, statement), statement)
    sink = {"table": path, "mode": "Append", "partitionColumns": [], "clusteringColumns": None, "options": {}}
    batch = {"sink": sink, "queryId": "q", "batchId": 0, "schema": schema_json(id="long")}
    asked = {"batch": batch, "plan": 0, "schema": batch["schema"], "version": None, "tableId": None}
    called("write_batch")({**asked, "readsTable": False}, statement)
    entry = model.schemas["s"]["t"]
    assert {*entry.protocol["writer-features"]} >= MANAGED
    assert entry.properties["delta.enableInCommitTimestamps"] == "true"


def test_files_become_the_table_that_the_catalog_demands(model, confs, make_statement):
    statement = make_statement(confs)
    path = noted(called("stage_in_catalog")(T, statement), statement)
    Path(path).mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array([1], pa.int64())}), f"{path}/1.parquet")
    fields = [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]
    schema = json.dumps({"type": "struct", "fields": fields})
    values = [["1", "1", "0"]]
    statement.footers = lambda *_: Footers(schemas=[schema], files=[FileFooter(schema=0, rows=1, statistics=values)])
    called("convert_to_delta")({"table": path, "format": "parquet", "entry": None, "arguments": {}}, statement)
    entry = model.schemas["s"]["t"]
    assert {*entry.protocol["writer-features"]} >= MANAGED
    assert entry.properties["delta.enableInCommitTimestamps"] == "true"
