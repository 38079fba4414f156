"""Names of the columns that a query adds to the user's columns.

Promise: the two never collide. A name is a plain word, because EXPLAIN shows it; it gets a number if a column of the
user has that name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class InternalNames:
    """Names that none of the columns ``taken`` has, whatever its case."""

    taken: frozenset[str]
    _given: dict[str, str] = field(default_factory=dict, compare=False)

    @staticmethod
    def beside(columns: Iterable[str]) -> InternalNames:
        """Names for a query over columns."""
        return InternalNames(frozenset(map(_folded, columns)))

    def of(self, word: str) -> str:
        """The name a word stands for, always the same one."""
        if word not in self._given:
            name, number = word, 1
            while name in self.taken or name in self._given.values():
                number += 1
                name = f"{word}_{number}"
            self._given[word] = name
        return self._given[word]


def _folded(name: str) -> str:
    # As Java compares names without their case: a letter that is S in capitals is an s.
    return name.upper().lower()
