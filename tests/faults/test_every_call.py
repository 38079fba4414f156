"""Every call to the store of a short life of a table meets every fault, one at a time.

A first run counts the calls. What must hold after each other run says :func:`scenario.check`.
"""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Hashable

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.log.snapshot import load_snapshot
from headwater.transaction import maintenance
from support.faults.faulty_store import WRITE_FAULTS, Call, Fault, FaultyStore, allowed
from support.faults.scenario import CHECKPOINTS, KINDS, Kind, Life, check, interlope, masked
from support.stores.memory_store import MemoryStore

NUMBERS = itertools.count()


class Reference:
    """A life without a fault, and how things stood before each of its steps."""

    def __init__(self, kind: Kind) -> None:
        self.kind, self.path = kind, f"/{next(NUMBERS)}"  # maintenance remembers tables by their path
        disk = MemoryStore()
        self.store = FaultyStore(disk)
        self.life = Life(self.path, kind, self.store, disk)
        self.before: list[tuple[int, MemoryStore, dict[str, int | None], int | None]] = []
        for number in range(len(self.life.steps())):
            cleaned = maintenance._cleaned.get(self.path)
            self.before.append((len(self.store.calls), disk.copy(), dict(self.life.outcomes), cleaned))
            self.life.run(number, 1)

    def start(self, at: int) -> int:
        """The first call of the step that makes the call."""
        return max(start for start, *_ in self.before if start <= at)

    def with_fault(self, at: int, fault: Fault) -> Life:
        """The step of that call once more, with the fault, and the step after it; all that was on its way arrived."""
        number = max(n for n, (start, *_) in enumerate(self.before) if start <= at)
        start, disk, outcomes, cleaned = self.before[number]
        disk = disk.copy()
        store = FaultyStore(disk, at - start, fault, lambda: interlope(disk, self.path))
        life = Life(self.path, self.kind, store, disk, dict(outcomes))
        maintenance._pending.pop(self.path, None)  # what a process that died had still to do
        maintenance._cleaned.pop(self.path, None)
        if cleaned is not None:
            maintenance._cleaned[self.path] = cleaned
        life.run(number, 2)
        store.settle()
        return life


def after_commit(calls: list[Call], at: int) -> bool:
    """Whether the call is part of what follows a commit that stands, up to where the next statement begins."""
    steps = [c for c in calls[:at] if is_commit(c) or is_opening(c)]
    stands = bool(steps) and is_commit(steps[-1]) and steps.count(steps[-1]) == 1  # else it is a lost race
    return stands and not is_commit(calls[at]) and not is_opening(calls[at])


def of_checkpoint(call: Call) -> bool:
    return any(word in call.path for word in ("checkpoint", "_sidecars"))


def is_commit(call: Call) -> bool:
    return call.method == "put_if_absent" and call.path.endswith(".json")


def is_opening(call: Call) -> bool:
    return call.method == "read" and call.path.endswith("_last_checkpoint")


@pytest.mark.slow
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.soak)], ids=["a third", "all"])
@pytest.mark.parametrize("name", [*KINDS, *CHECKPOINTS])
def test_every_call_and_every_fault(name, every, caplog):
    """Of kinds that differ in their checkpoints only, each call that writes one or reads one.

    :param every: the usual run has each fault at every third call, and each call meets a third of the faults.
    """
    kind = {**KINDS, **CHECKPOINTS}[name]
    caplog.set_level(logging.CRITICAL)
    reference = Reference(kind)
    life, store = reference.life, reference.store
    check(life)
    assert None not in life.outcomes.values()
    assert not life.failures
    methods = Counter(call.method for call in store.calls)
    assert {"list_from", "read", "put_if_absent", "put", "make_directory"} <= set(methods)
    seen: Counter[Fault] = Counter()
    ends: set[Hashable] = set()
    for at, call in enumerate(store.calls):
        for number, fault in enumerate(WRITE_FAULTS):
            if not allowed(call, fault) or (name in CHECKPOINTS and not of_checkpoint(call)) or (at + number) % every:
                continue
            seen[fault] += 1
            life = reference.with_fault(at, fault)
            met = life.store.calls[at - reference.start(at)] if isinstance(life.store, FaultyStore) else None
            assert met is not None
            assert met.method == call.method
            assert masked(met.path) == masked(call.path)
            told = f"call {at}, {call}: {fault.value}; told the writer {life.outcomes}, {life.failures}"
            end = life.ends_as()
            try:
                if end not in ends:
                    check(life)
            except Exception as error:
                raise AssertionError(told) from error
            ends.add(end)
            if after_commit(store.calls, at):
                assert not life.failures, told
    assert set(seen) == set(WRITE_FAULTS)
    if name in CHECKPOINTS:
        assert len({call.path for call in store.calls if call.method == "put"}) > 4
    print(f"\n{name}: {len(store.calls)} calls, {sum(seen.values())} runs with a fault, {len(ends)} different ends")


def test_a_store_that_tears_commits_is_told_of_and_older_versions_stay_readable():
    """No store may; where one does, the version is not passed over, nor shown in part."""
    reference = Reference(KINDS["classic"])
    at = [number for number, call in enumerate(reference.store.calls) if is_commit(call)][3]
    life = reference.with_fault(at, Fault.CRASH_TORN)
    with pytest.raises(HeadwaterError) as raised:
        load_snapshot(life.path, life.disk)
    assert raised.value.condition == "DELTA_INVALID_COMMIT"
    assert load_snapshot(life.path, life.disk, 2).version == 2
