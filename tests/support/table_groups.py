"""Tables in memory, commits of several of them, and who reads them."""

from __future__ import annotations

import json
import uuid

from headwater.basics.errors import HeadwaterError
from headwater.groups import at_work
from headwater.groups.group_commit import Member
from headwater.groups.settling import SETTLER
from headwater.log import groups
from headwater.log.files import file_of
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import Protocol, RemoveFile, serialize
from headwater.protocol.file_names import commit_name
from headwater.transaction import Provenance, Transaction
from support.commits import add_file, metadata
from support.commits import create as create_table
from support.faults.faulty_store import FaultyStore
from support.stores.memory_store import MemoryStore

TABLES = ("/a", "/b", "/c")


def hasten(monkeypatch) -> None:
    """Backoff without waits, no patience with a writer that may be dead, and no maintenance; as in the handler."""
    monkeypatch.setattr("headwater.basics.backoff.Backoff.wait", lambda *_: None)
    monkeypatch.setattr(groups, "PATIENCE", 0.0)
    monkeypatch.setattr(groups, "GRACE", 0.1)
    monkeypatch.setattr("headwater.transaction.maintenance.schedule", lambda *_: None)
    monkeypatch.setattr("headwater.transaction.maintenance.later", lambda what, do: do())
    groups.settle_by(SETTLER)
    groups._known.clear()
    at_work._seen.clear()


def tables(*paths: str, **configuration: str) -> MemoryStore:
    """Tables with the file ``0`` each."""
    store = MemoryStore()
    for path in paths:
        create_table(path, add_file("0"), store=store, id=f"id of {path}", **configuration)
    return store


def append(path, store, name="new"):
    txn = Transaction(path, store, load_snapshot(path, store))
    txn.add([add_file(name)])
    return member(txn)


def rewrite(path, store, name="new", old="0"):
    snapshot = load_snapshot(path, store)
    txn = Transaction(path, store, snapshot)
    txn.read_whole_table()
    txn.remove([removal(path, store, old)])
    txn.add([add_file(name)])
    return member(txn)


def removal(path, store, name) -> RemoveFile:
    rows = load_snapshot(path, store, settled=False).files.to_pylist()
    return file_of(next(row for row in rows if row["path"] == name)).removal(2)


def member(txn) -> Member:
    return Member(txn, txn.prepare(Provenance("WRITE")))


def files(path, store) -> set[str]:
    """What a new process of ours reads."""
    groups._known.clear()
    return set(load_snapshot(path, store).files["path"].to_pylist())


def raw(path, store) -> set[str]:
    """What an engine reads that knows of no groups."""
    return set(load_snapshot(path, store, settled=False).files["path"].to_pylist())


def foreign(path, store, *actions) -> None:
    """A commit of an engine that knows of no groups, whatever it is on top of."""
    version = load_snapshot(path, store, settled=False).version + 1
    info = b'{"commitInfo":{"operation":"FOREIGN","isBlindAppend":false}}\n'
    store.put_if_absent(f"{path}/_delta_log/{commit_name(version)}", info + serialize(actions))


def forged(store, path, version=1, **group) -> None:
    """A commit of a writer of one table that claims to be of a group."""
    said = {"id": str(uuid.uuid4()), "table": path, "coordinator": path, "since": version, "participants": [], **group}
    info = json.dumps({"commitInfo": {"operation": "WRITE", "transactionGroup": said}}).encode()
    store.put_if_absent(f"{path}/_delta_log/{commit_name(version)}", info + b"\n" + serialize([add_file("forged")]))


class ReadOnly(FaultyStore):
    """A store of somebody who may only read."""

    def put_if_absent(self, path: str, data: bytes) -> None:
        raise PermissionError(path)

    def put(self, path: str, data: bytes) -> None:
        raise PermissionError(path)

    def make_directory(self, path: str) -> None:
        raise PermissionError(path)


def create(path, store, name="new"):
    """A member whose table is created by its group."""
    txn = Transaction(path, store, None)
    txn.update_protocol(Protocol(1, 2))
    txn.update_metadata(metadata(id=f"id of {path}"))
    txn.add([add_file(name)])
    return member(txn)


def files_if_there(path, store) -> set[str] | None:
    """As :func:`files`; None where there is no table."""
    try:
        return files(path, store)
    except HeadwaterError as error:
        if error.condition in ("DELTA_TABLE_NOT_FOUND", "DELTA_EMPTY_DIRECTORY"):
            return None
        raise
