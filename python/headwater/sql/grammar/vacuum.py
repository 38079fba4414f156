"""The grammar of ``VACUUM <table>`` with, in any order, ``FULL`` or ``LITE``, ``USING INVENTORY <table>`` or
``(<query>)``, ``RETAIN <number> HOURS``, ``DRY RUN``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import TokenType

from headwater.sql.grammar.shared import DRY_RUN, Parsed, ends_of_table, longest_table_after, not_parsed
from headwater.sql.tokens import Pattern, Token, closing, text_of

_VACUUM = Pattern("VACUUM")
_INVENTORY = Pattern("USING INVENTORY")
_VACUUM_IS = "VACUUM t [FULL | LITE] [USING INVENTORY (t | (query))] [RETAIN n HOURS] [DRY RUN]"


def parse(found: Sequence[Token], text: str) -> Parsed | None:
    if (begun := longest_table_after(_VACUUM, found, text)) is None:
        return None
    table, rest = begun
    arguments: dict[str, Any] = {}
    while rest:
        name: str | None = None
        value: Any = None
        taken = 0
        if rest[0].is_word_of("FULL", "LITE"):
            name, value, taken = "mode", rest[0].value.lower(), 1
        elif (dry := DRY_RUN.match(rest)) is not None:
            name, value, taken = "dryRun", True, dry.end
        elif rest[0].is_word_of("RETAIN"):
            end = next((end for end, token in enumerate(rest) if token.is_word_of("HOURS", "HOUR")), 0)
            if end > 1:
                name, value, taken = "hours", text_of(text, rest, 1, end), end + 1
        elif (using := _INVENTORY.match(rest)) is not None:
            taken = closing(rest, using.end) or max(ends_of_table(rest, using.end), default=0)
            if taken:
                name, value = "inventory", _inventory(rest, using.end, taken, text)
        if name is None or name in arguments:
            why = "is there twice" if name in arguments else "is not part of it"
            raise not_parsed(text, f"VACUUM is written {_VACUUM_IS}: '{text_of(text, rest, 0, len(rest))}' {why}")
        arguments[name] = value
        rest = rest[taken:]
    return Parsed("vacuum", table, arguments)


def _inventory(rest: Sequence[Token], start: int, end: int, text: str) -> str:
    """The query that gives an inventory's rows."""
    if rest[start].kind is TokenType.L_PAREN:
        return text_of(text, rest, start + 1, end - 1)
    named = text_of(text, rest, start, end)
    if rest[start].is_string:
        named = f"IDENTIFIER('spark_catalog.delta.`' || replace({named}, '`', '``') || '`')"
    return f"SELECT * FROM {named}"
