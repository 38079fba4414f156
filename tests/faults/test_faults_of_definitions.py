"""Every statement that makes a table or changes its definition, and a stream's batch, over a store that fails at one of
its calls.

The calls go through the entry point that Spark calls, so an error is what a user sees. A first run without a fault
shows the states that the statement leads through. In each run with a fault, the n-th call to the store fails, before
or after it has its effect, alone or with all later ones. Then

- the statement says that it is done, and the table is as it was asked to be; or it ends with a condition of
  ``conf/error-conditions.json``, and the table is as before, or in a state between the commits of the statement; only
  an error that says so leaves it open whether the last commit was made;
- the log has no gaps and every version can be read;
- the same statement, run again, leads to the same end, or is refused because it is done.

Post-commit maintenance is switched off: its calls come at any moment, and ``test_every_call.py`` has those.
"""

from __future__ import annotations

import errno
import itertools
import json
import logging
import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from headwater.basics.errors import conditions
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.statements.running import opening
from support.faults.definition_cases import CASES
from support.faults.faulty_store import Fault, FaultyStore
from support.faults.running import PATH, Case, Ended, World
from support.faults.scenario import masked, read_commits
from support.stores.memory_store import MemoryStore, RepeatingStore

OPEN = "HEADWATER_COMMIT_OUTCOME_UNKNOWN"


class Failure(NamedTuple):
    """How the n-th call fails."""

    fault: Fault
    for_good: bool = False  #: and every call after it, until the statement has ended

    def store(self, inner: MemoryStore, at: int) -> FaultyStore:
        return FaultyStore(inner, at, self.fault, lasts=self.for_good, code=errno.EIO)

    def __str__(self) -> str:
        return self.fault.value + (", as does every call after it" if self.for_good else "")


FAILURES = (
    *(Failure(f, g) for g in (False, True) for f in (Fault.FAIL_BEFORE, Fault.FAIL_AFTER)),
    Failure(Fault.NO_SPACE, True),
)


_NUMBERED = re.compile(r'("delta\.requireCheckpointProtectionBeforeVersion": ")\d+')


def state(disk: MemoryStore, version: int | None = None) -> str:
    """A version's definition and rows; "" for no table. Without what is drawn or counted."""
    if version is None and not _versions(disk):
        return ""
    snapshot = load_snapshot(PATH, disk, version)
    files = sorted(
        (
            row["path"],
            row["stats"],
            row["deletion_vector"] and row["deletion_vector"]["cardinality"],
            row["base_row_id"] is not None,
            row["default_row_commit_version"] is not None,
        )
        for row in snapshot.files.to_pylist()
    )
    metadata, domains = snapshot.metadata.to_json(), [d.to_json() for d in snapshot.domain_metadata.values()]
    protocol = snapshot.protocol.to_json()["protocol"]
    features = {key: sorted(value) if isinstance(value, list) else value for key, value in protocol.items()}
    batches = sorted((app, txn.version) for app, txn in snapshot.set_transactions.items())
    text = json.dumps([features, metadata, domains, files, batches], sort_keys=True, indent=1)
    return masked(_NUMBERED.sub(r"\1N", text))


def _versions(disk: MemoryStore) -> list[int]:
    try:
        return list(read_commits(disk, PATH))
    except FileNotFoundError:
        return []


def rows(disk: MemoryStore) -> int:
    if not _versions(disk):
        return 0
    snapshot: Snapshot = load_snapshot(PATH, disk)
    return sum(
        json.loads(row["stats"])["numRecords"] - (row["deletion_vector"] or {"cardinality": 0})["cardinality"]
        for row in snapshot.files.to_pylist()
    )


class Reference:
    """A statement without a fault: where it begins, the states it leads through, and its calls to the store."""

    def __init__(self, world: World, case: Case) -> None:
        self.world, self.case = world, case
        self.disk = world.table(case)
        disk = self.disk.copy()
        store = FaultyStore(disk)
        ended = world.run(case.steps, store, case)
        assert ended == Ended(), ended
        first = max(_versions(self.disk), default=-1)
        self.states = [state(self.disk), *(state(disk, v) for v in _versions(disk) if v > first)]
        self.rows = {rows(self.disk), rows(disk)}
        self.calls = store.calls
        assert self.states[-1] != self.states[0]

    def check(self, at: int, failure: Failure) -> Ended:
        """The statement once more with a failure, what must hold then, and the statement again."""
        case, disk = self.case, self.disk.copy()
        ended = self.world.run(case.steps, failure.store(disk, at), case)
        now = state(disk)
        self._check_log(disk)
        assert rows(disk) in self.rows
        if ended.condition is None:
            assert now == self.states[-1]
        else:
            assert ended.condition in conditions()
            assert ended.condition != "DELTA_INTERNAL_ERROR", ended.text
            assert "Traceback" not in ended.text
            assert 'File "' not in ended.text
            assert now in (self.states if ended.condition == OPEN else self.states[:-1])
        again = self.world.run(case.steps, disk, case)
        if again.condition is not None:
            assert again.condition in case.done, again
            assert now == self.states[-1], again
        assert state(disk) == self.states[-1]
        self._check_log(disk)
        return ended

    def _check_log(self, disk: MemoryStore) -> None:
        versions = _versions(disk)
        assert versions == list(range(versions[0], versions[0] + len(versions))) if versions else True
        if versions and versions[0] == 0:
            for version in versions:
                load_snapshot(PATH, disk, version)


@pytest.fixture
def world(monkeypatch, caplog) -> Iterator[World]:
    caplog.set_level(logging.CRITICAL)
    yield World(monkeypatch)
    opening.CACHE.forget(PATH)


def failures(reference: Reference) -> Iterator[tuple[int, Failure]]:
    """Each call with each failure; what only reads has no effect that a failure could come after."""
    for at, failure in itertools.product(range(len(reference.calls)), FAILURES):
        if failure.fault is Fault.FAIL_BEFORE or reference.calls[at].writes:
            yield at, failure


def run_all(reference: Reference, chosen: Iterator[tuple[int, Failure]]) -> set[str | None]:
    ends = set()
    for at, failure in chosen:
        try:
            ends.add(reference.check(at, failure).condition)
        except Exception as error:
            raise AssertionError(f"call {at}, {reference.calls[at]}: {failure}") from error
    return ends


@pytest.mark.soak
@pytest.mark.parametrize("name", CASES)
def test_every_call_of_a_statement_fails(world, name):
    reference = Reference(world, CASES[name])
    chosen = list(failures(reference))
    ends = run_all(reference, iter(chosen))
    print(f"\n{name}: {len(reference.calls)} calls, {len(reference.states) - 1} commits, {len(chosen)} runs: {ends}")
    assert {None, OPEN, "DELTA_FILE_ACCESS_FAILED"} <= ends


@pytest.mark.parametrize("name", CASES)
def test_a_statement_whose_answers_are_lost_is_done(world, name):
    """Each file that is put if absent is found by the second request, as the answer to the first one was lost."""
    case = CASES[name]
    disk = world.table(case)
    expected, repeating = disk.copy(), RepeatingStore()
    repeating.files, repeating.directories = dict(disk.files), set(disk.directories)
    assert world.run(case.steps, expected, case) == world.run(case.steps, repeating, case) == Ended()
    assert state(repeating) == state(expected)
    assert repeating.repeated


#: The statements of the short run, one of each kind.
SHORT = (
    "ADD COLUMNS, mapped",
    "RENAME COLUMN",
    "ALTER COLUMN SET NOT NULL",
    "ADD CONSTRAINT",
    "SET TBLPROPERTIES, in-commit timestamps",
    "SET TBLPROPERTIES, row tracking",
    "CLUSTER BY",
    "SYNC IDENTITY",
    "DROP FEATURE, row tracking",
    "ANALYZE",
    "TRUNCATE",
    "DEEP CLONE, again",
    "CONVERT",
    "a batch",
)


@pytest.mark.parametrize("name", SHORT)
def test_some_calls_of_a_statement_fail(world, name):
    """The first two that write."""
    reference = Reference(world, CASES[name])
    writing = [(at, failure) for at, failure in failures(reference) if reference.calls[at].writes]
    run_all(reference, iter(writing[:10]))


def test_a_checkpoint_that_cannot_be_written_after_the_feature_went(world):
    """It is the last thing that the statement does, and the statement is done without it."""
    reference = Reference(world, CASES["DROP FEATURE, with checkpoints"])
    last = max(at for at, call in enumerate(reference.calls) if call.method == "put_if_absent")
    for at in range(last + 1, len(reference.calls)):
        assert reference.check(at, FAILURES[2]).condition is None
