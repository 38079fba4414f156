"""The commit protocol against a model: several writers and readers, and any interleaving of their store calls.

Hypothesis chooses who begins what, who makes the next call, and who dies. The checks: versions have no gap; what was
acknowledged is in the log once; nobody is told of a conflict who was in none, nor commits who was, and the condition
is the right one (:mod:`oracle`); a reader sees one version whole, and none older than what was acknowledged when it
began.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from headwater.basics.backoff import Backoff
from headwater.basics.errors import HeadwaterError
from headwater.log.checkpoint_writing import write_checkpoint
from headwater.log.checksums import write_checksum
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.protocol.actions import AddFile, Metadata, Protocol, RemoveFile
from headwater.pruning.predicates import Column, Comparison, Literal
from headwater.stores import Store
from headwater.transaction import Provenance, Transaction, maintenance
from support.concurrency.oracle import KINDS, Commit, Operation, judge, read_log
from support.concurrency.stepping import Killed, Stepper
from support.stores.memory_store import MemoryStore

PATH = "/table"
SCHEMA = (
    '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},'
    '{"name":"day","type":"string","nullable":true,"metadata":{}}]}'
)
DAYS = ("mon", "tue")
MOST_AT_ONCE = 4
SEEN: Counter[str] = Counter()


class CommitProtocol(RuleBasedStateMachine):
    """The table has two partitions; what is not a fault of the protocol itself is left to ``tests/faults``."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = MemoryStore()
        self.operations: dict[str, Operation] = {}
        self.running: dict[str, Stepper] = {}
        self.readers: dict[str, tuple[Stepper, int]] = {}
        self.snapshots: list[Snapshot] = []
        self.count = 0

    @initialize(serializable=st.booleans())
    def create(self, serializable):
        self.serializable = serializable
        txn = Transaction(PATH, self.disk, None)
        txn.update_protocol(Protocol(1, 2))
        level = "Serializable" if serializable else "WriteSerializable"
        configuration = {"delta.isolationLevel": level, "delta.checkpointInterval": "3"}
        txn.update_metadata(Metadata("the-id", SCHEMA, ("day",), configuration, created_time=1))
        txn.add(file(f"{day}/0", day) for day in DAYS)
        txn.commit(Provenance("CREATE TABLE", user_metadata="create"))

    @precondition(lambda self: len(self.running) < MOST_AT_ONCE)
    @rule(some=st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(DAYS)), min_size=1, max_size=3))
    def begin(self, some):
        """Writers open the newest version; each stands before the put of its commit."""
        snapshot = load_snapshot(PATH, self.disk)
        for kind, day in some:
            self.count += 1
            name = f"{self.count} {kind} {day}"
            operation = Operation(name, kind, day, snapshot.version, self.serializable)
            self.operations[name] = operation
            self.running[name] = Stepper(name, self.disk, partial(begun, snapshot, operation))

    @precondition(lambda self: self.running)
    @rule(data=st.data(), steps=st.integers(1, 4))
    def step(self, data, steps):
        self._advance(data.draw(st.sampled_from(sorted(self.running))), steps)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def kill(self, data):
        stepper = self.running.pop(data.draw(st.sampled_from(sorted(self.running))))
        stepper.kill()
        assert isinstance(stepper.error, Killed)

    @precondition(lambda self: len(self.readers) < 2)
    @rule(data=st.data())
    def begin_reading(self, data):
        """A reader opens the table anew, or from a version it knows."""
        self.count += 1
        base = data.draw(st.sampled_from([None, *range(len(self.snapshots))]))
        known = None if base is None else self.snapshots[base]
        acknowledged = max((o.version for o in self.operations.values() if o.version is not None), default=0)
        reader = Stepper(
            f"reader {self.count}",
            self.disk,
            lambda store: load_snapshot(PATH, store, base=known and replace(known, store=store)),
        )
        self.readers[reader.name] = (reader, acknowledged)

    @precondition(lambda self: self.readers)
    @rule(data=st.data(), steps=st.integers(1, 6))
    def read_on(self, data, steps):
        name = data.draw(st.sampled_from(sorted(self.readers)))
        reader, acknowledged = self.readers[name]
        for _ in range(steps):
            if not reader.done:
                reader.step()
        if reader.done:
            del self.readers[name]
            assert reader.error is None, reader.error
            assert reader.result.version >= acknowledged
            self.snapshots.append(replace(reader.result, store=self.disk))

    @invariant()
    def what_is_acknowledged_is_there_once(self):
        commits = read_log(self.disk, PATH)
        names = [commit.name for commit in commits]
        assert len(set(names)) == len(names)
        for operation in self.operations.values():
            if operation.version is not None:
                assert names[operation.version] == operation.name
            elif operation.condition is not None:
                assert operation.name not in names
        for snapshot in self.snapshots:
            same(snapshot, commits)

    def teardown(self):
        for name in list(self.running):
            self._advance(name, 1_000)
        for reader, _ in self.readers.values():
            reader.finish()
            assert reader.error is None
        if not self.disk.files:
            return  # it ended before it began
        commits = read_log(self.disk, PATH)
        self.what_is_acknowledged_is_there_once()
        for operation in self.operations.values():
            if operation.version is not None or operation.condition is not None:
                judge(operation, commits)
                SEEN[operation.condition or "committed"] += 1
                if operation.version is not None and operation.version > operation.read + 1:
                    SEEN["committed after a lost race"] += 1
        for version in range(len(commits)):
            same(load_snapshot(PATH, self.disk, version), commits)

    def _advance(self, name, steps):
        stepper = self.running[name]
        for _ in range(steps):
            if not stepper.done:
                stepper.step()
        if not stepper.done:
            return
        del self.running[name]
        operation = self.operations[name]
        if stepper.error is None:
            operation.version = stepper.result
        else:
            assert isinstance(stepper.error, HeadwaterError), stepper.error
            operation.condition = stepper.error.condition
            operation.winner = int(stepper.error.parameters["version"])


def begun(snapshot: Snapshot, operation: Operation, store: Store) -> int:
    return write(replace(snapshot, store=store), operation)


def write(snapshot: Snapshot, operation: Operation) -> int:
    """What the writer does; the version it is told."""
    txn = Transaction(PATH, snapshot.store, snapshot)
    kind, day, new = operation.kind, operation.day, f"{operation.day}/{operation.name.replace(' ', '-')}"
    changes_data = kind != "compact"
    if kind in ("rewrite", "delete", "compact"):
        txn.read_where([Comparison("=", Column(("day",)), Literal("string", day))])
        rows = snapshot.select(["path", "partition_values"]).to_pylist()
        gone = [row["path"] for row in rows if dict(row["partition_values"])["day"] == day]
        txn.remove(RemoveFile(path, 9_999_999_999_999, changes_data, True, {"day": day}, 10) for path in gone)
    if kind == "insert-select":
        txn.read_whole_table()
    if kind == "stream":
        txn.set_transaction(f"app {day}", operation.read)
    if kind in ("property", "definition"):
        # What a property of the format means that nobody knows may concern everybody.
        name = "by" if kind == "property" else "delta.ofTheFuture"
        settings = {**snapshot.metadata.configuration, name: operation.name}
        txn.update_metadata(replace(snapshot.metadata, configuration=settings))
    elif kind != "delete":
        txn.add([file(new, day, changes_data)])
    return txn.commit(Provenance(kind.upper(), user_metadata=operation.name)).version


def file(path: str, day: str, changes_data: bool = True) -> AddFile:
    return AddFile(path, {"day": day}, 10, 1, changes_data, '{"numRecords":1}')


def same(snapshot: Snapshot, commits: list[Commit]) -> None:
    """The snapshot shows its version, whatever came later."""
    shown = snapshot.select(["path"]).column("path").to_pylist()
    assert sorted(shown) == sorted(commits[snapshot.version].live)


@pytest.mark.random
def test_every_interleaving_that_is_reached_keeps_the_promises(monkeypatch):
    def at_once(snapshot: Snapshot, transaction_id: str, layout: object) -> None:
        """Maintenance in the writer's own thread, so that its calls are among those that interleave."""
        write_checksum(snapshot.table_path, snapshot.store, snapshot.version, snapshot.checksum(transaction_id))
        if maintenance.checkpoint_is_due(snapshot):
            write_checkpoint(snapshot)

    monkeypatch.setattr(maintenance, "schedule", at_once)
    monkeypatch.setattr("headwater.basics.backoff.OF_COMMITS", Backoff(0, 0))
    SEEN.clear()
    run_state_machine_as_test(
        CommitProtocol,
        settings=settings(
            max_examples=int(os.environ.get("HEADWATER_TEST_EXAMPLES", "60")),
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    print(f"\n{dict(SEEN)}")
    assert SEEN["committed after a lost race"]
    assert SEEN["DELTA_METADATA_CHANGED"]
