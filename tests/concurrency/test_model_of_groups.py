"""Commits of several tables against a model: writers, readers and other engines, and any interleaving of their calls.

Hypothesis chooses who begins what, who makes the next call to the store, and who dies. Other engines know of no groups,
and commit at any moment. The checks: once a reader has seen a group in one table, whoever begins to read after it sees
the group in all; what was acknowledged is seen by all who begin later; what failed with a conflict was never seen; in
the end, all tables have a group or none has, for readers who know of no groups, too, and each file that is gone was
removed by somebody who stands. A group whose writer lives fails because of a conflict alone, and no two writers wait
for each other.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import partial

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from headwater.basics.backoff import Backoff
from headwater.basics.errors import HeadwaterError
from headwater.groups import at_work
from headwater.groups.group_commit import Member, commit_together
from headwater.groups.settling import SETTLER
from headwater.log import groups
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import AddFile, Metadata, Protocol, RemoveFile, serialize
from headwater.protocol.file_names import commit_name
from headwater.stores import Store
from headwater.transaction import Provenance, Transaction
from support.concurrency.stepping import Killed, Stepper
from support.stores.memory_store import MemoryStore

#: The first is append-only.
PATHS = ("/a", "/b", "/c", "/d")
SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
SEEDS = [f"s{i}" for i in range(6)]
UNKNOWN = ("HEADWATER_COMMIT_OUTCOME_UNKNOWN", "HEADWATER_TRANSACTION_OUTCOME_UNKNOWN")
#: How many calls each writer may make in the end: a group takes about a hundred.
MOST_CALLS = 3000
SEEN: dict[str, int] = {}


@dataclass
class Group:
    """A group, as its writer means it: what it adds to each table, and the seed that it removes, if any."""

    name: str
    removes: dict[str, str | None]
    outcome: str = "running"
    was_seen: bool = False

    @property
    def wanted(self) -> set[tuple[str, str]]:
        return {(path, seed) for path, seed in self.removes.items() if seed is not None}


@dataclass
class Reader:
    stepper: Stepper
    must_see: frozenset[str]
    seen: dict[str, set[str]] = field(default_factory=dict)


class Groups(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.disk = MemoryStore()
        self.groups: dict[str, Group] = {}
        self.running: dict[str, Stepper] = {}
        self.readers: dict[str, Reader] = {}
        self.gone_by_others: set[tuple[str, str]] = set()
        self.count = 0
        groups._known.clear()
        at_work._seen.clear()

    @initialize()
    def create(self):
        for path in PATHS:
            txn = Transaction(path, self.disk, None)
            txn.update_protocol(Protocol(1, 2))
            configuration = {"delta.appendOnly": "true"} if path == PATHS[0] else {}
            txn.update_metadata(Metadata(f"id of {path}", SCHEMA, (), configuration, created_time=1))
            txn.add(map(file, SEEDS))
            txn.commit(Provenance("CREATE TABLE"))

    @precondition(lambda self: len(self.running) < 3)
    @rule(
        paths=st.lists(st.sampled_from(PATHS), min_size=2, max_size=3, unique=True),
        removes=st.lists(st.one_of(st.none(), st.sampled_from(SEEDS)), min_size=3, max_size=3),
    )
    def begin(self, paths, removes):
        self.count += 1
        wanted: dict[str, str | None] = {}
        for path, seed in zip(paths, removes, strict=False):
            wanted[path] = seed if seed in files(path, self.disk) and path != PATHS[0] else None
        group = Group(f"g{self.count}", wanted)
        self.groups[group.name] = group
        self.running[group.name] = Stepper(group.name, self.disk, partial(write, group))

    @precondition(lambda self: self.running)
    @rule(data=st.data(), steps=st.integers(1, 6))
    def step(self, data, steps):
        self._advance(data.draw(st.sampled_from(sorted(self.running))), steps)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), steps=st.integers(0, 40))
    def kill(self, data, steps):
        name = data.draw(st.sampled_from(sorted(self.running)))
        self._advance(name, steps)
        if name not in self.running:
            return
        stepper = self.running.pop(name)
        stepper.kill()
        if isinstance(stepper.error, Killed):
            self.groups[name].outcome = "dead"
            count("killed")
        else:
            self._ended(name, stepper)

    @rule(path=st.sampled_from(PATHS), seed=st.one_of(st.none(), st.sampled_from(SEEDS)))
    def another_engine(self, path, seed):
        self.count += 1
        there = files(path, self.disk, settled=False)
        if seed in there and path != PATHS[0]:
            self.gone_by_others.add((path, str(seed)))
            action: AddFile | RemoveFile = file(str(seed)).removal(2)
        else:
            action = file(f"x{self.count}")
        version = load_snapshot(path, self.disk, settled=False).version + 1
        info = b'{"commitInfo":{"operation":"FOREIGN","isBlindAppend":false}}\n'
        self.disk.put_if_absent(f"{path}/_delta_log/{commit_name(version)}", info + serialize([action]))

    @precondition(lambda self: len(self.readers) < 2)
    @rule(order=st.permutations(PATHS))
    def begin_reading(self, order):
        self.count += 1
        groups._known.clear()
        must = frozenset(name for name, group in self.groups.items() if group.was_seen or group.outcome == "done")
        name = f"reader {self.count}"
        self.readers[name] = Reader(Stepper(name, self.disk, partial(read, order)), must)

    @precondition(lambda self: self.readers)
    @rule(data=st.data(), steps=st.integers(1, 12))
    def read_on(self, data, steps):
        name = data.draw(st.sampled_from(sorted(self.readers)))
        reader = self.readers[name]
        for _ in range(steps):
            if not reader.stepper.done:
                reader.stepper.step()
        if reader.stepper.done:
            del self.readers[name]
            self._was_read(reader)

    def teardown(self):
        for _ in range(MOST_CALLS):
            for name in list(self.running):
                self._advance(name, 1)
        assert not self.running, "writers wait for each other"
        for reader in self.readers.values():
            reader.stepper.finish()
            self._was_read(reader)
        if not self.disk.files:
            return  # it ended before it began
        for _ in range(2):
            for path in PATHS:  # a writer of ours comes by
                txn = Transaction(path, self.disk, load_snapshot(path, self.disk))
                txn.add([file(f"last{self.count}")])
                txn.commit(Provenance("WRITE"))
                self.count += 1
        groups._known.clear()
        shown = {path: files(path, self.disk) for path in PATHS}
        assert shown == {path: files(path, self.disk, settled=False) for path in PATHS}
        for group in self.groups.values():
            where = {group.name in shown[path] for path in group.removes}
            assert len(where) == 1, group
            stands = where.pop()
            assert stands or group.outcome in ("failed", "dead", "unknown"), group
            assert not (stands and group.outcome == "failed"), group
            assert stands or not group.was_seen
            count(f"{group.outcome}, {'stands' if stands else 'does not stand'}")
        for path in PATHS:
            removed = {g.removes.get(path) for g in self.groups.values() if g.name in shown[path]}
            by_others = {seed for where, seed in self.gone_by_others if where == path}
            assert set(SEEDS) - shown[path] == {seed for seed in removed if seed} | by_others, path

    def _advance(self, name, steps):
        stepper = self.running[name]
        for _ in range(steps):
            if not stepper.done:
                stepper.step()
        if stepper.done:
            del self.running[name]
            self._ended(name, stepper)

    def _ended(self, name, stepper):
        if stepper.error is None:
            self.groups[name].outcome = "done"
        else:
            assert isinstance(stepper.error, HeadwaterError), stepper.error
            condition = stepper.error.condition
            self.groups[name].outcome = "unknown" if condition in UNKNOWN else "failed"
            assert condition in UNKNOWN or self._has_rival(self.groups[name]), stepper.error
            count(condition)

    def _has_rival(self, group):
        """Whether somebody else wanted to remove what it removes."""
        by_others = {(path, seed) for each in self.groups.values() if each is not group for path, seed in each.wanted}
        return bool(group.wanted & (by_others | self.gone_by_others))

    def _was_read(self, reader):
        assert reader.stepper.error is None, reader.stepper.error
        found = reader.stepper.result
        for name, group in self.groups.items():
            where = {name in found[path] for path in group.removes}
            if name in reader.must_see:
                assert where == {True}, (name, reader.stepper.name)
            if True in where:
                assert group.outcome != "failed", name
                group.was_seen = True


def count(what: str) -> None:
    SEEN[what] = SEEN.get(what, 0) + 1


def file(name: str) -> AddFile:
    return AddFile(name, {}, 10, 1, True, '{"numRecords":1}')


def files(path: str, store: Store, settled: bool = True) -> set[str]:
    return set(load_snapshot(path, store, settled=settled).files["path"].to_pylist())


def read(order, store: Store) -> dict[str, set[str]]:
    return {path: files(path, store) for path in order}


def write(group: Group, store: Store) -> None:
    members = []
    for path, seed in group.removes.items():
        txn = Transaction(path, store, load_snapshot(path, store))
        txn.add([file(group.name)])
        if seed is not None:
            txn.remove([file(seed).removal(2)])
        members.append(Member(txn, txn.prepare(Provenance("WRITE"))))
    commit_together(members)


@pytest.mark.random
def test_every_interleaving_that_is_reached_shows_all_or_nothing(monkeypatch):
    monkeypatch.setattr("headwater.transaction.maintenance.schedule", lambda *_: None)
    monkeypatch.setattr("headwater.transaction.maintenance.later", lambda what, do: do())
    monkeypatch.setattr("headwater.basics.backoff.OF_COMMITS", Backoff(0, 0))
    monkeypatch.setattr(groups, "PATIENCE", 0.0)
    groups.settle_by(SETTLER)
    SEEN.clear()
    run_state_machine_as_test(
        Groups,
        settings=settings(
            max_examples=int(os.environ.get("HEADWATER_TEST_EXAMPLES", "20")),
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    print(f"\n{SEEN}")
    assert SEEN["done, stands"]
    assert SEEN["dead, stands"]
    assert SEEN["dead, does not stand"]
