"""Faults that are put into the commit protocol, to see that the checkers find them.

Owns the list, and :func:`apply`, which changes the modules of this process. Nothing in the package knows of it: a
client applies a mutation to itself before its first statement.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from typing import Any


def skip_conflict_check() -> None:
    """Commits are not checked against the commits that won: neither a statement's nor what COMMIT has only read."""

    def check(intent: Any, winner: Any) -> None:
        pass

    for module in ("headwater.groups.only_read", "headwater.transaction.prepared"):
        _replace(module, "check", check)


def skip_read_check() -> None:
    """COMMIT of a serializable transaction does not check the tables that it has only read."""

    def check(intent: Any, winner: Any) -> None:
        pass

    _replace("headwater.groups.only_read", "check", check)


def repeat_batches() -> None:
    """A micro-batch that is tried again is committed again."""
    _replace("histories.tables", "has_committed", lambda snapshot, application: False)


def lose_vector() -> None:
    """If two writers mark rows of one file, the second one's deletion vector has its own marks alone."""
    from headwater.transaction.row_level import Marks

    carry = Marks._carry

    def lossy(self: Marks, carried: dict[str, Any], write: Any) -> None:
        carry(self, {path: (theirs, self.of(path).positions) for path, (theirs, _) in carried.items()}, write)

    Marks._carry = lossy  # type: ignore[method-assign]


def decide_twice() -> None:
    """The decision about a transaction over several tables replaces one that is there."""
    from headwater.log import groups

    def decide(store: Any, group: Any, outcome: str) -> str:
        path = groups.decision_path(group)
        store.make_directory(path.rpartition("/")[0])
        store.put(path, json.dumps({"outcome": outcome}).encode())
        return outcome

    _replace("headwater.log.groups", "decide", decide)


def _replace(module: str, name: str, function: Callable[..., Any]) -> None:
    """Have a module use another function under a name that it has."""
    there = importlib.import_module(module)
    assert callable(getattr(there, name))
    setattr(there, name, function)


#: By the name that ``--mutate`` takes.
MUTATIONS: dict[str, Callable[[], None]] = {
    each.__name__.replace("_", "-"): each
    for each in (skip_conflict_check, skip_read_check, repeat_batches, lose_vector, decide_twice)
}


def apply(name: str) -> None:
    """Put a fault into this process.

    :raises KeyError: there is no mutation of that name.
    """
    MUTATIONS[name]()
