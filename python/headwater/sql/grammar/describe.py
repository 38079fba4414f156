"""The grammar of ``DESCRIBE HISTORY [TABLE] <table> [LIMIT <number>]``, ``DESCRIBE DETAIL <table>`` and ``DESCRIBE
HEALTH <table>``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import TokenType

from headwater.sql.grammar.shared import Parsed, not_parsed, whole_table
from headwater.sql.tokens import Pattern, Token, text_of

_VERBS, _KINDS = ("DESC", "DESCRIBE"), ("HISTORY", "DETAIL", "HEALTH")
FIRST_WORDS = [f"{verb} {kind}" for verb in _VERBS for kind in _KINDS]
_DESCRIBE = Pattern(f"({'|'.join(_VERBS)}) ({'|'.join(_KINDS)})")


def parse(found: Sequence[Token], text: str) -> Parsed | None:
    begin = _DESCRIBE.match(found)
    if begin is None or begin.end == len(found):
        return None
    kind = found[1].value.lower()
    rest: Sequence[Token] = found[begin.end :]
    arguments: dict[str, Any] = {}
    if kind == "history":
        rest, arguments["limit"] = _without_limit(rest, text)
        if len(rest) > 1 and rest[0].is_word_of("TABLE") and rest[1].kind is not TokenType.DOT:
            rest = rest[1:]
    return Parsed(f"describe_{kind}", whole_table(rest, text), arguments)


def _without_limit(found: Sequence[Token], text: str) -> tuple[Sequence[Token], int | None]:
    """The tokens before a LIMIT, and its number."""
    after_names = [
        at
        for at, token in enumerate(found)
        if token.is_word_of("LIMIT") and 0 < at < len(found) - 1 and found[at - 1].kind is not TokenType.DOT
    ]
    if not after_names:
        return found, None
    at = after_names[-1]
    if at + 2 != len(found) or found[at + 1].kind is not TokenType.NUMBER or not found[at + 1].value.isdecimal():
        raise not_parsed(text, f"LIMIT takes a number, not {text_of(text, found, at + 1, len(found))}")
    return found[:at], int(found[at + 1].value)
