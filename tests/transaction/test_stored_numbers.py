"""Numbers at the ends of their range: what another writer stored, and what a commit may not contain.

Whatever a log says, a commit that follows can be read back, and gives no row id twice; or it is refused, and nothing is
written.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.basics.errors import HeadwaterError
from headwater.log.checkpoint_writing import write_checkpoint
from headwater.protocol import action_shapes
from headwater.protocol.actions import AddCDCFile, DeletionVector, Metadata, Protocol, RemoveFile, SetTransaction
from headwater.protocol.file_names import commit_name
from headwater.protocol.row_tracking import DOMAIN
from headwater.protocol.types import PrimitiveType, StructField, StructType
from headwater.schema import mapping
from headwater.schema.identity import identity_columns
from headwater.transaction import Provenance, Transaction, wait_for_maintenance
from support.commits import add_file, append, create, metadata, newest, write_commit

LAST = 2**63 - 1
FEATURES = frozenset({"rowTracking", "domainMetadata", "inCommitTimestamp", "appendOnly", "invariants"})
PROTOCOL = Protocol(1, 7, None, FEATURES)


@pytest.fixture
def path(tmp_path):
    yield str(tmp_path / "t")
    wait_for_maintenance()


def foreign(path, *actions):
    """What another writer commits as the next version."""
    info = {"commitInfo": {"timestamp": 1, "inCommitTimestamp": 1}}
    write_commit(path, newest(path).version + 1, info, *actions)


def add(name, base=None, rows=10, **more):
    stats = {} if rows is None else {"stats": json.dumps({"numRecords": rows})}
    given = {} if base is None else {"baseRowId": base, "defaultRowCommitVersion": 1}
    always = {"path": name, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    return {"add": {**always, **given, **stats, **more}}


def mark(value):
    text = json.dumps({"rowIdHighWaterMark": value})
    return {"domainMetadata": {"domain": DOMAIN, "configuration": text, "removed": False}}


#: What another writer may have stored, and whether rows can still be added.
STORED = {
    "a mark below the ids of a file": ([add("x", 100), mark(5)], True),
    "ids without a mark": ([add("x", 100)], True),
    "ids without a mark or counts": ([add("x", 100, None)], True),
    "a count below zero": ([add("x", 100, -7), mark(5)], True),
    "a mark for a few more rows": ([mark(LAST - 20)], True),
    "a mark for the last rows": ([mark(LAST - 10)], True),
    "a mark that leaves too few": ([mark(LAST - 9)], False),
    "the last mark": ([mark(LAST)], False),
    "a mark beyond": ([mark(LAST + 1)], False),
    "a mark below the first": ([mark(-2)], False),
    "a mark that is true": ([mark(True)], False),
    "a file with the last ids": ([add("x", LAST - 9)], False),
    "a count that ends beyond": ([add("x", 5, LAST)], False),
    "the last size, time and count": ([add("x", size=LAST, modificationTime=LAST, rows=LAST)], True),
    "the last version of an application": ([{"txn": {"appId": "a", "version": LAST, "lastUpdated": LAST}}], True),
}


@pytest.mark.parametrize("stored", STORED)
def test_rows_are_added_to_what_others_stored_or_nothing_is_written(path, stored):
    create(path, protocol=PROTOCOL, delta_enableRowTracking="true")
    actions, goes_on = STORED[stored]
    foreign(path, *actions)
    before = newest(path)
    for name in ("a", "b") if goes_on and "last rows" not in stored else ("a",):
        if goes_on:
            append(newest(path), name)
        else:
            with pytest.raises(HeadwaterError, match="ROW_ID"):
                append(newest(path), name)
    after = newest(path)
    assert (after.version > before.version) == goes_on
    files = [f for f in after.files.to_pylist() if f["base_row_id"] is not None and f["path"] != "x"]
    starts = sorted(f["base_row_id"] for f in files)
    others = [f for f in after.files.to_pylist() if f["path"] == "x" and f["base_row_id"] is not None]
    assert all(second - first >= 10 for first, second in zip(starts, starts[1:], strict=False))
    assert all(start > other["base_row_id"] for start in starts for other in others)
    assert all(start + 9 <= LAST for start in starts)


def test_a_winner_with_ids_above_its_mark_is_believed(path):
    create(path, protocol=PROTOCOL, delta_enableRowTracking="true")
    behind = newest(path)
    foreign(path, add("x", 100), mark(5))
    append(behind, "a")
    assert {f["path"]: f["base_row_id"] for f in newest(path).files.to_pylist()} == {"x": 100, "a": 110}


@pytest.mark.parametrize("stamp", [LAST - 1, LAST])
def test_a_timestamp_at_the_end_of_time(path, stamp):
    protocol = Protocol(1, 7, None, FEATURES - {"rowTracking"})
    create(path, protocol=protocol, delta_enableInCommitTimestamps="true")
    foreign(path)
    commit = Path(path) / "_delta_log" / commit_name(1)
    commit.write_text(json.dumps({"commitInfo": {"timestamp": 1, "inCommitTimestamp": stamp}}) + "\n")
    if stamp < LAST:
        append(newest(path), "a")
        assert newest(path).timestamp == LAST
    with pytest.raises(HeadwaterError, match="HEADWATER_IN_COMMIT_TIMESTAMPS_EXHAUSTED"):
        append(newest(path), "b")
    assert newest(path).version == (2 if stamp < LAST else 1)


@pytest.mark.parametrize("stored", ["many", [], {}, None, 1.5, 1e400, True, LAST - 2, LAST, LAST + 1, -LAST - 2])
@pytest.mark.parametrize("step", [1, -1, LAST])
def test_identity_values_go_on_from_what_is_stored_or_are_refused(stored, step):
    identity = {"delta.identity.start": 0, "delta.identity.step": step, "delta.identity.allowExplicitInsert": False}
    field = StructField("i", PrimitiveType("long"), True, {**identity, "delta.identity.highWaterMark": stored})
    refused = None
    try:
        (column,) = identity_columns(StructType((field,)))
        value = column.next_value
    except HeadwaterError as error:
        refused = error.condition
    if refused is not None:
        assert refused.startswith("DELTA_IDENTITY_COLUMN")
        return
    assert type(value) is int
    assert -(2**63) <= value <= LAST
    assert column.further(value)


@pytest.mark.parametrize("key", ["version", "size", "parts", "sizeInBytes", "numOfAddFiles", "checksum"])
@pytest.mark.parametrize("stored", [2**63, LAST, -1, "x", None, 1.5, [], {}])
def test_a_hint_of_any_checkpoint_is_only_a_hint(path, key, stored):
    snapshot = create(path).snapshot
    for name in ("a", "b"):
        snapshot = append(snapshot, name).snapshot
    write_checkpoint(snapshot)
    hint = Path(path) / "_delta_log" / "_last_checkpoint"
    hint.write_text(json.dumps({**json.loads(hint.read_text()), key: stored}))
    assert newest(path).num_files == 2
    assert append(newest(path), "c").version == 3


def test_column_ids_do_not_pass_what_files_can_have():
    schema = metadata().schema
    assert mapping.assign(schema, 2**31 - 1 - len(schema))[1] == 2**31 - 1
    for highest in (2**31 - len(schema), LAST):
        with pytest.raises(HeadwaterError, match="HEADWATER_COLUMN_IDS_EXHAUSTED"):
            mapping.assign(schema, highest)


def whole_numbers():
    """A commit for each whole number that an action can have, one beyond its range."""
    vector = DeletionVector("u", "ab^-aqEH.-t@S}K{vb[*k^", 10, 1, 1)
    actions: dict[action_shapes.Shape, Any] = {
        action_shapes.ADD: replace(add_file("a"), base_row_id=1, default_row_commit_version=1),
        action_shapes.REMOVE: RemoveFile("a", 1, True, True, {}, 1, base_row_id=1, default_row_commit_version=1),
        action_shapes.CDC: AddCDCFile("a", {}, 1),
        action_shapes.TRANSACTION: SetTransaction("a", 1, 1),
        action_shapes.METADATA: replace(metadata(), created_time=1),
    }
    for shape, action in actions.items():
        for field in shape.fields:
            if pa.types.is_integer(field.type):
                for value in (2**63, 2**64):
                    yield pytest.param(replace(action, **{field.attribute: value}), id=f"{shape.kind}.{field.json}")
    for field in action_shapes.DELETION_VECTOR.fields:
        if pa.types.is_integer(field.type):
            beyond = replace(vector, **{field.attribute: 1 << (field.type.bit_width - 1)})
            yield pytest.param(replace(add_file("a"), deletion_vector=beyond), id=f"deletionVector.{field.json}")


@pytest.mark.parametrize("action", list(whole_numbers()))
def test_a_commit_that_no_reader_could_read_is_not_written(path, action):
    snapshot = create(path).snapshot
    txn = Transaction(path, snapshot.store, snapshot)
    (txn.update_metadata if isinstance(action, Metadata) else txn.add_action)(action)
    with pytest.raises(HeadwaterError, match="HEADWATER_COMMIT_NOT_READABLE") as refused:
        txn.commit(Provenance("WRITE"))
    assert refused.value.parameters["tableName"] == path
    assert newest(path).version == 0
