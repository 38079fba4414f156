"""Opening tables: the path that Spark sends becomes a snapshot, of a version or of the newest one within the staleness
limit.

Owns the process's snapshot cache, and the options that all statements share. The JVM has already qualified the path: a
plain path on the local file system, a URI elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from headwater.basics import clock
from headwater.basics.errors import HeadwaterError, illegal_option
from headwater.bridge.statement import Statement
from headwater.groups.pending import PendingLog
from headwater.log.history import CommitTimes, format_timestamp
from headwater.log.segment import list_log
from headwater.log.snapshot import Snapshot
from headwater.log.snapshot_cache import SnapshotCache
from headwater.protocol import properties
from headwater.statements.running import open_transactions
from headwater.statements.running.managed_tables import reached
from headwater.statements.settings import ENFORCES_RETENTION, STALENESS_LIMIT
from headwater.stores import Store, store_for

if TYPE_CHECKING:
    from headwater.pruning.predicates import Predicate

CACHE = SnapshotCache()
#: What opening a table raises if there is none.
_ABSENT = ("DELTA_TABLE_NOT_FOUND", "DELTA_EMPTY_DIRECTORY")


class Location(NamedTuple):
    """Where a table is and how to reach it."""

    store: Store
    path: str


def locate(table: str, statement: Statement) -> Location:
    """The store of a table's path; that of its catalog, where it was found there by its name. In a transaction over
    several statements, the table as that sees it.
    """
    found = locate_itself(table, statement)
    transaction = open_transactions.current(statement)
    return found if transaction is None else Location(transaction.log(found.path, found.store), found.path)


def locate_itself(table: str, statement: Statement) -> Location:
    """As :func:`locate`, without what an open transaction did."""
    store, path = store_for(table, statement.hadoop, statement.confs)
    return Location(reached(path, store, statement), path)


def open_snapshot(table: str, statement: Statement, version: int | None = None, limit: int = 0) -> Snapshot:
    """The newest snapshot of a table, or that of a version; ``limit`` says how old, in milliseconds, the newest may be.

    :raises HeadwaterError: ``DELTA_TABLE_NOT_FOUND``, ``DELTA_UNSUPPORTED_FEATURES_FOR_READ`` and the log's own.
    """
    location = locate(table, statement)
    if isinstance(location.store, PendingLog):
        open_transactions.look(location.store, CACHE)
    snapshot = CACHE.get(location.path, location.store, version, limit)
    snapshot.check_readable()
    return snapshot


def note_read(store: Store, predicates: Sequence[Predicate] = ()) -> None:
    """Note what an answer about a table depends on, for a transaction that is checked against it: the rows for which
    all predicates are true, or all rows of the table.
    """
    if isinstance(store, PendingLog):
        store.note(predicates)


def open_if_there(table: str, statement: Statement) -> Snapshot | None:
    """The newest snapshot of a table; None if the table does not exist. Asks the store no more than that."""
    try:
        return open_snapshot(table, statement)
    except HeadwaterError as error:
        if error.condition in _ABSENT:
            return None
        raise


def check_files_retained(snapshot: Snapshot, newest: Snapshot, statement: Statement) -> None:
    """Refuse a version whose files VACUUM may have deleted: it was replaced longer ago than the retention of deleted
    files. Its own age says nothing, as no file of it goes before the next version removes one.

    :raises HeadwaterError: as :func:`check_retention`.
    """
    if not ENFORCES_RETENTION.of(statement):
        return
    if snapshot.version >= newest.version or snapshot.timestamp >= clock.milliseconds() - _retention(newest):
        return
    times = CommitTimes(list_log(newest.table_path, newest.store), newest.metadata, newest.store, newest.version)
    # Where the log has lost the next commit, one after it was there no earlier.
    later = min((version for version in times.commits if version > snapshot.version), default=newest.version)
    until = times.of(later) if later in times.commits else newest.timestamp
    check_retention(newest, snapshot.version, until, statement)


def check_retention(newest: Snapshot, version: int, timestamp: int, statement: Statement) -> None:
    """Refuse a version, or the changes that made it, whose files VACUUM may have deleted.

    :param timestamp: from when on these files were not needed, in milliseconds since the epoch.
    :raises HeadwaterError: ``DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION``.
    """
    if version >= newest.version or not ENFORCES_RETENTION.of(statement):
        return
    if timestamp < clock.milliseconds() - _retention(newest):
        raise HeadwaterError(
            "DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION",
            {
                "version": version,
                "tableLocation": newest.table_path,
                "time": format_timestamp(timestamp),
                "deletedFileRetention": f"{_retention(newest) / 3_600_000:g}",
            },
        )


def _retention(newest: Snapshot) -> int:
    """How long VACUUM keeps what is removed from a table, in milliseconds."""
    return newest.definition.get(properties.FILE_RETENTION)


def staleness_limit(statement: Statement) -> int:
    """How old a table that is only read may be, in milliseconds; 0 unless the session allows more.

    :raises HeadwaterError: ``DELTA_INVALID_INTERVAL``.
    """
    return STALENESS_LIMIT.of(statement)


class SeenTable(Protocol):
    """A request about a table that the statement has seen before. ``table_id``: the id it had; None is any."""

    @property
    def table(self) -> str: ...

    @property
    def table_id(self) -> str | None: ...


def open_same(seen: SeenTable, statement: Statement, version: int | None = None, limit: int = 0) -> Snapshot:
    """As :func:`open_snapshot`, for a table a statement has seen before: it must still be the same one.

    :raises HeadwaterError: ``DELTA_TABLE_ID_MISMATCH`` if it was deleted and re-created meanwhile.
    """
    snapshot = open_snapshot(seen.table, statement, version, limit)
    if seen.table_id is not None and seen.table_id != snapshot.metadata.id:
        raise HeadwaterError(
            "DELTA_TABLE_ID_MISMATCH",
            {"tableLocation": snapshot.table_path, "seen": seen.table_id, "found": snapshot.metadata.id},
        )
    return snapshot


class Options(dict[str, str]):
    """A statement's options by lower-case name."""

    def __init__(self, options: Mapping[str, Any] | None) -> None:
        super().__init__({str(k).lower(): str(v) for k, v in (options or {}).items() if v is not None})

    @property
    def user_metadata(self) -> str | None:
        """What the user gives with the commit."""
        return self.get("usermetadata")

    def flag(self, name: str) -> bool | None:
        """An option that is true or false; None where not given.

        :raises HeadwaterError: ``DELTA_ILLEGAL_OPTION`` for another value.
        """
        value = self.get(name.lower())
        if value is None:
            return None
        if value.strip().lower() not in ("true", "false"):
            raise illegal_option(name, value, "must be true or false")
        return value.strip().lower() == "true"
