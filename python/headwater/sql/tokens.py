r"""The words of a statement, and patterns over them.

Owns the tokenizer, sqlglot's for Spark without its list of keywords: every bare word is a word here, whatever it
means in SQL. Owns a small notation for how a statement begins:

- ``OPTIMIZE``: this bare word, in any case;
- ``<table>``: a table name or a quoted path; ``<name>``: one part of a name; ``<number>``: a number;
- ``[TABLE]``: may be there; ``(SET|UNSET)``: one of these; ``...``: anything; ``\(``: the character itself.

Promise: a quote, comment or bracket inside a name or string never counts as one, since only the tokenizer reads text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from sqlglot import TokenType
from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError


class _Tokenizer(Spark.Tokenizer):
    KEYWORDS: ClassVar = {word: kind for word, kind in Spark.Tokenizer.KEYWORDS.items() if not word[0].isalpha()}
    # Otherwise the rest of a SHOW statement, for one, would be a single token.
    COMMANDS: ClassVar[set[TokenType]] = set()
    COMMAND_PREFIX_TOKENS: ClassVar[set[TokenType]] = set()


@dataclass(frozen=True, slots=True)
class Token:
    """A token. ``value`` is the text inside its quotes, ``start`` and ``end`` are its place in the statement."""

    kind: TokenType
    value: str
    start: int
    end: int

    @property
    def is_word(self) -> bool:
        return self.kind is TokenType.VAR

    @property
    def is_part(self) -> bool:
        """Whether it may be one part of a name."""
        return self.kind in (TokenType.VAR, TokenType.IDENTIFIER)

    @property
    def is_string(self) -> bool:
        return self.kind in (TokenType.STRING, TokenType.RAW_STRING)

    def is_word_of(self, *words: str) -> bool:
        """Whether it is one of these bare words; ``words`` in upper case."""
        return self.is_word and self.value.upper() in words


def tokens(text: str) -> list[Token] | None:
    """The tokens of a statement without its final semicolon, None where quotes or comments do not end."""
    try:
        found = _Tokenizer(dialect="spark").tokenize(text)
    except TokenError:
        return None
    made = [Token(token.token_type, token.text, token.start, token.end + 1) for token in found]
    while made and made[-1].kind is TokenType.SEMICOLON:
        made.pop()
    return made


def text_of(text: str, found: Sequence[Token], start: int, end: int) -> str:
    """A range of a statement's tokens as they are written."""
    return text[found[start].start : found[end - 1].end] if start < end else ""


def at_markers(text: str) -> list[str]:
    """A text in pieces, of which each second is a parameter marker, ``?`` or ``:name``: put together, they are the
    text.
    """
    pieces, written = [], 0
    found = tokens(text) or []
    for at, token in enumerate(found):
        start, end = token.start, token.end
        if token.kind is TokenType.COLON and at + 1 < len(found) and found[at + 1].is_word:
            # A colon after a name is that of a label, or of a field of semi-structured data.
            if found[at + 1].start > end or at and found[at - 1].end == start and found[at - 1].is_part:
                continue
            end = found[at + 1].end
        elif token.kind is not TokenType.PLACEHOLDER:
            continue
        pieces += [text[written:start], text[start:end]]
        written = end
    return [*pieces, text[written:]]


def end_of_table(found: Sequence[Token], start: int) -> int | None:
    """Where a table's name, or a path in quotes, that begins at a token ends; None if none begins there."""
    if start >= len(found):
        return None
    if found[start].is_string:
        return start + 1
    if not found[start].is_part:
        return None
    end = start + 1
    while end + 1 < len(found) and found[end].kind is TokenType.DOT and found[end + 1].is_part:
        end += 2
    return end


def closing(found: Sequence[Token], at: int) -> int | None:
    """Where the brackets end that a token opens; None if it opens none, or nothing closes them."""
    depth = 0
    for end in range(at, len(found)):
        depth += (found[end].kind is TokenType.L_PAREN) - (found[end].kind is TokenType.R_PAREN)
        if depth <= 0:
            return end + 1 if end > at else None
    return None


def after(found: Sequence[Token], at: int) -> int:
    """What follows a token, or the brackets that it opens."""
    return closing(found, at) or (len(found) if found[at].kind is TokenType.L_PAREN else at + 1)


def outer(found: Sequence[Token], start: int) -> Iterator[int]:
    """The tokens outside of brackets, from one on; an opening bracket is among them."""
    while start < len(found):
        yield start
        start = after(found, start)


def literal(text: str) -> str:
    """A text as a string of SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


@dataclass(frozen=True)
class Match:
    """Where a pattern ends, and the tokens of its first ``<table>``, as a range."""

    end: int
    table: tuple[int, int] | None = None


_NOTATION = re.compile(r"\.\.\.|<\w+>|\w+|\\.|\S")
#: An element of a pattern: a word or placeholder, or choices between sequences; an empty sequence may be among them.
_Element = str | tuple[tuple["_Element", ...], ...]


class Pattern:
    """How a statement begins, in the notation above."""

    def __init__(self, notation: str) -> None:
        elements, rest = _choices(_NOTATION.findall(notation))
        assert not rest, notation
        assert len(elements) == 1, notation
        self._elements = elements[0]

    def match(self, found: Sequence[Token]) -> Match | None:
        """The first way in which tokens begin with the pattern."""
        return next(_ways(self._elements, found, Match(0)), None)

    def ends(self, found: Sequence[Token]) -> Iterator[int]:
        """Where the pattern may end, for each way in which tokens begin with it."""
        return (match.end for match in _ways(self._elements, found, Match(0)))


def _choices(notation: list[str]) -> tuple[tuple[tuple[_Element, ...], ...], list[str]]:
    """The sequences up to a closing bracket, separated by ``|``, and what follows it."""
    choices: list[tuple[_Element, ...]] = []
    sequence: list[_Element] = []
    while notation:
        each, notation = notation[0], notation[1:]
        if each in ("(", "["):
            inner, notation = _choices(notation)
            sequence.append(inner if each == "(" else (*inner, ()))
        elif each in (")", "]"):
            break
        elif each == "|":
            choices.append(tuple(sequence))
            sequence = []
        else:
            sequence.append(each)
    return (*choices, tuple(sequence)), notation


def _ways(elements: tuple[_Element, ...], found: Sequence[Token], so_far: Match) -> Iterator[Match]:
    if not elements:
        yield so_far
        return
    first, rest, at = elements[0], elements[1:], so_far.end
    if isinstance(first, tuple):
        for choice in first:
            yield from _ways((*choice, *rest), found, so_far)
    elif first == "...":
        for end in range(at, len(found) + 1):
            yield from _ways(rest, found, Match(end, so_far.table))
    elif first == "<table>":
        end_of = end_of_table(found, at)
        if end_of is not None:
            yield from _ways(rest, found, Match(end_of, so_far.table or (at, end_of)))
    elif at < len(found) and _is(found[at], first):
        yield from _ways(rest, found, Match(at + 1, so_far.table))


def _is(token: Token, element: str) -> bool:
    if element == "<name>":
        return token.is_part
    if element == "<number>":
        return token.kind is TokenType.NUMBER
    if element[0] == "\\":
        return token.value == element[1] and not token.is_string
    return token.is_word_of(element)
