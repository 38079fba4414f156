"""The grammar of REORG.

Owns the parsing of ``REORG TABLE <table> [WHERE <condition>] APPLY (PURGE)``. Promise: the condition is the user's
text; whoever evaluates it has Spark parse it by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headwater.errors import HeadwaterError
from headwater.sql.tokens import NotParsed, Pattern, Token, text_of

_REORG = Pattern("REORG TABLE")
_PURGE = Pattern(r"APPLY \( PURGE \)")
_UNIFORM = Pattern(r"APPLY \( UPGRADE UNIFORM ...")
_HOW = "REORG is written REORG TABLE t [WHERE condition] APPLY (PURGE)"


def parse(
    found: Sequence[Token], text: str, ends_of_table: Callable[[Sequence[Token], int], set[int]], not_parsed: NotParsed
) -> dict[str, Any] | None:
    """The command of a text with its table and arguments, None where it is another statement.

    :param ends_of_table: where a table that begins at a token may end.
    :raises HeadwaterError: as ``not_parsed`` makes them; ``HEADWATER_STATEMENT_NOT_SUPPORTED`` for the upgrade to
        UniForm.
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
        if any(_UNIFORM.match(rest[start:]) for start in range(len(rest))):
            raise HeadwaterError(
                "HEADWATER_STATEMENT_NOT_SUPPORTED",
                {
                    "statement": "REORG TABLE … APPLY (UPGRADE UNIFORM …)",
                    "tableName": table,
                    "instead": "No Iceberg metadata is written beside the log, so no file need be written again for "
                    "it. An engine that writes UniForm tables, such as Delta Lake for Spark, can do it.",
                },
            )
        raise not_parsed(text, _HOW)
    where = None
    if applied:
        where = text_of(text, rest, 1, applied) if rest[0].is_word_of("WHERE") else ""
        if not where:
            raise not_parsed(text, _HOW)
    return {"command": "reorg", "table": table, "arguments": {"where": where}}
