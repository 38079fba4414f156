"""The state of a table's Iceberg metadata: how far it is behind the log, and why.

Owns what this process remembers of conversions that failed. Promise: a table whose metadata does not follow its commits
says so wherever it is described.
"""

from __future__ import annotations

from typing import NamedTuple

from headwater.basics.recent import Recent
from headwater.iceberg import metadata
from headwater.log.snapshot import Snapshot
from headwater.stores import Store


class _Failure(NamedTuple):
    """A conversion that failed: why, and the version that the metadata is of, -1 for none."""

    reason: str
    converted: int


class Standing(NamedTuple):
    """``converted``: the version that the metadata is of; None for none. ``behind``: how many versions have been
    committed since. ``failure``: why the metadata is behind; None if that is not known here.
    """

    converted: int | None
    behind: int
    failure: str | None


_failures: Recent[str, _Failure] = Recent()


def note(snapshot: Snapshot, error: Exception | None) -> None:
    """Remember how the conversion of a version ended."""
    if error is None:
        _failures.pop(snapshot.table_path, None)
        return
    converted, reason = _converted(snapshot.table_path, snapshot.store)
    known = -1 if converted is None else converted
    _failures[snapshot.table_path] = _Failure(f"{error}" if reason is None else f"{error} ({reason})", known)


def standing(snapshot: Snapshot) -> Standing:
    """Where the metadata of a table stands that has some."""
    converted, damage = _converted(snapshot.table_path, snapshot.store)
    known = _failures.get(snapshot.table_path)
    behind = max(snapshot.version - (-1 if converted is None else converted), 0)
    return Standing(converted, behind, damage or (known.reason if known is not None and behind else None))


def behind_before(table_path: str, version: int) -> int | None:
    """How many versions the metadata was behind before a version was committed; None if no failure is known. It
    costs no access to the store.
    """
    known = _failures.get(table_path)
    return None if known is None else version - 1 - known.converted


def _converted(table_path: str, store: Store) -> tuple[int | None, str | None]:
    """The version that the metadata is of, and why it cannot be read."""
    try:
        current = metadata.newest(table_path, store)
        if current is not None and not current.content:
            return None, "the metadata is damaged"
        return None if current is None else current.delta_version, None
    except Exception as error:  # a description does not fail with what it describes
        return None, f"the metadata cannot be read: {error}"
