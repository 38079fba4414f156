"""Every call to the store of a short life of a table meets every fault, one at a time.

A first run counts the calls. What must hold after each other run says :func:`scenario.check`.
"""

from __future__ import annotations

import itertools
import logging
from collections import Counter

import pytest
from faulty_store import READ_FAULTS, TORN, WRITE_FAULTS, Call, Fault, FaultyStore
from memory_store import MemoryStore
from scenario import KINDS, Kind, Life, check, interlope

from headwater.errors import HeadwaterError
from headwater.log.snapshot import load_snapshot

NUMBERS = itertools.count()


def live(kind: Kind, at: int = -1, fault: Fault = Fault.NONE) -> tuple[Life, FaultyStore]:
    """A life with one fault, at the end of which all that was on its way has arrived."""
    disk = MemoryStore()
    path = f"/{next(NUMBERS)}"  # upkeep remembers tables by their path
    store = FaultyStore(disk, at, fault, lambda: interlope(disk, path))
    life = Life(path, kind, store, disk)
    life.run()
    store.settle()
    return life, store


def allowed(call: Call, fault: Fault) -> bool:
    """Whether a store that keeps its promises can meet this."""
    if not call.writes:
        return fault in READ_FAULTS
    return not (fault in TORN and call.method == "put_if_absent")


def after_commit(calls: list[Call], at: int) -> bool:
    """Whether the call is part of what follows a commit that stands, up to where the next statement begins."""
    steps = [c for c in calls[:at] if is_commit(c) or is_opening(c)]
    stands = bool(steps) and is_commit(steps[-1]) and steps.count(steps[-1]) == 1  # else it is a lost race
    return stands and not is_commit(calls[at]) and not is_opening(calls[at])


def is_commit(call: Call) -> bool:
    return call.method == "put_if_absent" and call.path.endswith(".json")


def is_opening(call: Call) -> bool:
    return call.method == "read" and call.path.endswith("_last_checkpoint")


@pytest.mark.parametrize("name", KINDS)
def test_every_call_and_every_fault(name, caplog):
    kind = KINDS[name]
    caplog.set_level(logging.CRITICAL)
    reference, store = live(kind)
    check(reference)
    assert None not in reference.outcomes.values()
    assert not reference.failures
    methods = Counter(call.method for call in store.calls)
    assert {"list_from", "read", "put_if_absent", "put", "make_directory"} <= set(methods)
    seen: Counter[Fault] = Counter()
    for at, call in enumerate(store.calls):
        for fault in WRITE_FAULTS:
            if not allowed(call, fault):
                continue
            seen[fault] += 1
            life, _ = live(kind, at, fault)
            told = f"call {at}, {call}: {fault.value}; told the writer {life.outcomes}, {life.failures}"
            try:
                check(life)
            except Exception as error:
                raise AssertionError(told) from error
            if after_commit(store.calls, at):
                assert not life.failures, told
    assert set(seen) == set(WRITE_FAULTS)
    print(f"\n{name}: {len(store.calls)} calls, {sum(seen.values())} runs with a fault")


def test_a_store_that_tears_commits_is_told_of_and_older_versions_stay_readable():
    """No store may; where one does, the version is not passed over, nor shown in part."""
    reference, store = live(KINDS["classic"])
    at = [number for number, call in enumerate(store.calls) if is_commit(call)][3]
    life, _ = live(KINDS["classic"], at, Fault.CRASH_TORN)
    with pytest.raises(HeadwaterError) as raised:
        load_snapshot(life.path, life.disk)
    assert raised.value.condition == "DELTA_INVALID_COMMIT"
    assert load_snapshot(life.path, life.disk, 2).version == 2
