"""The transactions over several statements that are open in this process.

Owns what a session's transaction is known by, the setting ``spark.headwater.transaction``, which each call of the
session carries, and the tables that it has looked at. A table's version is fixed when the transaction first looks at
it. Promise: a statement of a session that has begun a transaction is part of it, or refused: one that this process does
not know any more, or that was idle for too long, is an error until the session ends it.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Lock

from headwater.basics import clock
from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.define import CreatedTable
from headwater.bridge.statement import Statement
from headwater.groups.composing import version_together
from headwater.groups.pending import PendingLog
from headwater.log.groups import may_be_together
from headwater.log.snapshot import Snapshot
from headwater.log.snapshot_cache import SnapshotCache
from headwater.statements.settings import IDLE_SECONDS, TRANSACTION
from headwater.stores import Store, is_same_place, may_be_same_place

_LOG = logging.getLogger(__name__)

_open: dict[str, OpenTransaction] = {}
_lock = Lock()


class OpenTransaction:
    """One that was begun and has not ended. A session runs its statements, possibly in several threads."""

    def __init__(
        self, cache: SnapshotCache, idle_seconds: int, *, serializable: bool = False, of_script: bool = False
    ) -> None:
        self.id = str(uuid.uuid4())
        #: Whether COMMIT also checks what it only reads.
        self.serializable = serializable
        #: Whether it is the transaction of a script, whose end ends it.
        self.of_script = of_script
        #: When it began, in milliseconds since the epoch.
        self.began = clock.milliseconds()
        self.idle_seconds = idle_seconds
        self._cache = cache
        self._used = clock.milliseconds()
        self._logs: dict[str, PendingLog] = {}
        self._created: dict[tuple[str, ...], CreatedTable] = {}
        self._lock = Lock()
        #: Whether COMMIT or ROLLBACK has begun.
        self.is_closed = False

    def is_idle(self, statement: Statement) -> bool:
        """Whether no statement of it runs, and the last one was too long ago.

        :param statement: any statement of the same Spark, to ask when statements ran if there was no call lately.
        """
        now, longest = clock.milliseconds(), self.idle_seconds * 1000
        if now - self._used <= longest:
            return False
        used = self._used
        for run in sorted(statement.runs_in(self.id), key=lambda run: run.began):
            if run.began - used > longest:
                break  # it began too late
            used = max(used, now if run.ended is None else run.ended)
        self._used = max(self._used, used)
        return now - used > longest

    def touch(self) -> None:
        """Note that a statement uses it."""
        self._used = clock.milliseconds()

    def log(self, path: str, store: Store) -> PendingLog:
        """The table at a path as this transaction sees it.

        :raises HeadwaterError: ``HEADWATER_NOT_IN_TRANSACTION`` for a table that a catalog manages;
            ``HEADWATER_TRANSACTION_LOST`` if the transaction has ended.
        """
        if store.of_catalog:
            raise not_in_transaction("A statement about a table that a catalog manages", path)
        with self._lock:
            if self.is_closed:
                raise HeadwaterError("HEADWATER_TRANSACTION_LOST")
            if path not in self._logs:
                self._logs[path] = PendingLog(store, path, self.id, self._pin(path, store), self._check_store)
                self._logs[path].noted = [] if self.serializable else None
            elif self._logs[path].inner.identity == store.identity:
                self._logs[path].inner = store  # with the credentials of this statement
            return self._logs[path]

    def _pin(self, path: str, store: Store) -> Callable[[], Snapshot]:
        def pin() -> Snapshot:
            newest = self._cache.get(path, store)
            with self._lock:
                known = [log.pinned for log in self._logs.values() if log.is_pinned and log.table_path != path]
            self._refuse_two_paths(path, newest, only_written=True)
            version = version_together(newest, known, self.began)
            return newest if version == newest.version else self._cache.get(path, store, version)

        return pin

    def _check_store(self, log: PendingLog) -> None:
        """That a table may be written beside those that were; and that a statement, which may take long, has ended."""
        self.touch()
        if log.is_pinned:
            self._refuse_two_paths(log.table_path, log.pinned)
        for other in self.written:
            if other is not log and not (
                may_be_together(other.table_path, log.table_path) and other.inner.identity == log.inner.identity
            ):
                raise not_in_transaction(
                    f"A change of a table in another store than {other.table_path}", log.table_path
                )

    def _refuse_two_paths(self, path: str, snapshot: Snapshot, *, only_written: bool = False) -> None:
        """Refuse to reach a changed table by another path, which would not show the change. A copy at another place has
        the same identifier and is another table.
        """
        with self._lock:
            others = [log for log in self._logs.values() if log.table_path != path and log.is_pinned]
        for other in others:
            is_same = other.pinned.metadata.id == snapshot.metadata.id and may_be_same_place(other.table_path, path)
            if is_same and (other.commits or not only_written):
                raise not_in_transaction(f"A change of a table that is also at {other.table_path}", path)

    @property
    def written(self) -> list[PendingLog]:
        """The tables that its statements have changed."""
        with self._lock:
            return [log for log in self._logs.values() if log.commits]

    @property
    def created(self) -> list[CreatedTable]:
        """The tables that it creates and that the session catalog is to have by a name."""
        with self._lock:
            return list(self._created.values())

    def note_created(self, created: CreatedTable, *, exact: bool) -> None:
        """Give a name to a table that it creates.

        :param exact: whether names are told apart by their case.
        """
        with self._lock:
            self._created[_name(created.identifier, exact=exact)] = created

    def created_as(self, identifier: Sequence[str], *, exact: bool) -> CreatedTable | None:
        """The table of a name that it creates; None if it creates no table of that name."""
        with self._lock:
            return self._created.get(_name(identifier, exact=exact))

    @property
    def only_read(self) -> list[PendingLog]:
        """The tables that its queries have read and nothing has changed, where that is to be checked."""
        with self._lock:
            return [log for log in self._logs.values() if log.noted and not log.commits]

    @property
    def paths(self) -> list[str]:
        """The tables that it has looked at."""
        with self._lock:
            return list(self._logs)

    def has_looked_at(self, table: Snapshot) -> bool:
        """Whether it has looked at a table, by whatever path."""
        return any(
            is_same_place(log.table_path, table.table_path)
            or (log.is_pinned and log.pinned.metadata.id == table.metadata.id)  # a store may have several names
            for log in list(self._logs.values())
        )

    def stop(self) -> None:
        """Take no more statements' commits."""
        with self._lock:
            logs = list(self._logs.values())
        for log in logs:
            log.end()

    def close(self) -> bool:
        """Take no more statements. False if it was closed already, by who ends it otherwise."""
        with self._lock:
            was_open, self.is_closed = not self.is_closed, True
        self.stop()
        return was_open

    def give_up(self) -> None:
        """Close it, unless it is being ended, and delete the files of tables that it would have created, as far as
        possible: they are part of nothing, and in the way of who creates these tables again.
        """
        if self.close():
            self.delete_files()

    def delete_files(self) -> None:
        """Delete the files of tables that it has not created after all."""
        for log in self._logs.values():
            if log.is_new:
                try:
                    log.delete_files()
                except Exception:  # such as of a session that has ended; they are in no version
                    _LOG.debug("the files at %s are left", log.table_path, exc_info=True)

    def forget(self) -> None:
        """Let go of what is kept for it."""
        self.close()
        for path, log in list(self._logs.items()):
            self._cache.forget(path, log.identity)


def _name(identifier: Sequence[str], *, exact: bool) -> tuple[str, ...]:
    return tuple(part if exact else part.lower() for part in identifier)


def look(log: PendingLog, cache: SnapshotCache) -> None:
    """Fix the version of a table that is looked at. What is known of it need not be read again through the
    transaction's own store.
    """
    if not log.is_pinned and not log.is_new:
        cache.put(replace(log.pinned, store=log))


def not_in_transaction(statement: str, table: str) -> HeadwaterError:
    """The error for what cannot be part of a transaction."""
    return HeadwaterError("HEADWATER_NOT_IN_TRANSACTION", {"statement": statement, "tableName": table})


def begin(
    statement: Statement, cache: SnapshotCache, *, serializable: bool = False, of_script: bool = False
) -> OpenTransaction:
    """Open a transaction; the caller tells the session.

    :raises HeadwaterError: ``HEADWATER_TRANSACTION_NESTED`` if the session has one; as :func:`current`.
    """
    if current(statement) is not None:
        raise HeadwaterError("HEADWATER_TRANSACTION_NESTED")
    idle_seconds = IDLE_SECONDS.of(statement)
    opened = OpenTransaction(cache, idle_seconds, serializable=serializable, of_script=of_script)
    _end_idle(statement)
    with _lock:
        _open[opened.id] = opened
    return opened


def _end_idle(statement: Statement) -> None:
    for each in list(_open.values()):
        if each.is_idle(statement):
            with _lock:
                _open.pop(each.id, None)
            each.give_up()
            each.forget()


def known(statement: Statement) -> OpenTransaction | None:
    """The session's transaction, idle or not; None if it has none that this process knows."""
    return _open.get(TRANSACTION.of(statement))


def current(statement: Statement) -> OpenTransaction | None:
    """The session's transaction; None if it has none.

    :raises HeadwaterError: ``HEADWATER_TRANSACTION_LOST`` if it is not known any more.
    """
    if not TRANSACTION.of(statement):
        return None
    found = known(statement)
    if found is None or found.is_closed or found.is_idle(statement):
        raise HeadwaterError("HEADWATER_TRANSACTION_LOST")
    found.touch()
    return found


def end(transaction: OpenTransaction) -> None:
    """Forget a transaction."""
    with _lock:
        _open.pop(transaction.id, None)
    transaction.forget()


def open_since(table: Snapshot, statement: Statement) -> int | None:
    """When the oldest transaction that has looked at a table and may still commit began, in milliseconds since the
    epoch. Idle transactions end first.
    """
    _end_idle(statement)
    return min((each.began for each in list(_open.values()) if each.has_looked_at(table)), default=None)
