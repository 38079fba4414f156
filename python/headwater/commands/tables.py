"""Opening tables: from what Spark names to a snapshot.

Owns the process's snapshot cache and the options every statement shares. A path comes from the JVM already qualified: a
plain path on the local file system, a URI elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from headwater.bridge.statement import Statement
from headwater.errors import HeadwaterError
from headwater.log.features import check_readable
from headwater.log.snapshot import Snapshot, SnapshotCache
from headwater.log.stores import Store, store_for

CACHE = SnapshotCache()


class Location(NamedTuple):
    """Where a table is and how to reach it."""

    store: Store
    path: str


def locate(table: str, statement: Statement) -> Location:
    """The store of a table's path."""
    return Location(*store_for(table, statement.hadoop))


def open_snapshot(table: str, statement: Statement, version: int | None = None) -> Snapshot:
    """The newest snapshot of a table, or that of a version.

    :raises HeadwaterError: ``DELTA_TABLE_NOT_FOUND``, ``DELTA_UNSUPPORTED_FEATURES_FOR_READ`` and the log's own.
    """
    location = locate(table, statement)
    snapshot = CACHE.get(location.path, location.store, version)
    check_readable(snapshot.protocol)
    return snapshot


def open_same(request: Mapping[str, Any], statement: Statement, version: int | None = None) -> Snapshot:
    """As :func:`open_snapshot`, for a table a statement has seen before: it must still be the same one.

    :raises HeadwaterError: ``DELTA_TABLE_ID_MISMATCH`` where it was deleted and made anew meanwhile.
    """
    snapshot = open_snapshot(request["table"], statement, version)
    seen = request.get("tableId")
    if seen is not None and seen != snapshot.metadata.id:
        raise HeadwaterError(
            "DELTA_TABLE_ID_MISMATCH",
            {"tableLocation": snapshot.table_path, "seen": seen, "found": snapshot.metadata.id},
        )
    return snapshot


class Options(dict[str, str]):
    """A statement's options by lower-case name."""

    def __init__(self, options: Mapping[str, Any] | None) -> None:
        super().__init__({str(k).lower(): str(v) for k, v in (options or {}).items() if v is not None})

    def flag(self, name: str) -> bool | None:
        """An option that is true or false; None where not given.

        :raises HeadwaterError: ``DELTA_ILLEGAL_OPTION`` for another value.
        """
        value = self.get(name.lower())
        if value is None:
            return None
        if value.strip().lower() not in ("true", "false"):
            raise HeadwaterError(
                "DELTA_ILLEGAL_OPTION", {"name": name, "input": value, "explain": "must be true or false"}
            )
        return value.strip().lower() == "true"
