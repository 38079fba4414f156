"""The grammar of ``RESTORE [TABLE] <table> [TO] [FOR] (VERSION|TIMESTAMP) AS OF <value>``; ``SYSTEM_VERSION`` and
``SYSTEM_TIME`` mean the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.sql.grammar.shared import Parsed, not_parsed, tables_after
from headwater.sql.tokens import Pattern, Token, text_of

_RESTORE = Pattern("RESTORE [TABLE]")
_TO = Pattern("[TO] [FOR] (VERSION|SYSTEM_VERSION|TIMESTAMP|SYSTEM_TIME) AS OF")


def parse(found: Sequence[Token], text: str) -> Parsed | None:
    ways = list(tables_after(_RESTORE, found, text))
    for table, rest in ways:
        to = _TO.match(rest)
        if to is not None and to.end < len(rest):
            kind = "version" if "VERSION" in rest[to.end - 3].value.upper() else "timestamp"
            return Parsed("restore", table, {kind: text_of(text, rest, to.end, len(rest))})
    if ways:
        raise not_parsed(text, "RESTORE is written RESTORE [TABLE] t TO VERSION AS OF 1, or TO TIMESTAMP AS OF '…'")
    return None
