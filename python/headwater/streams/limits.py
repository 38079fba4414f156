"""Rate limits: how many files the next micro-batch takes.

Owns the two limits and their rule: a file is taken while both have room before it, so the file that crosses a limit is
taken, and a micro-batch never stays empty for a limit. :mod:`headwater.streams.source` applies them.
"""

from __future__ import annotations

import numpy as np


class Limits:
    """What a micro-batch may still take.

    :param files: how many files; None is without limit.
    :param size: how many bytes; None is without limit.
    """

    def __init__(self, files: int | None = None, size: int | None = None) -> None:
        self._files = files
        self._bytes = size
        self._taken = False

    def take(self, sizes: np.ndarray) -> int:
        """How many of these files, of so many bytes each, are taken, from the first on."""
        count = len(sizes)
        if self._files is not None:
            count = min(count, max(self._files, 0))
        if self._bytes is not None and count:
            before = np.cumsum(sizes[:count]) - sizes[:count]
            count = int(np.searchsorted(before, self._bytes, side="left"))
        self._use(count, sizes[:count])
        return count

    def take_whole(self, sizes: np.ndarray) -> int:
        """The same for files that are taken together or not at all; the first of a micro-batch are always taken."""
        total = int(np.sum(sizes))
        fits = (self._files is None or len(sizes) <= self._files) and (self._bytes is None or total <= self._bytes)
        if self._taken and len(sizes) and not fits:
            return 0
        self._use(len(sizes), sizes)
        return len(sizes)

    @property
    def room(self) -> tuple[int | None, int | None]:
        """How many files and bytes may still be taken; None is without limit."""
        return self._files, self._bytes

    def _use(self, count: int, sizes: np.ndarray) -> None:
        self._taken = self._taken or count > 0
        if self._files is not None:
            self._files -= count
        if self._bytes is not None:
            self._bytes -= int(np.sum(sizes))
