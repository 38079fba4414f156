"""Batches that each delete a key, step by step and without Spark: a table, its companion, and what must count.

A batch looks at the table, has its deletion remembered, and commits to the table; between any two steps it may fail,
and others may do anything. :meth:`World.check` compares what is remembered with what the table's log says.
"""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa

from headwater.basics.backoff import Backoff
from headwater.basics.errors import HeadwaterError
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.protocol.actions import AddFile, Metadata, Protocol
from headwater.protocol.types import PrimitiveType, StructField, StructType, schema_string
from headwater.sql.composing import Relation
from headwater.statements.internal_names import InternalNames
from headwater.statements.running import opening
from headwater.statements.running.opening import Options
from headwater.statements.upserts import binding
from headwater.statements.upserts.deleted_keys import Companion, Note, Remembering, confirm, deletions_of
from headwater.statements.upserts.events import Events
from headwater.statements.writes.upsert_options import upsert_of
from headwater.stores import Store
from headwater.transaction import Provenance, Transaction
from support.faults.scenario import read_commits
from support.recording_statement import RecordingStatement
from support.requests import data_file
from support.stores.memory_store import MemoryStore

INT = PrimitiveType("integer")
ROWS = StructType((StructField("id", INT), StructField("at", INT)))
PATH = "/table"
_WORLDS = itertools.count()


def events_with(**options: str) -> Events:
    """Events of keys that may be deleted."""
    upsert = upsert_of(Options({"idcols": "id", "sequenceby": "at", "deletewhen": "gone", **options}))
    return Events(upsert, ROWS, [ROWS.fields[0]], INT, {}, frozenset(), InternalNames.beside(ROWS.names))


def clocked(monkeypatch: Any, now: Any) -> None:
    """Everything that looks at the time of batches, tables and companions sees another one, in seconds."""
    monkeypatch.setattr("headwater.basics.clock.milliseconds", lambda: int(now() * 1000))
    monkeypatch.setattr("headwater.basics.backoff.OF_STATEMENTS", Backoff(0, 0))


class World:
    """A table in memory, and the files of its companion by what is in them.

    :param retention: the table's ``delta.setTransactionRetentionDuration``; None for none.
    """

    def __init__(self, monkeypatch: Any, retention: str | None = None, **options: str) -> None:
        self.path = f"{PATH}{next(_WORLDS)}"
        self.now = 1e9
        self.disk = MemoryStore(lambda: int(self.now * 1000))
        self.store: Store = self.disk
        clocked(monkeypatch, lambda: self.now)
        monkeypatch.setattr(opening, "store_for", lambda table, *_: (self.store, table))
        self.companion = Companion(
            "c", f"{self.path}/_headwater_upsert/t-c", ["key_id"], Note("t", {"key_id": ("id", "id")}, False)
        )
        self.events = events_with(**options)
        self.contents = dict[str, set[str]]()
        self.names = map(str, itertools.count(1))
        txn = Transaction(self.path, self.disk, None)
        settings = {} if retention is None else {"delta.setTransactionRetentionDuration": retention}
        txn.update_protocol(Protocol(1, 2))
        txn.update_metadata(Metadata("t", schema_string(ROWS), (), settings, created_time=1))
        txn.commit(Provenance("CREATE"))

    def set_store(self, store: Store) -> None:
        """Have all calls go to another store from now on."""
        self.store = store
        for path in (self.path, self.companion.path):
            opening.CACHE.forget(path)

    def copy(self, disk: MemoryStore) -> None:
        """Go on from a copy of a disk."""
        self.disk = disk.copy()
        self.set_store(self.disk)

    def batch(self) -> Batch:
        return Batch(self, next(self.names))

    def table(self) -> Snapshot:
        return load_snapshot(self.path, self.disk)

    def companion_files(self) -> pa.Table:
        """The companion's files."""
        return load_snapshot(self.companion.path, self.disk).files

    def in_table(self) -> set[str]:
        """The batches whose commit is in the table."""
        found = set()
        for actions in read_commits(self.disk, self.path).values():
            found |= {action["commitInfo"].get("userMetadata") for action in actions if "commitInfo" in action}
        return found - {None}

    def remembered(self) -> set[str]:
        """The batches whose deletions count, for somebody who looks at the newest version."""
        deletions = deletions_of(self.companion, self.table(), RecordingStatement())
        paths = [] if deletions is None else deletions.files["path"].to_pylist()
        return set().union(*(self.contents[path] for path in paths))

    def check(self) -> None:
        """The deletions that count are those of the batches in the table."""
        remembered, in_table = self.remembered(), self.in_table()
        assert remembered == in_table


class Batch(RecordingStatement):
    """A batch that deletes a key; each step may be its last one."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__()
        self.world, self.name = world, name
        self.remembering = Remembering(world.companion, world.events, Relation(0), None, self)
        self.view: Snapshot | None = None
        self.number: int | None = None

    def write(self, specification: Any) -> Any:
        """A file with the deletion, or with those of the files that the query reads."""
        world = self.world
        name = f"part-{len(world.contents)}.parquet"
        read = [row[0].rpartition("/")[2] for relation in self.relations for row in relation[2]]
        self.relations.clear()
        world.contents[name] = set().union(*(world.contents[each] for each in read)) if read else {self.name}
        world.disk.make_directory(world.companion.path)
        world.disk.put(f"{world.companion.path}/{name}", b"rows")
        file = data_file(name, len(world.contents[name]), [[1, 1, 0]] * 3)
        self.written = [[{**file, "size": 1000, "modificationTime": int(world.now * 1000)}]]
        return super().write(specification)

    def look(self) -> None:
        self.view = opening.open_snapshot(self.world.path, self)

    def bind(self) -> None:
        assert self.view is not None
        self.number = self.remembering.bind(self.view)
        deletions_of(self.world.companion, self.view, self)

    def commit(self) -> bool:
        """Commit, as an upsert does that has looked at a version; False where it has to look again."""
        assert self.view is not None
        assert self.number is not None
        txn = Transaction(self.world.path, self.world.store, self.view)
        txn.transaction_version(self.world.companion.application)
        txn.add([AddFile(f"rows-{self.name}.parquet", {}, 1, 1)])
        txn.set_transaction(self.world.companion.application, self.number)
        try:
            txn.commit(Provenance("MERGE", user_metadata=self.name))
        except HeadwaterError as error:
            if error.condition == "DELTA_CONCURRENT_TRANSACTION":
                return False
            raise
        return True

    def confirm(self) -> None:
        if self.number is not None and binding.may_have_expired(self.world.table()):
            confirm(self.world.companion, (self.number,), self)

    def run(self) -> None:
        """All of it."""
        for _ in range(5):
            self.look()
            self.bind()
            if self.commit():
                self.confirm()
                return
        raise AssertionError("it loses to nobody")
