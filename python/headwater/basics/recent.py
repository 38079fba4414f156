"""A dictionary of bounded size, for what a process remembers of very many things, such as tables it has written to."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

#: Entries that are kept, unless another number is asked for: a few megabytes of paths and short values.
_MOST = 10_000


class Recent(OrderedDict[K, V]):
    """A dictionary that forgets: beyond ``most`` entries, those that were not set for longest go; to set one again, to
    what it is, keeps it. Safe for threads, as far as a dictionary is. For what is right without it, and only takes
    longer or is said twice.
    """

    def __init__(self, most: int = _MOST) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        with contextlib.suppress(KeyError):  # another thread has just let it go
            self.move_to_end(key)
        while len(self) > self._most:
            self.popitem(last=False)
