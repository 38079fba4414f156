"""Commits that are not ours: actions, fields and domains this version does not know.

The protocol has readers pass over what they do not know, since whatever must be understood comes with a feature. What
of it is state (domains, the metadata's own fields) stays through checkpoints, compacted logs and later commits.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater.log.checkpoint_writing import write_checkpoint
from headwater.log.history import history
from headwater.log.log_compaction import COMMITS, write_compaction
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import AddFile, DomainMetadata
from headwater.stores import LocalStore
from headwater.transaction import Provenance, Transaction, wait_for_maintenance
from support.commits import write_log

SCHEMA = json.dumps(
    {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {"theirs": {"x": 1}}}]}
)
#: The commits of another engine, some years ahead.
COMMITS_OF_OTHERS: list[list[dict[str, Any]]] = [
    [
        {"commitInfo": {"operation": "MAKE", "theirs": {"deep": [1, None]}, "isBlindAppend": "perhaps"}},
        {
            "protocol": {
                "minReaderVersion": 1,
                "minWriterVersion": 7,
                "writerFeatures": ["domainMetadata"],
                "theirs": True,
            }
        },
        {
            "metaData": {
                "id": "their-id",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": SCHEMA,
                "partitionColumns": [],
                "configuration": {"theirs.setting": "7"},
                "theirs": {"kept": True},
            }
        },
        {"domainMetadata": {"domain": "theirs.stays", "configuration": '{"a":1}', "removed": False, "more": 1}},
        {"domainMetadata": {"domain": "theirs.goes", "configuration": "", "removed": False}},
        {"fromTheFuture": {"path": "x", "size": 3}},
    ],
    [
        {
            "add": {
                "path": "a",
                "partitionValues": {},
                "size": 1,
                "modificationTime": 1,
                "dataChange": True,
                "stats": '{"numRecords":2,"theirs":{}}',
                "theirs": {"add": "me"},
            }
        },
        {"add": {"path": "b", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}},
        {"txn": {"appId": "app", "version": 4, "lastUpdated": 9, "theirs": 0}},
        {"anotherOne": None},
        {"yetAnother": 5},
    ],
    [
        {"remove": {"path": "b", "dataChange": True, "deletionTimestamp": 4_000_000_000_000, "theirs": [1]}},
        {"domainMetadata": {"domain": "theirs.goes", "configuration": "", "removed": True}},
        {"checkpointOfTheFuture": {"add": {"path": "no file"}}},
    ],
]


@pytest.fixture
def path(tmp_path):
    return write_log(tmp_path / "t", *COMMITS_OF_OTHERS)


def check(snapshot):
    """All that is known of the three commits, and nothing else."""
    paths = snapshot.select(["path"])["path"].to_pylist()
    assert [p for p in paths if not p.startswith("ours")] == ["a"]
    assert snapshot.domain_metadata == {"theirs.stays": DomainMetadata("theirs.stays", '{"a":1}')}
    assert snapshot.set_transactions["app"].version == 4
    assert snapshot.metadata.configuration["theirs.setting"] == "7"
    assert json.loads(snapshot.metadata.schema_string) == json.loads(SCHEMA)
    assert "b" in snapshot.tombstones()["path"].to_pylist()


def append(snapshot, name):
    txn = Transaction(snapshot.table_path, snapshot.store, snapshot)
    txn.add([AddFile(name, {}, 1, 1)])
    return txn.commit(Provenance("WRITE")).snapshot


def test_what_is_unknown_is_passed_over_and_what_is_state_stays(path):
    snapshot = load_snapshot(path, LocalStore())
    check(snapshot)
    committed = append(snapshot, "ours")
    write_checkpoint(committed)
    assert wait_for_maintenance(60)
    for commit in (Path(path) / "_delta_log").glob("*[0-9].json"):
        commit.unlink()
    check(load_snapshot(path, LocalStore()))


def test_the_metadatas_own_fields_are_written_again(path):
    snapshot = load_snapshot(path, LocalStore())
    txn = Transaction(path, LocalStore(), snapshot)
    txn.update_metadata(replace(snapshot.metadata, description="ours"))
    version = txn.commit(Provenance("CHANGE")).version
    lines = (Path(path) / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
    (metadata,) = [action["metaData"] for action in map(json.loads, lines) if "metaData" in action]
    assert metadata["theirs"] == {"kept": True}
    assert metadata["description"] == "ours"


def test_history_shows_provenance_as_it_is(path):
    info = history(path, LocalStore())[-1].commit_info
    assert info == COMMITS_OF_OTHERS[0][0]["commitInfo"]


def test_a_blind_append_by_a_word_we_do_not_know_is_none(path):
    """Their appends of version 1 say nothing of what they read: who read the table loses to them, and is told."""
    txn = Transaction(path, LocalStore(), load_snapshot(path, LocalStore(), 0))
    txn.add([AddFile("ours", {}, 1, 1)])
    assert txn.commit(Provenance("WRITE")).version == 3


def test_a_compacted_log_has_it_too(path):
    snapshot = load_snapshot(path, LocalStore())
    for number in range(COMMITS - snapshot.version):
        snapshot = append(snapshot, f"ours-{number}")
    assert wait_for_maintenance(60)
    log = Path(path) / "_delta_log"
    assert write_compaction(snapshot) is not None
    for version in range(1, COMMITS):  # which must now stand in for them
        (log / f"{version:020d}.json").unlink()
    for checkpoint in log.glob("*.checkpoint*"):
        checkpoint.unlink()
    (log / "_last_checkpoint").unlink(missing_ok=True)
    check(load_snapshot(path, LocalStore()))
