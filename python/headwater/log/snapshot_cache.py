"""The snapshot cache: the newest snapshots of this process's tables.

Owns what is kept of a table between statements, and how old it may be. By default, each use lists the log and brings
the snapshot up to date. If the session allows a staleness limit, a snapshot within it is used unchanged and refreshed
in the background. Snapshots themselves: :mod:`headwater.log.snapshot`.
"""

from __future__ import annotations

import logging
import math
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Lock

from headwater import counts
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.stores import Store

_LOG = logging.getLogger(__name__)
#: How many earlier versions of a table are kept.
_MOST_EARLIER = 4


class SnapshotCache:
    """The newest snapshot known of each table, brought up to date by a listing at each use, and a few earlier ones,
    which statements may have begun with. Safe for threads. What is given reads through the store it was asked with,
    never through that of another session, whose settings and rights may be others. What was read with options of a
    table's own (:attr:`Store.identity`) is given to those with the same options only: some of it needs no reading.

    :param capacity: how many tables to keep; the one not used for longest goes first.
    :param most_files: how many files to keep in all, earlier versions going first; the table used last is always kept.
    """

    def __init__(self, capacity: int = 64, most_files: int = 2_000_000) -> None:
        self._capacity = capacity
        self._most_files = most_files
        self._lock = Lock()
        self._entries: OrderedDict[tuple[str, str], _Entry] = OrderedDict()

    def get(self, table_path: str, store: Store, version: int | None = None, staleness_limit: int = 0) -> Snapshot:
        """The snapshot of ``version``, or of the newest one there is now.

        :param staleness_limit: milliseconds; a newest snapshot that was so not longer ago may be given as it is. It
            is then brought up to date after the call, for the next; not on a store that sessions do not share, which
            the statement may not have used yet (:attr:`Store.is_shared`): there the first call after the limit does it.
        :raises HeadwaterError: as :func:`load_snapshot`.
        """
        entry = self._entry(table_path, store)
        if version is not None:
            base = entry.nearest(version)
            found = load_snapshot(table_path, store, version, base)
            if found is not base:
                entry.remember(found)
                self._trim()
            return found.through(store)
        known = entry.snapshot
        if known is not None and entry.age() <= staleness_limit:
            counts.count("snapshotCacheHits")
            if store.is_shared:
                self._refresh_behind(entry, table_path, store)
            return known.through(store)
        return self._refresh(entry, table_path, store).through(store)

    def _refresh(self, entry: _Entry, table_path: str, store: Store) -> Snapshot:
        with entry.lock:  # two threads that want the same table's news read it once
            began = time.monotonic()
            newest = load_snapshot(table_path, store, base=entry.snapshot)
            changed = entry.replace(newest)
            entry.checked = began
        counts.count("snapshotCacheMisses" if changed else "snapshotCacheHits")
        if changed:
            self._trim()
        return newest

    def _refresh_behind(self, entry: _Entry, table_path: str, store: Store) -> None:
        if not entry.refreshing.acquire(blocking=False):
            return  # it is under way

        def refresh() -> None:
            try:
                self._refresh(entry, table_path, store)
            except Exception as error:  # the next reader past the limit gets the error
                _LOG.warning("%s could not be brought up to date behind a reader: %s", table_path, error)
            finally:
                entry.refreshing.release()

        try:
            _workers().submit(refresh)
        except RuntimeError:  # the interpreter is shutting down
            entry.refreshing.release()

    def put(self, snapshot: Snapshot) -> None:
        """Make a snapshot known, as a writer does after its commit; one older than the known is not taken."""
        entry = self._entry(snapshot.table_path, snapshot.store)
        with entry.lock:
            if entry.snapshot is None or entry.snapshot.version < snapshot.version:
                entry.replace(snapshot)
        self._trim()

    def forget(self, table_path: str, identity: str | None = None) -> None:
        """Drop what is known of a table; with ``identity``, only what was read through stores of that."""
        with self._lock:
            for key in [key for key in self._entries if key[0] == table_path and identity in (None, key[1])]:
                del self._entries[key]

    def _entry(self, table_path: str, store: Store) -> _Entry:
        key = (table_path, store.identity)
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            while len(self._entries) > self._capacity:
                self._entries.popitem(last=False)
            return entry

    def _trim(self) -> None:
        with self._lock:
            while self._files_kept() > self._most_files:
                aged = next((entry for entry in self._entries.values() if entry.earlier), None)
                if aged is not None:
                    aged.earlier = aged.earlier[1:]
                elif len(self._entries) > 1:
                    self._entries.popitem(last=False)
                else:
                    break
            counts.level("cachedTables", len(self._entries))
            newest = (entry.snapshot for entry in self._entries.values())
            counts.level("cachedFiles", sum(snapshot.num_files for snapshot in newest if snapshot is not None))

    def _files_kept(self) -> int:
        """Files in all blocks; versions of a table share most of theirs."""
        snapshots = [snapshot for entry in self._entries.values() for snapshot in entry.all()]
        return sum({id(live.block): len(live.block) for s in snapshots for live in s.state.blocks}.values())


class _Entry:
    """What is known of a table: its newest snapshot, and some of earlier versions."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.refreshing = Lock()
        self.checked = -math.inf  #: by the monotonic clock, when ``snapshot`` was last known to be the newest
        self.snapshot: Snapshot | None = None
        #: Oldest use first; replaced, never changed, so that it is read without a lock.
        self.earlier: tuple[Snapshot, ...] = ()

    def age(self) -> float:
        """Milliseconds since the snapshot was known to be the newest."""
        return (time.monotonic() - self.checked) * 1000

    def all(self) -> list[Snapshot]:
        newest = self.snapshot
        return [*self.earlier, *([newest] if newest is not None else [])]

    def nearest(self, version: int) -> Snapshot | None:
        """The snapshot that a version is built from most cheaply; whether it is of the same table, loading looks."""
        return max((s for s in self.all() if s.version <= version), key=lambda s: s.version, default=None)

    def remember(self, earlier: Snapshot) -> None:
        self.earlier = (*self.earlier, earlier)[-_MOST_EARLIER:]

    def replace(self, newest: Snapshot) -> bool:
        """Take a newest snapshot; False where it is the one that was known. Call it under ``lock``."""
        if newest is self.snapshot:
            return False
        if self.snapshot is not None:
            self.remember(self.snapshot)
        self.snapshot = newest
        return True


@cache
def _workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(2, "headwater-refresh")
