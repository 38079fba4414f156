"""The grammar of REORG.

Owns the parsing of ``REORG TABLE <table> [WHERE <condition>] APPLY (PURGE)`` and of ``REORG TABLE <table> APPLY
(UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = <version>))``. Promise: the condition is the user's text; whoever evaluates
it has Spark parse it by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.sql.grammar.shared import Parsed, longest_table_after, not_parsed
from headwater.sql.tokens import Pattern, Token, text_of

_REORG = Pattern("REORG TABLE")
_PURGE = Pattern(r"APPLY \( PURGE \)")
_UPGRADE = Pattern(r"APPLY \( UPGRADE UNIFORM \( ICEBERG_COMPAT_VERSION \= <number> \) \)")
_HOW = (
    "REORG is written REORG TABLE t [WHERE condition] APPLY (PURGE), or REORG TABLE t APPLY (UPGRADE UNIFORM "
    "(ICEBERG_COMPAT_VERSION = 2))"
)


def parse(found: Sequence[Token], text: str) -> Parsed | None:
    if (begun := longest_table_after(_REORG, found, text)) is None:
        return None
    table, rest = begun
    applied = next((start for start in range(len(rest)) if len(rest) - start in set(_PURGE.ends(rest[start:]))), None)
    if applied is None:
        if len(rest) not in set(_UPGRADE.ends(rest)) or not rest[-3].value.isdecimal():
            raise not_parsed(text, _HOW)
        return Parsed("upgrade_uniform", table, {"version": int(rest[-3].value)})
    where = None
    if applied:
        where = text_of(text, rest, 1, applied) if rest[0].is_word_of("WHERE") else ""
        if not where:
            raise not_parsed(text, _HOW)
    return Parsed("reorg", table, {"where": where})
