"""The grammar of REORG.

Owns the parsing of ``REORG TABLE <table> [WHERE <condition>] APPLY (PURGE)`` and of ``REORG TABLE <table> APPLY
(UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = <version>))``. Promise: the condition is the user's text; whoever evaluates
it has Spark parse it by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headwater.sql.tokens import NotParsed, Pattern, Token, text_of

_REORG = Pattern("REORG TABLE")
_PURGE = Pattern(r"APPLY \( PURGE \)")
_UNIFORM = ("APPLY", "(", "UPGRADE", "UNIFORM", "(", "ICEBERG_COMPAT_VERSION", "=", "<version>", ")", ")")
_HOW = (
    "REORG is written REORG TABLE t [WHERE condition] APPLY (PURGE), or REORG TABLE t APPLY (UPGRADE UNIFORM "
    "(ICEBERG_COMPAT_VERSION = 2))"
)


def parse(
    found: Sequence[Token], text: str, ends_of_table: Callable[[Sequence[Token], int], set[int]], not_parsed: NotParsed
) -> dict[str, Any] | None:
    """The command of a text with its table and arguments, None where it is another statement.

    :param ends_of_table: where a table that begins at a token may end.
    :raises HeadwaterError: as ``not_parsed`` makes them.
    """
    begin = _REORG.match(found)
    ends = set() if begin is None else ends_of_table(found, begin.end)
    if begin is None or not ends:
        return None
    at, end = begin.end, max(ends)
    table = text_of(text, found, at, end)
    rest = found[end:]
    applied = next((start for start in range(len(rest)) if len(rest) - start in set(_PURGE.ends(rest[start:]))), None)
    if applied is None:
        version = _upgrade(text, rest)
        if version is None:
            raise not_parsed(text, _HOW)
        return {"command": "upgrade_uniform", "table": table, "arguments": {"version": version}}
    where = None
    if applied:
        where = text_of(text, rest, 1, applied) if rest[0].is_word_of("WHERE") else ""
        if not where:
            raise not_parsed(text, _HOW)
    return {"command": "reorg", "table": table, "arguments": {"where": where}}


def _upgrade(text: str, found: Sequence[Token]) -> int | None:
    """The version of an upgrade to UniForm; None where it is none."""
    words = [text_of(text, found, at, at + 1) for at in range(len(found))]
    if words and words[-1] == ";":
        words.pop()
    if len(words) != len(_UNIFORM):
        return None
    version = None
    for word, wanted in zip(words, _UNIFORM, strict=True):
        if wanted == "<version>" and word.isdecimal():
            version = int(word)
        elif word.upper() != wanted:
            return None
    return version
