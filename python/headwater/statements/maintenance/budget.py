"""The time that maintenance may take, and how long rewriting files takes.

Owns the rule that nothing begins that would not end in the remaining time, by its estimate, and the pace that
estimates are made with: bytes of files rewritten per second, as this process has measured it of a table, or else
:data:`USUAL_PACE`. A long rewrite is cut into batches, so that each commit keeps what is done and the pace is soon
known. Promise: without a limit, nothing is cut.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from headwater.basics.recent import Recent

#: Bytes per second that a rewrite reads, until one of the table was measured. Chosen on the safe side, not measured.
USUAL_PACE = 25 << 20
#: Seconds that a commit of a rewrite takes beside its bytes: jobs, commit. Chosen, not measured.
BATCH_SECONDS = 2.0
#: The longest that a batch is to take, in seconds, and its share of the remaining time. Chosen, not measured.
_LONGEST_BATCH, _SHARE = 60.0, 0.25

#: By table, the bytes per second that its last rewrites took.
_paces: Recent[str, float] = Recent(1000)


def pace_of(table_path: str) -> float:
    """Bytes per second."""
    return _paces.get(table_path, USUAL_PACE)


def rewrite_seconds(size: int, pace: float) -> float:
    """How long it takes to rewrite files of so many bytes."""
    return BATCH_SECONDS + size / pace


class Budget:
    """What is left of a time, in seconds.

    :param seconds: None without a limit.
    :param now: the clock, in seconds.
    """

    def __init__(self, seconds: float | None, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._seconds = now, seconds
        self._end = math.inf if seconds is None else now() + seconds

    @property
    def left(self) -> float:
        """Seconds; infinite without a limit."""
        return max(0.0, self._end - self._now())

    def allows(self, seconds: float) -> bool:
        """Whether what takes so long may begin."""
        return seconds <= self.left

    def part_bytes(self, table_path: str, least: int, most: int) -> int:
        """How many bytes are clustered together, so that several such parts fit. It depends on the whole budget and not
        on what is left: the same budget gives the same parts, which later runs then do not merge again.
        """
        if self._seconds is None:
            return most
        return max(least, min(most, int(self._seconds * _SHARE * pace_of(table_path))))

    def batch_bytes(self, table_path: str, most: int) -> int:
        """How many bytes of files one commit is to rewrite, at most ``most``."""
        if math.isinf(self._end):
            return most
        seconds = min(_LONGEST_BATCH, self.left * _SHARE)
        return max(1, min(most, int(seconds * pace_of(table_path))))

    def allows_rewrite(self, table_path: str, size: int) -> bool:
        """Whether the rewrite of files of so many bytes may begin."""
        return self.allows(rewrite_seconds(size, pace_of(table_path)))

    def note_rewrite(self, table_path: str, size: int, seconds: float) -> None:
        """Note how long a rewrite took. Small ones say nothing about the pace."""
        if seconds > BATCH_SECONDS and size >= USUAL_PACE:
            _paces[table_path] = size / seconds


UNLIMITED = Budget(None)
