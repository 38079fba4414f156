"""A part of a matrix of cases in which each value of each parameter still occurs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence


def covering(cases: Sequence[Mapping[Hashable, Hashable]]) -> list[int]:
    """The numbers of the cases to keep, in order; each case says which value of each parameter it has.

    The next one is that with most values that did not occur yet, and among these the one whose values occurred least:
    so values meet many others.
    """
    missing = {pair for case in cases for pair in case.items()}
    used: Counter[tuple[Hashable, Hashable]] = Counter()
    kept: list[int] = []
    while missing:
        best = max(
            (number for number in range(len(cases)) if number not in kept),
            key=lambda n: (len(missing & set(cases[n].items())), -sum(used[pair] for pair in cases[n].items()), -n),
        )
        kept.append(best)
        used.update(cases[best].items())
        missing -= set(cases[best].items())
    return sorted(kept)
