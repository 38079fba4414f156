"""The snapshot cache: the newest snapshots of this process's tables.

Owns what is kept of a table between statements, how old it may be, and how much of all tables is kept. By default, each
use lists the log and brings the snapshot up to date. If the session allows a staleness limit, a snapshot within it is
used unchanged and refreshed in the background. Snapshots themselves: :mod:`headwater.log.snapshot`.

Promise: what is kept is bounded by the number of tables, by the memory that they take, by the files that they keep open
and by the disk that copies of these take; a use costs the same however many tables there are. The memory is an estimate
(:mod:`headwater.log.memory_estimates`). A table that nobody has used for longest goes first. The cache's own lock is
held for bookkeeping only.
"""

from __future__ import annotations

import logging
import math
import time
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from threading import Lock

from headwater.basics import counts
from headwater.log.memory_estimates import Holding
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.stores import Store

_LOG = logging.getLogger(__name__)
#: How many earlier versions of a table are kept.
_MOST_EARLIER = 4
#: How many tables may have come since what all take was last looked at: statements derive columns after they were given
#: a snapshot.
_NEW_BETWEEN_LOOKS = 64
#: Bytes that a snapshot takes beside its files' columns: itself, for each listed file of its log, and for each
#: transaction of an application (``python -m bench.many_tables``).
_SNAPSHOT_BYTES, _LISTED_BYTES, _TRANSACTION_BYTES = 8 << 10, 320, 300
#: How many times its text's bytes a schema takes, parsed (same bench).
_SCHEMA_FACTOR = 5
#: The part of a table that is the tombstones of its commits: the newest version has those of the earlier ones.
_TOMBSTONES = object()


class SnapshotCache:
    """The newest snapshot known of each table, brought up to date by a listing at each use, and a few earlier ones,
    which statements may have begun with. Safe for threads. What is given reads through the store it was asked with,
    never through that of another session, whose settings and rights may be others. What was read with options of a
    table's own (:attr:`Store.identity`) is given to those with the same options only: some of it needs no reading.

    :param capacity: how many tables to keep; the one not used for longest goes first.
    :param most_bytes: how much memory they may take in all, earlier versions going first; the table used last is
        always kept.
    :param most_open_files: how many files they may keep open, likewise: large checkpoints, which statistics are read
        from when they are asked for.
    :param most_copied_bytes: how much disk copies of these may take, likewise. They are deleted, so that a process that
        is killed leaves none, and only their process is seen to have them.
    """

    def __init__(
        self,
        capacity: int = 4096,
        most_bytes: int = 1 << 30,
        most_open_files: int = 256,
        most_copied_bytes: int = 4 << 30,
    ) -> None:
        self._capacity = capacity
        self._most_copied_bytes = most_copied_bytes
        self._most_bytes = most_bytes
        self._most_open_files = most_open_files
        self._lock = Lock()
        self._entries: OrderedDict[tuple[str, str], _Entry] = OrderedDict()
        self._total = _Weight()
        self._new_since_look = 0

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
            try:
                found = load_snapshot(table_path, store, version, base)
            except BaseException:
                self._drop_if_empty(table_path, store, entry)
                raise
            if found is not base:
                entry.remember(found)
                self._weigh(table_path, store, entry)
            return found.through(store)
        known = entry.snapshot
        if known is not None and entry.age() <= staleness_limit:
            counts.count("snapshotCacheHits")
            if store.is_shared:
                self._refresh_behind(entry, table_path, store)
            return known.through(store)
        return self._refresh(entry, table_path, store).through(store)

    def _refresh(self, entry: _Entry, table_path: str, store: Store) -> Snapshot:
        try:
            with entry.lock:  # two threads that want the same table's news read it once
                began = time.monotonic()
                newest = load_snapshot(table_path, store, base=entry.snapshot)
                changed = entry.replace(newest)
                entry.checked = began
        except BaseException:
            self._drop_if_empty(table_path, store, entry)
            raise
        counts.count("snapshotCacheMisses" if changed else "snapshotCacheHits")
        self._weigh(table_path, store, entry)
        return newest

    def _refresh_behind(self, entry: _Entry, table_path: str, store: Store) -> None:
        if not entry.refreshing.acquire(blocking=False):
            return  # it is under way

        def refresh() -> None:
            try:
                self._refresh(entry, table_path, store)
            except Exception as error:  # the next reader past the limit gets the error
                _LOG.warning("%s could not be refreshed in the background: %s", table_path, error)
            finally:
                entry.refreshing.release()

        try:
            _workers().submit(refresh)
        except RuntimeError:  # the interpreter is shutting down
            entry.refreshing.release()

    def put(self, snapshot: Snapshot) -> None:
        """Make a snapshot known, as a writer does after its commit; one older than the known is not taken, unless that
        is of another table, which is gone.
        """
        entry = self._entry(snapshot.table_path, snapshot.store)
        with entry.lock:
            if entry.is_older(snapshot):
                entry.replace(snapshot)
        self._weigh(snapshot.table_path, snapshot.store, entry)

    def forget(self, table_path: str, identity: str | None = None) -> None:
        """Drop what is known of a table; with ``identity``, only what was read through stores of that."""
        with self._lock:
            for key in [key for key in self._entries if key[0] == table_path and identity in (None, key[1])]:
                self._remove(key)

    def _entry(self, table_path: str, store: Store) -> _Entry:
        key = (table_path, store.identity)
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                entry = self._entries[key] = _Entry()
                self._new_since_look += 1
            else:
                self._entries.move_to_end(key)
            entry.is_used = True
            return entry

    def _drop_if_empty(self, table_path: str, store: Store, entry: _Entry) -> None:
        """Let places where there is no table, which a crawler may look at by the thousand, take no table's place."""
        key = (table_path, store.identity)
        with self._lock:
            if self._entries.get(key) is entry and not entry.all():
                self._remove(key)

    def _remove(self, key: tuple[str, str]) -> None:
        """Call it under the lock."""
        self._total -= self._entries.pop(key).weight

    def _weigh(self, table_path: str, store: Store, entry: _Entry) -> None:
        """Take note of what a table takes now, and make room where all take too much."""
        weight = entry.weigh()
        with self._lock:
            if self._entries.get((table_path, store.identity)) is not entry:
                return  # it had to go meanwhile
            self._set_weight(entry, weight)
            if self._new_since_look >= _NEW_BETWEEN_LOOKS:
                self._look_again()
            while len(self._entries) > self._capacity:
                self._remove(next(iter(self._entries)))
            while self._is_too_much() and self._make_room():
                pass
            counts.level("cachedTables", len(self._entries))
            counts.level("cachedFiles", self._total.files)
            counts.level("cachedBytes", self._total.bytes)

    def _look_again(self) -> None:
        """Weigh the tables that were used since the last time: the last ones in the order of use."""
        self._new_since_look = 0
        for entry in reversed(self._entries.values()):
            if not entry.is_used:
                break
            entry.is_used = False
            self._set_weight(entry, entry.weigh())

    def _set_weight(self, entry: _Entry, weight: _Weight) -> None:
        self._total += weight - entry.weight
        entry.weight = weight

    def _is_too_much(self) -> bool:
        return (
            self._total.bytes > self._most_bytes
            or self._total.open_files > self._most_open_files
            or self._total.copied_bytes > self._most_copied_bytes
        )

    def _make_room(self) -> bool:
        """Let an earlier version of a table go, or a table; False if nothing is left that may."""
        aged = next((entry for entry in self._entries.values() if entry.earlier), None)
        if aged is not None:
            aged.earlier = aged.earlier[1:]
            self._set_weight(aged, aged.weigh())
            return True
        if len(self._entries) > 1:
            self._remove(next(iter(self._entries)))
            return True
        return False


@dataclass(frozen=True)
class _Weight:
    """What tables take: bytes of memory, open files, and the bytes of open files that are copies; and how many live
    files their newest versions have.
    """

    bytes: int = 0
    open_files: int = 0
    files: int = 0
    copied_bytes: int = 0

    def __add__(self, other: _Weight) -> _Weight:
        return self._with(other, 1)

    def __sub__(self, other: _Weight) -> _Weight:
        return self._with(other, -1)

    def _with(self, other: _Weight, times: int) -> _Weight:
        return _Weight(
            self.bytes + times * other.bytes,
            self.open_files + times * other.open_files,
            self.files + times * other.files,
            self.copied_bytes + times * other.copied_bytes,
        )


def _holdings(snapshot: Snapshot) -> Iterator[Holding]:
    """The parts of a snapshot."""
    state, metadata = snapshot.state, snapshot.metadata
    listed = _LISTED_BYTES * len(snapshot.segment.listing.commits)
    yield Holding(snapshot, _SNAPSHOT_BYTES + listed + sum(live.dead.nbytes for live in state.blocks))
    yield Holding(metadata, _SCHEMA_FACTOR * len(metadata.schema_string))
    yield Holding(state.transactions, _TRANSACTION_BYTES * len(state.transactions))
    yield from (Holding(domain, len(domain.configuration)) for domain in state.domains.values())
    for live in state.blocks:
        yield from live.block.holdings()
    yield from (source.holding for source in state.tombstone_sources[: state.checkpoint_sources])
    yield Holding(_TOMBSTONES, state.tombstone_bytes)


class _Entry:
    """What is known of a table: its newest snapshot, and some of earlier versions."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.refreshing = Lock()
        self.checked = -math.inf  #: by the monotonic clock, when ``snapshot`` was last known to be the newest
        self.snapshot: Snapshot | None = None
        #: What the cache counts for it, and whether it was used since it last looked again; changed under its lock.
        self.weight, self.is_used = _Weight(), False
        #: What was weighed last, and found.
        self._weighed: tuple[tuple[list[Snapshot], int], _Weight] = ([], 0), _Weight()
        #: Oldest use first; replaced, never changed, so that it is read without a lock.
        self.earlier: tuple[Snapshot, ...] = ()

    def weigh(self) -> _Weight:
        """What it takes; its versions share most of their parts. Counted again where it has other versions than at the
        last time, or more columns were derived from one: hundreds of sidecars are thousands of parts.
        """
        snapshots = self.all()
        derived = sum(len(live.block.cache) for snapshot in snapshots for live in snapshot.state.blocks)
        if self._weighed[0] != (snapshots, derived):
            parts = {id(held.part): held for snapshot in snapshots for held in _holdings(snapshot)}
            found = _Weight(
                sum(held.bytes for held in parts.values()),
                sum(held.open_files for held in parts.values()),
                0 if self.snapshot is None else self.snapshot.num_files,
                sum(held.copied_bytes for held in parts.values()),
            )
            self._weighed = (snapshots, derived), found
        return self._weighed[1]

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

    def is_older(self, snapshot: Snapshot) -> bool:
        """Whether what is known is older than a snapshot, or of another table."""
        known = self.snapshot
        return known is None or known.version < snapshot.version or known.metadata.id != snapshot.metadata.id

    def replace(self, newest: Snapshot) -> bool:
        """Take a newest snapshot; False if it is the one that was known. Call it under ``lock``."""
        if newest is self.snapshot:
            return False
        if self.snapshot is not None and self.snapshot.metadata.id == newest.metadata.id:
            self.remember(self.snapshot)
        else:
            self.earlier = ()
        self.snapshot = newest
        return True


@cache
def _workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(2, "headwater-refresh")
