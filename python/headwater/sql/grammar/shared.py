"""What grammars share: the command that a text is parsed to, where a table ends, and the error for a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlglot import TokenType

from headwater.basics.errors import HeadwaterError
from headwater.sql.tokens import Pattern, Token, closing, end_of_table, text_of

DRY_RUN = Pattern("DRY RUN")
_IDENTIFIER = Pattern(r"IDENTIFIER \( ... \)")


class Parsed(NamedTuple):
    """A statement of ours.

    :param command: the name of its call.
    :param table: as it is written; empty if the statement names none.
    :param creates: the CREATE TABLE that describes the table that it makes.
    """

    command: str
    table: str
    arguments: dict[str, Any]
    creates: str | None = None


def ends_of_table(found: Sequence[Token], start: int) -> set[int]:
    """Where a table, by name, by path or by ``IDENTIFIER(…)``, that begins at a token may end."""
    ends = {start + end for end in _IDENTIFIER.ends(found[start:])} & {closing(found, start + 1)}
    named = end_of_table(found, start)
    return ends if named is None else {*ends, named}


def tables_after(words: Pattern, found: Sequence[Token], text: str) -> Iterator[tuple[str, Sequence[Token]]]:
    """Each way to read a table after the words that a statement begins with, the shortest first: the table as it is
    written, and what follows it.
    """
    for start in sorted(words.ends(found), reverse=True):
        for end in sorted(ends_of_table(found, start)):
            yield text_of(text, found, start, end), found[end:]


def longest_table_after(words: Pattern, found: Sequence[Token], text: str) -> tuple[str, Sequence[Token]] | None:
    """The last of :func:`tables_after`; None if no table was found."""
    return next(reversed(list(tables_after(words, found, text))), None)


def columns(found: Sequence[Token], at: int) -> tuple[list[list[str]], int] | None:
    """The columns, with commas between them, that begin at a token, and where they end; None if one is missing."""
    listed: list[list[str]] = []
    while True:
        end = end_of_table(found, at)
        if end is None or found[at].is_string:
            return None
        listed.append([token.value for token in found[at:end:2]])
        if end == len(found) or found[end].kind is not TokenType.COMMA:
            return listed, end
        at = end + 1


def whole_table(found: Sequence[Token], text: str) -> str:
    """A table as it is written, which no other token follows.

    :raises HeadwaterError: ``PARSE_SYNTAX_ERROR``.
    """
    written = text_of(text, found, 0, len(found))
    if end_of_table(found, 0) == len(found) or any(way == len(found) for way in _IDENTIFIER.ends(found)):
        return written
    raise not_parsed(text, f"'{written}' is not a table name or a quoted path")


def not_parsed(text: str, reason: str) -> HeadwaterError:
    """The error for a statement of ours that is not written well."""
    return HeadwaterError("PARSE_SYNTAX_ERROR", {"statement": text.strip(), "reason": reason})
