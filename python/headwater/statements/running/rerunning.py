"""Running a statement again after it lost a race to another writer, or rows that it had cached.

Owns the loops, their limits and the statement's turn in the table's queue (:mod:`headwater.transaction.queueing`). What
one attempt does, and whether another may follow, is the statement's. Promise: what an attempt that lost has written is
discarded before the next begins.

*A lost cached source.* The rows of a cached source lie on the executors, in one copy. If an executor is lost with some
of them, Spark would compute them again, and a source that is not deterministic would give other rows to the second job
than to the first. So ``StatementContext.keep`` materializes them without their lineage (``MaterializedRows``): a job
that misses a block fails with ``LostBlockException``. The statement deletes the files it has written and starts from
the beginning with a new snapshot and a new cache (:func:`run_again_after_lost_rows`).
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Container, Sequence
from typing import TypeVar

from headwater.basics import backoff, counts
from headwater.basics.errors import HeadwaterError
from headwater.bridge.statement import Statement
from headwater.statements.running.opening import locate
from headwater.statements.settings import RETRY_SECONDS
from headwater.transaction.queueing import queue_of

_LOG = logging.getLogger(__name__)
#: Conflicts after which the statement may succeed on a newer snapshot. One that has become impossible, as a column was
#: dropped, is refused when it begins again.
RETRIED = frozenset(
    {
        "DELTA_CONCURRENT_APPEND",
        "DELTA_CONCURRENT_DELETE_READ",
        "DELTA_CONCURRENT_DELETE_DELETE",
        "DELTA_METADATA_CHANGED",
        "DELTA_PROTOCOL_CHANGED",
    }
)
#: Rows that the statement cached were lost with an executor. The next attempt computes and caches them again.
_ROWS_LOST = "DELTA_MERGE_MATERIALIZE_SOURCE_FAILED_REPEATEDLY"
_ATTEMPTS_AFTER_LOST_ROWS = 4
#: The most versions a statement lost to that its error names.
_MOST_VERSIONS = 5

T = TypeVar("T")


def _always(error: HeadwaterError) -> bool:
    return True


def run_again_after_losses(
    table: str,
    statement: Statement,
    attempt: Callable[[], T],
    may_run_again: Callable[[HeadwaterError], bool] = _always,
    *,
    waits_for_others: bool | Callable[[], bool] = True,
    discards: bool = True,
    retried: Container[str] = RETRIED,
    within: float = math.inf,
) -> T:
    """Make an attempt; after a conflict with another writer the next, until the deadline. Statements of this process
    that lost run one after the other.

    :param may_run_again: asked after a conflict.
    :param waits_for_others: whether the first attempt waits for statements that lost; False for a statement that
        seldom makes others lose, or loses. A function is only called if there are such statements.
    :param retried: the conflicts after which the next attempt may succeed.
    :param discards: whether what a lost attempt has written is deleted; False if the attempt itself sees to it.
    :param within: seconds after which no attempt begins, where that is sooner than the setting's.
    :raises HeadwaterError: the last conflict, once ``spark.headwater.dml.retrySeconds`` have passed.
    """
    began = time.monotonic()
    deadline = began + min(RETRY_SECONDS.of(statement), within)
    queue = queue_of(locate(table, statement).path)
    if callable(waits_for_others):
        waits_for_others = queue.length > 0 and waits_for_others()
    # Half of the time is left for running, however long others take.
    place = queue.arrive(_half_way(deadline), statement.check_cancelled) if waits_for_others else None
    lost_to: list[str] = []
    try:
        while True:
            started = time.monotonic()
            try:
                done = attempt()
            except HeadwaterError as error:
                if error.condition not in retried or not may_run_again(error):
                    raise
                counts.count("reruns")
                lost_to.append(error.parameters.get("version", "unknown"))
                if time.monotonic() >= deadline:
                    tried = _tried(lost_to, time.monotonic() - began)
                    raise HeadwaterError(error.condition, {**error.parameters, "tried": tried}) from error
                if discards:
                    statement.discard()
                _LOG.info("%s: attempt %d lost to another writer, running again: %s", table, len(lost_to), error)
                seconds = time.monotonic() - started
                if place is None:
                    queue.note(True)
                    place = queue.take_place(seconds, _half_way(deadline), statement.check_cancelled)
                else:
                    # Only writers without a place won: other processes, or statements that were already running.
                    queue.lost_again(place, seconds)
                    statement.check_cancelled()
                    backoff.OF_STATEMENTS.wait(len(lost_to), deadline)
            else:
                if place is None and waits_for_others:
                    queue.note(False)
                return done
    finally:
        if place is not None:
            queue.give_back(place)


def run_again_after_lost_rows(
    table: str, statement: Statement, attempt: Callable[[], T], forget: Callable[[], None] = lambda: None
) -> T:
    """Run an attempt; again from its start where an executor was lost with rows that the statement had cached.

    :param forget: called before the next attempt: what was cached is gone.
    :raises HeadwaterError: ``DELTA_MERGE_MATERIALIZE_SOURCE_FAILED_REPEATEDLY``.
    """
    for _ in range(_ATTEMPTS_AFTER_LOST_ROWS - 1):
        try:
            return attempt()
        except HeadwaterError as error:
            if error.condition != _ROWS_LOST:
                raise
            _LOG.warning("%s: cached rows of the source were lost with an executor; trying again", table)
            statement.discard()
            forget()
    return attempt()


def _half_way(deadline: float) -> float:
    now = time.monotonic()
    return now + max(0.0, deadline - now) / 2


def _tried(lost_to: Sequence[str], seconds: float) -> str:
    """For the message of a conflict: how often a statement ran, for how long, and what it lost to."""
    if len(lost_to) == 1:
        return ""
    named = list(dict.fromkeys(lost_to))[-_MOST_VERSIONS:]
    return f", which ran {len(lost_to)} times in {seconds:.1f} s and lost to versions {', '.join(named)}"
