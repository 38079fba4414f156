"""The grammar of OPTIMIZE.

Owns the parsing of ``OPTIMIZE <table> [FULL] [WHERE <condition>] [ZORDER BY (<column>, …)] [DRY RUN]``. Promise: the
condition is the user's text; whoever evaluates it has Spark parse it by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import TokenType

from headwater.sql.tokens import NotParsed, Pattern, Token, end_of_table, text_of

_OPTIMIZE = Pattern("OPTIMIZE")
_ZORDER = Pattern("ZORDER BY")
_DRY_RUN = Pattern("DRY RUN")


def parse(
    found: Sequence[Token], text: str, ends_of_table: Callable[[Sequence[Token], int], set[int]], not_parsed: NotParsed
) -> dict[str, Any] | None:
    """The command of a text with its table and arguments, None where it is another statement.

    :param ends_of_table: where a table that begins at a token may end.
    :raises HeadwaterError: as ``not_parsed`` makes them.
    """
    begin = _OPTIMIZE.match(found)
    ends = set() if begin is None else ends_of_table(found, begin.end)
    if begin is None or not ends:
        return None
    at = begin.end
    end = max(ends)
    table = text_of(text, found, at, end)
    arguments: dict[str, Any] = {"full": False, "where": None, "zOrderBy": []}
    rest = found[end:]
    if rest and rest[0].is_word_of("FULL"):
        arguments["full"], rest = True, rest[1:]
    if rest and rest[0].is_word_of("WHERE"):
        length = _length_of_condition(rest[1:])
        arguments["where"] = text_of(text, rest, 1, 1 + length)
        if not length:
            raise not_parsed(text, "after WHERE comes a condition over the partition columns")
        rest = rest[1 + length :]
    if (ordered := _ZORDER.match(rest)) is not None:
        columns, length = _columns(rest[ordered.end :], text, not_parsed)
        arguments["zOrderBy"], rest = columns, rest[ordered.end + length :]
    command = "optimize"
    if (dry := _DRY_RUN.match(rest)) is not None:
        command, rest = "optimize_dry_run", rest[dry.end :]
    if rest:
        written = text_of(text, rest, 0, len(rest))
        raise not_parsed(
            text,
            "after OPTIMIZE and a table come [FULL] [WHERE condition] [ZORDER BY (columns)] [DRY RUN] in this order, "
            f"not '{written}'",
        )
    return {"command": command, "table": table, "arguments": arguments}


def _length_of_condition(rest: Sequence[Token]) -> int:
    """How many tokens a condition has: those up to ZORDER BY or DRY RUN outside of brackets."""
    depth = 0
    for at, token in enumerate(rest):
        if token.kind is TokenType.L_PAREN:
            depth += 1
        elif token.kind is TokenType.R_PAREN:
            depth -= 1
        elif depth == 0 and (
            _ZORDER.match(rest[at:]) is not None or len(rest) in {at + e for e in _DRY_RUN.ends(rest[at:])}
        ):
            return at
    return len(rest)


def _columns(rest: Sequence[Token], text: str, not_parsed: NotParsed) -> tuple[list[list[str]], int]:
    """The columns of ZORDER BY, in brackets or not, and how many tokens they take."""
    at = 1 if rest and rest[0].kind is TokenType.L_PAREN else 0
    bracketed = at == 1
    columns: list[list[str]] = []
    while True:
        end = end_of_table(rest, at)
        if end is None or rest[at].is_string:
            raise not_parsed(text, "after ZORDER BY come columns, as in ZORDER BY (a, b)")
        columns.append([token.value for token in rest[at:end:2]])
        if end < len(rest) and rest[end].kind is TokenType.COMMA:
            at = end + 1
            continue
        if not bracketed:
            return columns, end
        if end == len(rest) or rest[end].kind is not TokenType.R_PAREN:
            raise not_parsed(text, "the columns of ZORDER BY need a closing bracket")
        return columns, end + 1
