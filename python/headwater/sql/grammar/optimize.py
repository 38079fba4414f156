"""The grammar of OPTIMIZE.

Owns the parsing of ``OPTIMIZE <table> [FULL] [WHERE <condition>] [ZORDER BY (<column>, …)] [DRY RUN]``. Promise: the
condition is the user's text; whoever evaluates it has Spark parse it by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import TokenType

from headwater.sql.grammar.shared import DRY_RUN, Parsed, columns, longest_table_after, not_parsed
from headwater.sql.tokens import Pattern, Token, text_of

_OPTIMIZE = Pattern("OPTIMIZE")
_ZORDER = Pattern("ZORDER BY")


def parse(found: Sequence[Token], text: str) -> Parsed | None:
    if (begun := longest_table_after(_OPTIMIZE, found, text)) is None:
        return None
    table, rest = begun
    arguments: dict[str, Any] = {"full": False, "where": None, "zOrderBy": []}
    if rest and rest[0].is_word_of("FULL"):
        arguments["full"], rest = True, rest[1:]
    if rest and rest[0].is_word_of("WHERE"):
        length = _length_of_condition(rest[1:])
        arguments["where"] = text_of(text, rest, 1, 1 + length)
        if not length:
            raise not_parsed(text, "after WHERE comes a condition over the partition columns")
        rest = rest[1 + length :]
    if (ordered := _ZORDER.match(rest)) is not None:
        names, length = _columns(rest[ordered.end :], text)
        arguments["zOrderBy"], rest = names, rest[ordered.end + length :]
    command = "optimize"
    if (dry := DRY_RUN.match(rest)) is not None:
        command, rest = "optimize_dry_run", rest[dry.end :]
    if rest:
        written = text_of(text, rest, 0, len(rest))
        raise not_parsed(
            text,
            "after OPTIMIZE and a table come [FULL] [WHERE condition] [ZORDER BY (columns)] [DRY RUN] in this order, "
            f"not '{written}'",
        )
    return Parsed(command, table, arguments)


def _length_of_condition(rest: Sequence[Token]) -> int:
    """How many tokens a condition has: those up to ZORDER BY or DRY RUN outside of brackets."""
    depth = 0
    for at, token in enumerate(rest):
        if token.kind is TokenType.L_PAREN:
            depth += 1
        elif token.kind is TokenType.R_PAREN:
            depth -= 1
        elif depth == 0 and (
            _ZORDER.match(rest[at:]) is not None or len(rest) in {at + e for e in DRY_RUN.ends(rest[at:])}
        ):
            return at
    return len(rest)


def _columns(rest: Sequence[Token], text: str) -> tuple[list[list[str]], int]:
    """The columns of ZORDER BY, in brackets or not, and how many tokens they take."""
    bracketed = bool(rest) and rest[0].kind is TokenType.L_PAREN
    listed = columns(rest, int(bracketed))
    if listed is None:
        raise not_parsed(text, "after ZORDER BY come columns, as in ZORDER BY (a, b)")
    names, end = listed
    if bracketed and (end == len(rest) or rest[end].kind is not TokenType.R_PAREN):
        raise not_parsed(text, "the columns of ZORDER BY need a closing bracket")
    return names, end + bracketed
