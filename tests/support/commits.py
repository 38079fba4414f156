"""Tables without a JVM: their logs are real, their files exist in the log only.

:func:`create` and :func:`commit` make one version per call, of the actions given; :func:`later` is a commit of another
writer, for whoever lets it in. :func:`write_commit` writes a version as another engine may have written it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from headwater.definition.requirements import protocol_for
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.log.snapshot_cache import SnapshotCache
from headwater.protocol.actions import Action, AddFile, Metadata, Protocol, RemoveFile
from headwater.protocol.file_names import commit_name
from headwater.protocol.types import PrimitiveType, StructField, StructType, schema_string
from headwater.stores import LocalStore, Store
from headwater.transaction import Committed, Provenance, Transaction, wait_for_maintenance

SCHEMA = StructType((StructField("id", PrimitiveType("long")), StructField("day", PrimitiveType("string"))))


def metadata(partitioned: bool = False, id: str = "the-id", **configuration: str) -> Metadata:
    """Metadata of a table with the columns ``id`` and ``day``; underscores in names of properties stand for dots."""
    settings = {name.replace("_", "."): value for name, value in configuration.items()}
    return Metadata(id, schema_string(SCHEMA), ("day",) if partitioned else (), settings, created_time=1)


def add_file(path: str, low: int = 0, high: int = 9, day: str | None = None, data_change: bool = True) -> AddFile:
    stats = f'{{"numRecords":10,"minValues":{{"id":{low}}},"maxValues":{{"id":{high}}},"nullCount":{{"id":0}}}}'
    return AddFile(path, {} if day is None else {"day": day}, 100, 1, data_change, stats)


def one_row(path: str, **partition: str) -> AddFile:
    """A file of whose row nothing is known."""
    return AddFile(path, partition, 1, 1, True, '{"numRecords":1}')


def remove_file(path: str, data_change: bool = True, day: str | None = None) -> RemoveFile:
    return RemoveFile(path, 2, data_change, True, {} if day is None else {"day": day}, 100)


def create(
    path: str | Path,
    *actions: Action,
    store: Store | None = None,
    protocol: Protocol | None = None,
    cache: SnapshotCache | None = None,
    table: Metadata | None = None,
    **settings,
) -> Committed:
    """Version 0: a table as :func:`metadata` describes it by ``settings``, unless ``table`` is given."""
    txn = Transaction(str(path), store or LocalStore(), None, cache)
    _take(txn, protocol or Protocol(1, 2), table or metadata(**settings), *actions)
    return txn.commit(Provenance("CREATE TABLE"))


def newest(of: Snapshot | str | Path, store: Store | None = None) -> Snapshot:
    path, store = (of.table_path, of.store) if isinstance(of, Snapshot) else (of, store)
    return load_snapshot(str(path), store or LocalStore())


def live(path: str | Path, store: Store | None = None) -> list[str]:
    """The paths of the newest version's files."""
    return sorted(newest(path, store).files["path"].to_pylist())


def changing(on: Snapshot | str | Path, *actions: Action, is_blind: bool = True) -> Transaction:
    """A transaction with these actions, on a snapshot or on the newest version there.

    :param is_blind: whether it read nothing; otherwise it read the whole table.
    """
    snapshot = on if isinstance(on, Snapshot) else newest(on)
    txn = Transaction(snapshot.table_path, snapshot.store, snapshot)
    if not is_blind:
        txn.read_whole_table()
    _take(txn, *actions)
    return txn


def _take(txn: Transaction, *actions: Action) -> None:
    for action in actions:
        match action:
            case Metadata():
                txn.update_metadata(action)
            case Protocol():
                txn.update_protocol(action)
            case _:
                txn.add_action(action)


def commit(on: Snapshot | str | Path, *actions: Action, operation: str = "WRITE", is_blind: bool = True) -> Committed:
    return changing(on, *actions, is_blind=is_blind).commit(Provenance(operation))


def later(path: str | Path, *actions: Action | Callable[[Snapshot], Iterable[Action]], is_blind: bool = True):
    """Another writer's commit, on whatever is the newest version once it is called.

    :param actions: a function makes some of that version.
    """

    def commit_then() -> None:
        now = newest(path)
        made = [(action,) if isinstance(action, Action) else action(now) for action in actions]
        commit(now, *chain.from_iterable(made), is_blind=is_blind)

    return commit_then


def redefined(change: Callable[[Metadata], Metadata]) -> Callable[[Snapshot], list[Action]]:
    """For :func:`later`: another definition of the table, with the protocol that it needs."""

    def actions(now: Snapshot) -> list[Action]:
        metadata = change(now.metadata)
        return [protocol_for(metadata, now.protocol), metadata]

    return actions


def append(snapshot: Snapshot, *paths: str, store: Store | None = None, **commit) -> Committed:
    txn = Transaction(snapshot.table_path, store or snapshot.store, snapshot)
    txn.add(add_file(path) for path in paths)
    return txn.commit(Provenance("WRITE", {"mode": "Append"}), **commit)


def write_commit(path: str | Path, version: int, *actions: Action | Mapping[str, Any]) -> None:
    """A commit as any engine may have written it; an action is its JSON, or ours."""
    log = Path(path) / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(action if isinstance(action, Mapping) else action.to_json()) for action in actions]
    (log / commit_name(version)).write_text("".join(f"{line}\n" for line in lines))


def write_log(path: str | Path, *commits: Iterable[Action | Mapping[str, Any]]) -> str:
    """The versions from 0 on, as :func:`write_commit` writes each; returns the table's path."""
    for version, actions in enumerate(commits):
        write_commit(path, version, *actions)
    return str(path)


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
