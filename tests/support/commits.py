"""What the tests of transactions share: tables of one column, and files that exist in the log only."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headwater.log.snapshot import Snapshot
from headwater.log.snapshot_cache import SnapshotCache
from headwater.protocol.actions import AddFile, Metadata, Protocol, RemoveFile
from headwater.protocol.types import PrimitiveType, StructField, StructType, schema_string
from headwater.stores import LocalStore, Store
from headwater.transaction import Committed, Provenance, Transaction, wait_for_maintenance

SCHEMA = StructType((StructField("id", PrimitiveType("long")), StructField("day", PrimitiveType("string"))))


def metadata(partitioned: bool = False, **configuration: str) -> Metadata:
    """Metadata of a table with the columns ``id`` and ``day``; underscores in names of properties stand for dots."""
    settings = {name.replace("_", "."): value for name, value in configuration.items()}
    return Metadata("the-id", schema_string(SCHEMA), ("day",) if partitioned else (), settings, created_time=1)


def add_file(path: str, low: int = 0, high: int = 9, day: str | None = None, data_change: bool = True) -> AddFile:
    stats = f'{{"numRecords":10,"minValues":{{"id":{low}}},"maxValues":{{"id":{high}}},"nullCount":{{"id":0}}}}'
    return AddFile(path, {} if day is None else {"day": day}, 100, 1, data_change, stats)


def remove_file(path: str, data_change: bool = True, day: str | None = None) -> RemoveFile:
    return RemoveFile(path, 2, data_change, True, {} if day is None else {"day": day}, 100)


def create(
    path: str,
    store: Store | None = None,
    protocol: Protocol | None = None,
    cache: SnapshotCache | None = None,
    **settings,
) -> Committed:
    txn = Transaction(path, store or LocalStore(), None, cache)
    txn.update_protocol(protocol or Protocol(1, 2))
    txn.update_metadata(metadata(**settings))
    return txn.commit(Provenance("CREATE TABLE"))


def append(snapshot: Snapshot, *paths: str, store: Store | None = None, **commit) -> Committed:
    txn = Transaction(snapshot.table_path, store or snapshot.store, snapshot)
    txn.add(add_file(path) for path in paths)
    return txn.commit(Provenance("WRITE", {"mode": "Append"}), **commit)


def edit_log(table: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    """Have ``edit`` change each action of a table's commits in place, as if another writer had written them.

    What a writer notes beside its commits, such as a checksum, is of what they said before: it goes.
    """
    assert wait_for_maintenance(60)  # it writes the checksums
    for commit in table.glob("_delta_log/*.json"):
        lines = [json.loads(line) for line in commit.read_text().splitlines()]
        for line in lines:
            edit(line)
        commit.write_text("".join(json.dumps(line) + "\n" for line in lines))
        commit.with_name(f".{commit.name}.crc").unlink(missing_ok=True)
    for checksum in table.glob("_delta_log/*.crc"):
        checksum.unlink()
