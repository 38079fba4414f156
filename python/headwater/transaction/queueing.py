"""The queue of a table: statements of this process that lost a race run again one after the other.

Owns which statement of a process may run next on a table. Without it, statements that replace rows of the same files
race again and again, and each time the work of all but one is lost.

A statement first runs as if it were alone. One that lost takes a place in the table's queue and runs again when all
places before its own are given back; it keeps the place until it ends. A *newcomer* that meets a queue waits for those
in it, so that it does not make them lose again:

- normally until those who queued when it came have ended; then all newcomers run at once,
- in a place of its own where most of the statements that ran without one lost lately: then one after the other is
  the fastest order.

A newcomer does not wait, or stops waiting, if one of those before it takes longer than :data:`LONG_SECONDS`, or all of
them longer than :data:`NEWCOMERS_PATIENCE_SECONDS`, unless the first in the queue has lost in its place
:data:`LOSSES_THAT_COUNT` times. How long one takes is what its last attempt took, or the present one has taken so far.

Promises: places are given in the order they were asked for. A statement holds one place at most, and asks for none
while it holds one: no deadlock. A wait ends at the time its caller names, when the caller's ``check`` raises (the
statement was cancelled), and when the thread that holds the place before has ended. Other processes are not in the
queue; against those, :mod:`headwater.basics.backoff` helps.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection

#: Newcomers do not wait for a queue in which one statement takes longer than the first, or all together longer than the
#: second; in seconds. Chosen, not measured: no bench case has statements that long.
LONG_SECONDS, NEWCOMERS_PATIENCE_SECONDS = 10.0, 40.0
#: After this many losses in its place, newcomers wait for the first in the queue however long it takes.
LOSSES_THAT_COUNT = 2
#: How often a waiting statement looks whether it was cancelled, in seconds.
_LOOK_SECONDS = 0.1
#: Weight of one attempt in the moving share of attempts that lost (bench cases ``upserts-same``, ``upserts-other``).
_WEIGHT = 0.15


class Place:
    """A statement's place in a queue. ``lost`` counts its losses in it; its last attempt took ``seconds``, and the
    present one began at ``since``, by ``time.monotonic()``.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.since: float | None = None
        self.lost = 0
        self.thread = threading.current_thread()

    @property
    def takes(self) -> float:
        """How many seconds an attempt takes, as far as is known."""
        return self.seconds if self.since is None else max(self.seconds, time.monotonic() - self.since)


class TableQueue:
    """The queue of one table. Its methods may be called by any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._places: deque[Place] = deque()
        self._share_lost = 0.0

    def arrive(self, until: float, check: Callable[[], None]) -> Place | None:
        """Called before a statement's first attempt: returns when it may run, with its place if it has one.

        :param until: the end of the wait, by ``time.monotonic()``.
        :param check: raises where the statement was cancelled.
        """
        with self._changed:
            self._drop_dead()
            if not self._places:
                return None
            before = list(self._places)
            if self._need_not_wait_for(before):
                return None
            if self._share_lost > 0.5:
                # Each one in a place makes the next more likely to try without: conflicts may have become rare.
                self._share_lost *= 1 - _WEIGHT / 10
                place = Place(max(each.seconds for each in before))
                self._places.append(place)
            else:
                place = None
        if place is None:
            self._wait(lambda: self._need_not_wait_for(before), until, check)
            return None
        self._wait_for_turn(place, until, check, before)
        with self._changed:
            has_turn = self._places[0] is place or not self._need_not_wait_for(before)
        if has_turn:
            return place
        self.give_back(place)
        return None

    def _need_not_wait_for(self, before: Collection[Place]) -> bool:
        """Whether a newcomer runs: those that were there before it have ended, or take too long."""
        takes = [place.takes for place in self._places if place in before]
        is_long = bool(takes) and (max(takes) > LONG_SECONDS or sum(takes) > NEWCOMERS_PATIENCE_SECONDS)
        return not takes or is_long and self._places[0].lost < LOSSES_THAT_COUNT

    def take_place(self, seconds: float, until: float, check: Callable[[], None]) -> Place:
        """Called when an attempt without a place lost, after ``seconds``. Returns with a place when the statement may
        run again, or at ``until``."""
        place = Place(seconds)
        with self._changed:
            self._places.append(place)
        self._wait_for_turn(place, until, check)
        return place

    def lost_again(self, place: Place, seconds: float) -> None:
        """An attempt in a place lost, after ``seconds``."""
        with self._changed:
            place.lost += 1
            place.seconds = seconds
            place.since = time.monotonic()

    def give_back(self, place: Place) -> None:
        """The statement ended."""
        with self._changed:
            if place in self._places:
                self._places.remove(place)
            self._changed.notify_all()

    def note(self, lost: bool) -> None:
        """What became of an attempt without a place."""
        with self._changed:
            self._share_lost += _WEIGHT * (lost - self._share_lost)

    @property
    def length(self) -> int:
        """How many statements have a place."""
        with self._changed:
            return len(self._places)

    def _wait_for_turn(
        self, place: Place, until: float, check: Callable[[], None], before: Collection[Place] | None = None
    ) -> None:
        def is_over() -> bool:
            return self._places[0] is place if before is None else self._need_not_wait_for(before)

        try:
            self._wait(is_over, until, check)
        except BaseException:
            self.give_back(place)
            raise
        place.since = time.monotonic()

    def _wait(self, over: Callable[[], bool], until: float, check: Callable[[], None]) -> None:
        while True:
            with self._changed:
                self._drop_dead()
                left = until - time.monotonic()
                if over() or left <= 0:
                    return
                self._changed.wait(min(left, _LOOK_SECONDS))
                if over():
                    return
            # Without the lock: it asks another process.
            check()

    def _drop_dead(self) -> None:
        if any(not place.thread.is_alive() for place in self._places):
            self._places = deque(place for place in self._places if place.thread.is_alive())
            self._changed.notify_all()


_QUEUES: dict[str, TableQueue] = {}
_LOCK = threading.Lock()
_MOST_QUEUES = 1000


def queue_of(table_path: str) -> TableQueue:
    """The queue of a table, by its path as the store spells it."""
    with _LOCK:
        queue = _QUEUES.get(table_path)
        if queue is None:
            if len(_QUEUES) >= _MOST_QUEUES:
                for path in [path for path, other in _QUEUES.items() if not other.length]:
                    del _QUEUES[path]
            queue = _QUEUES[table_path] = TableQueue()
        return queue
