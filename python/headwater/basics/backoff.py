"""Backoff with jitter: how long to wait before the next try, after a lost race or if a store did not answer.

Owns the waits of commits, of statements, of hooks, and of requests to a store. The range of the first wait doubles with
each loss up to the longest one; a wait is of random length within its range, so that those who lost together do not
meet again.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
#: Doublings after which a range grows no more, whatever the longest wait is.
_MOST_DOUBLINGS = 10


class Backoff(NamedTuple):
    """Ranges of waits, in seconds: of the first, and of the longest."""

    first: float
    longest: float

    def wait(self, losses: int, until: float | None = None) -> None:
        """Wait after so many losses.

        :param until: a deadline by ``time.monotonic()``, which no wait passes.
        """
        seconds = random.uniform(0, min(self.longest, self.first * 2 ** min(losses, _MOST_DOUBLINGS)))
        time.sleep(seconds if until is None else max(0.0, min(seconds, until - time.monotonic())))

    def tries(self, most: int) -> Iterator[int]:
        """The numbers of at most so many tries, with a wait before each but the first."""
        for losses in range(most):
            if losses:
                self.wait(losses)
            yield losses

    def insist(self, do: Callable[[], T], most: int, may_help: Callable[[Exception], bool] = lambda error: True) -> T:
        """What the first of at most so many tries returns that does not fail, with a wait before each but the first.

        :param may_help: asked after a failure: whether another try may succeed.
        """
        losses = 0
        while True:
            try:
                return do()
            except Exception as error:
                losses += 1
                if losses == most or not may_help(error):
                    raise
                _LOG.debug("try %d of %d failed", losses, most, exc_info=True)
                self.wait(losses)


#: Of a commit that lost its version to another writer (bench case ``appends-4``).
OF_COMMITS = Backoff(0.002, 0.25)
#: Of a statement that lost to a writer of another process; no bench case has two writing processes.
OF_STATEMENTS = Backoff(0.02, 1.0)
#: Of a request that the store put off, as another one for the same name was running.
OF_REQUESTS = Backoff(0.05, 0.5)
#: Of a look at a store that failed to answer.
OF_LOOKS = Backoff(0.2, 1.5)
#: Of a commit that is shown again to a hook that failed.
OF_HOOKS = Backoff(2.0, 16.0)
#: Of a request to a catalog that did not answer, or put it off.
OF_CATALOGS = Backoff(0.1, 2.0)
