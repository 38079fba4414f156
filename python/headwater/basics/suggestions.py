"""Similar known names for an unknown one, to suggest in errors and warnings."""

from __future__ import annotations

import difflib
import re
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
    """A sentence to append to another, which names the most similar known name; empty if no name is similar."""
    return "".join(f" Did you mean {other}?" for other in nearest(name, known))


def misspelt(name: str, known: Iterable[str]) -> str | None:
    """The known name that a name certainly stands for; None if it may be a name of its own.

    A name stands for a known one if it has the same words in another order, case or notation (``merge_schema``),
    shortens words or writes them out (``idColumns``), lacks the last word or has one more (``partitionOverwrite``), or
    if one or two letters are missing, wrong or swapped. Two in one word are too many unless the word is long: options
    of other formats may differ in one word (``maxFilesPerTrigger``, ``maxLinesPerTrigger``).
    """
    words = _words(name)
    return next((other for other in known if _is_meant(words, _words(other))), None)


#: A word of at least so many letters may have two mistakes and still be the same word.
_LONG = 6
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+|\d+")


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def _is_meant(words: list[str], wanted: list[str]) -> bool:
    if sorted(words) == sorted(wanted):
        return True
    edits = _edits("".join(words), "".join(wanted))
    if len(words) != len(wanted):
        shorter, longer = sorted((words, wanted), key=len)
        return edits < 2 or len(shorter) > 1 and longer[:-1] == shorter
    pairs = list(zip(words, wanted, strict=True))
    if len(pairs) > 1 and all(_is_short_for(*pair) for pair in pairs):
        return True
    return edits < 2 or edits == 2 and all(_edits(*pair) < (2 if len(pair[1]) < _LONG else 3) for pair in pairs)


def _is_short_for(one: str, other: str) -> bool:
    """Whether one of two words is the other without some letters after the first."""
    short, full = sorted((one, other), key=len)
    rest = iter(full[1:])
    return short[0] == full[0] and all(letter in rest for letter in short[1:])


def _edits(one: str, other: str) -> int:
    """How many letters must be inserted, deleted, replaced or swapped with the next one to turn a word into another:
    the distance of optimal string alignment.
    """
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        before, last, row = row, before, [i]
        for j, wanted in enumerate(other, 1):
            edits = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                edits = min(edits, last[j - 2] + 1)
            row.append(edits)
    return row[-1]
