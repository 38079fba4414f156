"""A table in the inspector: its newest snapshot, a few older ones, and what was computed from each.

Owns the memory of the inspector. Promises: a snapshot's facts are worked out once, however many requests ask for them
at the same time; what is kept of the table stays within a few snapshots.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, TypeVar

from headwater.basics.recent import Recent
from headwater.log.segment import LogListing, list_log
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.stores import Store

T = TypeVar("T")
#: Snapshots that are kept at a time: the newest, and those that a page still shows.
_MOST_SNAPSHOTS = 3


class Facts:
    """What was worked out, by name; each once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[Hashable, Future[Any]] = {}

    def once(self, name: Hashable, make: Callable[[], T]) -> T:
        """What ``make`` gives, or gave; who comes while it runs waits for it. A failure is not kept."""
        with self._lock:
            future = self._found.get(name)
            if mine := future is None:
                future = self._found[name] = Future()
        assert future is not None
        if mine:
            try:
                future.set_result(make())
            except BaseException as error:
                with self._lock:
                    del self._found[name]
                future.set_exception(error)
        result: T = future.result()
        return result

    def has(self, name: Hashable) -> bool:
        """Whether it is worked out already."""
        with self._lock:
            future = self._found.get(name)
        return future is not None and future.done() and future.exception() is None


class View:
    """One version of the table, and its facts."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._facts = Facts()

    def once(self, name: Hashable, make: Callable[[Snapshot], T]) -> T:
        """A fact of the snapshot, as :meth:`Facts.once`."""
        return self._facts.once(name, lambda: make(self.snapshot))

    def has(self, name: Hashable) -> bool:
        """Whether a fact is worked out already."""
        return self._facts.has(name)


class InspectedTable:
    """A table at a path. Its methods may be called by several threads."""

    def __init__(self, path: str, store: Store) -> None:
        self.path = path
        self.store = store
        self._lock = threading.Lock()
        self._views: Recent[int, View] = Recent(_MOST_SNAPSHOTS)

    def view(self, version: int | None = None) -> View:
        """The table at a version, or at its newest one.

        :raises HeadwaterError: those of :func:`~headwater.log.snapshot.load_snapshot`.
        """
        with self._lock:
            if version is not None and (view := self._views.get(version)) is not None:
                self._views[version] = view
                return view
            base = self._views[max(self._views)].snapshot if self._views else None
            if base is not None and version is not None and version < base.version:
                base = None
            snapshot = load_snapshot(self.path, self.store, version, base)
            known = self._views.get(snapshot.version)
            if known is None or known.snapshot is not snapshot:
                known = View(snapshot)
            self._views[snapshot.version] = known
            return known

    def listing(self) -> LogListing:
        """The whole log as it is now.

        :raises HeadwaterError: ``DELTA_TABLE_NOT_FOUND``.
        """
        return list_log(self.path, self.store)
