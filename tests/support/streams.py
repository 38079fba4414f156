"""A table in the log alone, and streams over it."""

from __future__ import annotations

from dataclasses import replace

from headwater.change_data.schemas import VersionedDefinition
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.protocol.actions import AddFile, Protocol, RemoveFile
from headwater.stores import LocalStore, Store
from headwater.streams.commits import Commits
from headwater.streams.initial import InitialSnapshots
from headwater.streams.source import Reading, TableStream
from headwater.transaction import Provenance, Transaction
from support.commits import metadata


class Source:
    """A table, and streams over it."""

    def __init__(self, path: str, store: Store | None = None) -> None:
        self.path = path
        self.store = store or LocalStore()
        self.create("the-id")

    def create(self, table_id: str) -> None:
        """The table without files, at version 0."""
        txn = Transaction(self.path, self.store, None)
        txn.update_protocol(Protocol(1, 2))
        txn.update_metadata(replace(metadata(), id=table_id))
        txn.commit(Provenance("CREATE TABLE"))

    @property
    def snapshot(self) -> Snapshot:
        return load_snapshot(self.path, self.store)

    def commit(self, *actions: AddFile | RemoveFile) -> int:
        """Add and remove files; the version."""
        txn = Transaction(self.path, self.store, self.snapshot)
        txn.add([action for action in actions if isinstance(action, AddFile)])
        for action in actions:
            if isinstance(action, RemoveFile):
                txn.remove([action])
        return txn.commit(Provenance("WRITE", {"mode": "Append"})).version

    def stream(self, reading: Reading | None = None) -> TableStream:
        """A stream as a process that was just started sees it."""
        return self.stream_of(self.snapshot.version, reading)

    def stream_of(self, version: int, reading: Reading | None = None) -> TableStream:
        """A stream that started when this version was the newest."""
        newest = load_snapshot(self.path, self.store, version)
        return TableStream(
            self.path,
            self.store,
            VersionedDefinition.of(newest),
            reading or Reading(),
            lambda version: load_snapshot(self.path, self.store, version),
            Commits(),
            InitialSnapshots(),
        )
