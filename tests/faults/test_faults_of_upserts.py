"""A batch with deletions over a store that fails at one of its calls, between companion and table and on either side.

A first run counts the calls, from a table in each state that a batch may find. Whatever a call meets, deletions count
where the batch's commit is in the table, and nowhere else; the next batch brings its own, and that of a batch that is
written again counts once it is in the table.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.log.checkpoint_writing import write_checkpoint
from headwater.transaction import maintenance
from support.deleting_batches import World
from support.faults.faulty_store import WRITE_FAULTS, Crash, Fault, FaultyStore, allowed

#: What others do meanwhile, ``tests/statements/upserts/test_binding.py`` has.
ALL = tuple(fault for fault in WRITE_FAULTS if fault is not Fault.DELAY)
FEW = (Fault.FAIL_BEFORE, Fault.FAIL_AFTER, Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.AT_THE_END)


def _failed(world: World) -> None:
    """Of the batches before, one failed after its commit to the companion."""
    world.batch().run()
    failing = world.batch()
    failing.look()
    failing.bind()


def _overtaken(world: World) -> None:
    """And another came after it."""
    _failed(world)
    world.batch().run()


def _expired(world: World) -> None:
    """The last batch died right after its commit, and what the table knew of it has expired."""
    batch = world.batch()
    batch.look()
    batch.bind()
    assert batch.commit()
    world.now += 7200
    write_checkpoint(world.table())


BEFORE: dict[str, tuple[str | None, Callable[[World], None]]] = {
    "nothing": (None, lambda world: None),
    "a failed batch": (None, _failed),
    "a failed batch that was overtaken": (None, _overtaken),
    "a batch that was not confirmed": ("interval 1 hours", _expired),
}


@pytest.mark.parametrize("faults", [FEW, pytest.param(ALL, marks=pytest.mark.soak)], ids=["few", "all"])
@pytest.mark.parametrize("before", BEFORE)
def test_every_call_of_a_batch_that_deletes(monkeypatch, caplog, before, faults):
    caplog.set_level(logging.CRITICAL)
    monkeypatch.setattr(maintenance, "schedule", lambda *_: None)
    retention, prepare = BEFORE[before]
    world = World(monkeypatch, retention, tombstoneretention="1000 days")
    prepare(world)
    start = world.disk
    world.copy(start)
    world.set_store(counting := FaultyStore(world.disk))
    world.batch().run()
    runs = 0
    ends = set()
    for at, call in enumerate(counting.calls):
        for fault in faults:
            if not allowed(call, fault):
                continue
            runs += 1
            world.copy(start)
            batch = world.batch()
            store = FaultyStore(world.disk, at, fault)
            world.set_store(store)
            try:
                batch.run()
                ended = "done"
            except (OSError, HeadwaterError, Crash) as error:
                ended = type(error).__name__
            store.settle()
            world.set_store(world.disk)
            ends.add((ended, batch.name in world.in_table()))
            try:
                assert ended != "done" or batch.name in world.in_table()
                world.check()
                world.batch().run()
                world.check()
                if batch.name not in world.in_table():
                    # It is repeated, by a process that knows nothing of the first attempt.
                    again = world.batch()
                    again.name = batch.name
                    again.run()
                    world.check()
            except Exception as error:
                raise AssertionError(f"call {at}, {call}: {fault.value}; {ended}") from error
    print(f"\n{before}: {len(counting.calls)} calls, {runs} runs, {ends}")
    assert {("done", True), ("Crash", True), ("Crash", False)} <= ends
