"""A table keeps the memory of its deletions over every change that leaves it the same table; no other table has it."""

from __future__ import annotations

import itertools
import random
import time
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest

from headwater.log.checkpoint_writing import write_checkpoint
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.protocol.actions import Metadata, Protocol
from headwater.protocol.types import StructField, StructType, schema_string
from headwater.schema import mapping
from headwater.sql.composing import Relation
from headwater.statements.running import opening
from headwater.statements.upserts.deleted_keys import Remembering
from headwater.statements.upserts.events import Events
from headwater.statements.upserts.finding import companion_in
from headwater.transaction import Provenance, Transaction, maintenance
from support.deleting_batches import INT, ROWS, events_with
from support.recording_statement import RecordingStatement
from support.requests import called, create_request, create_table, data_file
from support.stores.memory_store import MemoryStore

_PATHS = itertools.count()


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setattr(maintenance, "schedule", lambda *_: None)


class Table:
    """A table in memory whose definition changes, and batches that delete keys of it.

    What takes physical names away comes next to deletions, which note the names of the keys.
    """

    def __init__(self, monkeypatch: Any, **configuration: str) -> None:
        self.path, self.disk = f"/found{next(_PATHS)}", MemoryStore()
        monkeypatch.setattr(opening, "store_for", lambda table, *_: (self.disk, table))
        self.times, self.names = itertools.count(1), map(str, itertools.count())
        self.commit(
            Metadata("t", schema_string(ROWS), (), configuration, created_time=next(self.times)), "CREATE TABLE"
        )
        #: The name of the column by which rows are upserted.
        self.key = "id"

    @property
    def now(self) -> Snapshot:
        return load_snapshot(self.path, self.disk)

    def commit(self, metadata: Metadata, operation: str) -> None:
        is_new = metadata.created_time == 1 and not self.disk.exists(self.path)
        txn = Transaction(self.path, self.disk, None if is_new else self.now)
        txn.update_protocol(Protocol(2, 5))
        txn.update_metadata(metadata)
        txn.commit(Provenance(operation))

    def change(
        self, schema: StructType | None = None, mode: str | None = None, operation: str = "X", **more: Any
    ) -> None:
        old = self.now.metadata
        configuration = dict(old.configuration)
        if mode is not None:
            configuration["delta.columnMapping.mode"] = mode
        if schema is not None:
            more["schema_string"] = schema_string(schema)
        self.commit(replace(old, configuration=configuration, **more), operation)

    @property
    def is_mapped(self) -> bool:
        return self.now.metadata.configuration.get("delta.columnMapping.mode", "none") != "none"

    def events(self) -> Events:
        field = self.now.schema.find(self.key)
        assert field is not None
        return replace(events_with(idcols=self.key), keys=[field])

    def found(self) -> str:
        return companion_in(self.now, self.events(), RecordingStatement()).id

    def delete(self) -> str:
        """A batch that deletes a key; the companion's id."""
        now, events = self.now, self.events()
        statement = RecordingStatement()
        name = f"part-{next(self.names)}.parquet"
        statement.written = [[data_file(name, 1, [[1, 1, 0]] * 3)]]
        companion = companion_in(now, events, statement)
        number = Remembering(companion, events, Relation(0), None, statement).bind(now)
        assert number is not None
        txn = Transaction(self.path, self.disk, now)
        txn.set_transaction(companion.application, number)
        txn.commit(Provenance("MERGE"))
        return companion.id

    # -- Changes after which it is the same table ----------------------------------------------------------------------

    def rename(self) -> None:
        if self.is_mapped:
            new = f"key{next(self.names)}"
            fields = [replace(f, name=new) if f.name == self.key else f for f in self.now.schema]
            self.key = new
            self.change(StructType(tuple(fields)), operation="RENAME COLUMN")

    def map(self) -> None:
        if not self.is_mapped:
            self.change(mapping.assign(self.now.schema, 0, keep_names=True)[0], "name", "SET TBLPROPERTIES")

    def unmap(self) -> None:
        if self.is_mapped:
            self.change(mapping.strip(self.now.schema), "none", "SET TBLPROPERTIES")
            self.delete()

    def overwrite(self) -> None:
        """With its schema: the columns are new ones."""
        self.delete()
        schema = mapping.strip(self.now.schema)
        self.change(mapping.assign(schema, 10)[0] if self.is_mapped else schema, operation="WRITE")
        self.delete()

    def date(self) -> None:
        """As another engine does that dates the action."""
        self.change(created_time=next(self.times), operation="SET TBLPROPERTIES")

    def save(self) -> None:
        """As saveAsTable does that overwrites."""
        self.change(description=next(self.names), operation="CREATE OR REPLACE TABLE AS SELECT")

    def bring(self) -> None:
        """As a deep clone does that is brought to a newer version."""
        self.change(description=next(self.names), operation="CLONE")

    def clean(self) -> None:
        """The log loses what is older than a checkpoint."""
        now = self.now
        write_checkpoint(now)
        for version in range(now.version + 1):
            self.disk.delete(f"{self.path}/_delta_log/{version:020d}.json")
        txn = Transaction(self.path, self.disk, now)
        txn.set_transaction("another", now.version)
        txn.commit(Provenance("WRITE"))

    def hide(self) -> None:
        """The key gets another name, and another column the key's. It is no key."""
        if self.is_mapped:
            old = self.key
            self.rename()
            number = 100 + int(next(self.names))
            column = StructField(old, INT, metadata={mapping.COLUMN_ID: number, mapping.PHYSICAL_NAME: f"col-{number}"})
            self.change(StructType((*self.now.schema, column)), operation="ADD COLUMNS")
            key, self.key = self.key, old
            assert not self.disk.exists(companion_in(self.now, self.events(), RecordingStatement()).path)
            self.key = key
            self.delete()

    # -- Changes after which it may be another one ---------------------------------------------------------------------

    def replace(self) -> None:
        self.change(created_time=next(self.times), operation="CREATE OR REPLACE TABLE")

    def clone(self) -> None:
        source = f"{self.path}-source"
        if not self.disk.exists(source):
            create_table(create_request(source, schema_string(ROWS)), RecordingStatement())
        arguments = {"isShallow": self.now.version % 2 == 0}
        request = {"table": self.path, "mode": "create_or_replace", "source": source, "arguments": arguments}
        # Tables are told apart by the millisecond.
        time.sleep(0.001)
        called("clone")(request, RecordingStatement())

    def restore(self, version: int) -> None:
        request = {"table": self.path, "name": "t", "arguments": {"version": str(version)}}
        called("restore")(request, RecordingStatement())


@pytest.mark.parametrize("expires", [False, True])
def test_a_deletion_is_remembered_as_long_as_the_table_is_the_same(monkeypatch, expires):
    more = {"delta.setTransactionRetentionDuration": "interval 1 seconds"} if expires else {}
    for seed in range(15):
        chance, table = random.Random(seed), Table(monkeypatch, **more)
        done: list[str] = []
        replaced = set[str]()
        try:
            one = table.delete()
            for _ in range(12):
                done.append(
                    chance.choice(["rename", "map", "map", "unmap", "overwrite", "date", "hide", "delete", "replace"])
                )
                if done[-1] == "replace":
                    replaced.add(one)
                    table.replace()
                    assert table.found() not in replaced
                    one = table.delete()
                    assert one not in replaced
                    continue
                getattr(table, done[-1])()
                assert table.found() == one
        except Exception as error:
            raise AssertionError(f"table {seed} after {done}") from error


@pytest.mark.parametrize("is_cleaned", [False, True])
def test_each_of_the_tables_that_there_have_been_has_a_memory_of_its_own(monkeypatch, is_cleaned):
    """A table that comes back has its own again, at most if the log has lost its definition."""
    steps = ["date", "save", "bring", "delete", "delete", "replace", "clone", "restore", "restore"]
    for seed in range(60):
        chance, table = random.Random(seed), Table(monkeypatch)
        done: list[object] = []
        # By version, which table it is of; the companions of each.
        which, memories = {table.now.version: 0}, defaultdict[int, set[str]](set)
        try:
            for number in range(1, 13):
                one = which[table.now.version]
                done.append(chance.choice([*steps, *["clean"] * is_cleaned]))
                if done[-1] == "restore":
                    one = chance.choice(sorted(set(which.values())))
                    done.append(version := chance.choice([v for v in which if which[v] == one]))
                    table.restore(version)
                elif done[-1] == "delete":
                    memories[one].add(table.delete())
                else:
                    one = number if done[-1] in ("replace", "clone") else one
                    getattr(table, str(done[-1]))()
                if done[-1] == "clean":
                    which = {table.now.version - 1: one}
                which[table.now.version] = one
                found = table.found()
                assert not any(found in memories[other] for other in memories.keys() - {one})
                assert is_cleaned or not memories[one] or memories[one] == {found}
        except Exception as error:
            raise AssertionError(f"table {seed} after {done}") from error


def test_other_keys_have_a_memory_of_their_own(monkeypatch):
    table = Table(monkeypatch)
    one = table.delete()
    table.key = "at"
    assert table.found() != one
    other = table.delete()
    table.date()
    assert table.found() == other
    table.key = "id"
    assert table.found() == one


@pytest.mark.parametrize("lost", [False, True])
def test_a_companion_that_notes_nothing_is_found_by_its_name(monkeypatch, lost):
    """As that of an older release; once the log has lost what came in between, it may be another table's."""
    monkeypatch.setattr("headwater.statements.upserts.deleted_keys.Companion.properties", {})
    table = Table(monkeypatch)
    one = table.delete()
    table.map()
    table.overwrite()
    table.date()
    write_checkpoint(table.now)
    for version in range(table.now.version if lost else 0):
        table.disk.delete(f"{table.path}/_delta_log/{version:020d}.json")
    assert (table.found() == one) != lost


def test_a_key_that_was_renamed_before_the_mapping_ended(monkeypatch):
    table = Table(monkeypatch)
    one = table.delete()
    table.map()
    table.rename()
    table.unmap()
    assert table.found() == one
