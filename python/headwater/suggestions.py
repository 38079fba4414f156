"""The names that a user may have meant by one that is not known: a word of errors and warnings."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

#: How similar a name must be to be suggested, by ``difflib``'s ratio: a swapped, missing or wrong letter or two in a
#: word of usual length, and not another word.
_SIMILAR = 0.6


def nearest(name: str, known: Iterable[str], most: int = 1) -> list[str]:
    """The known names most similar to a name, regardless of case; the best first, none where all differ much.

    :param most: how many, at most.
    """
    by_folded_name = {other.lower(): other for other in known}
    found = difflib.get_close_matches(name.lower(), by_folded_name, n=most, cutoff=_SIMILAR)
    return [by_folded_name[folded] for folded in found]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A sentence to append to another, which names the most similar known name; empty where there is none."""
    return "".join(f" Did you mean {other}?" for other in nearest(name, known))
