"""CREATE TABLE with CHECK constraints and keys for Spark 4.0, whose parser does not support them.

Owns the same statement in words that such a Spark takes: each constraint becomes a table property, which the JVM makes
a constraint again before anybody sees the table. :mod:`headwater.sql.grammar.alter` has ALTER TABLE.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from sqlglot import TokenType

from headwater.sql.key_clauses import clause
from headwater.sql.tokens import Pattern, Token, after, end_of_table, literal, outer, text_of

#: How the properties begin that stand for CHECK constraints; the constraint's name follows. And those that stand for
#: keys, JSON of a ``TableConstraint``; a number follows.
PROPERTY, KEY_PROPERTY = "headwater.constraint.", "headwater.declaredKey."
_CREATE = Pattern("(CREATE|REPLACE|CREATE OR REPLACE) TABLE [IF NOT EXISTS]")

_NAMED_CHECK = Pattern(r"CONSTRAINT <name> CHECK \(")
_OF_TABLE = Pattern("(CONSTRAINT <name>|PRIMARY KEY|FOREIGN KEY)")
_CHECK = Pattern(r"CHECK \(")


def creation(text: str, found: Sequence[Token]) -> str | None:
    """A CREATE or REPLACE TABLE of a Delta table with its CHECK constraints as properties; None for any other text."""
    for start in sorted(_CREATE.ends(found), reverse=True):
        end = end_of_table(found, start)
        if end is None or end >= len(found) or found[end].kind is not TokenType.L_PAREN:
            continue
        closing = after(found, end)
        if [token.value.lower() for token in found[closing : closing + 2]] == ["using", "delta"]:
            columns, constraints = _without_constraints(text, found, end + 1, closing - 1)
            return with_properties(text, found, (end, closing), columns, constraints) if constraints else None
    return None


def with_properties(
    text: str, found: Sequence[Token], brackets: tuple[int, int], columns: str, properties: Sequence[tuple[str, str]]
) -> str:
    """A CREATE TABLE with other columns and more properties.

    :param brackets: the opening bracket of its columns, and what follows the closing one.
    """
    opening, closing = brackets
    listed = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in properties)
    # Spark takes no empty brackets.
    head = f"{text[: found[opening].end]}{columns})" if columns else text[: found[opening].start]
    for at in outer(found, closing):
        if found[at].is_word_of("TBLPROPERTIES") and at + 1 < len(found) and found[at + 1].kind is TokenType.L_PAREN:
            bracket = found[at + 1].end
            return f"{head}{text[found[closing - 1].end : bracket]}{listed}, {text[bracket:]}"
    # The provider must follow the columns.
    provider = found[closing + 1 if closing < len(found) and found[closing].is_word_of("USING") else closing - 1].end
    return f"{head}{text[found[closing - 1].end : provider]} TBLPROPERTIES ({listed}){text[provider:]}"


def _without_constraints(text: str, found: Sequence[Token], start: int, end: int) -> tuple[str, list[tuple[str, str]]]:
    """A list of columns without its constraints, and these as properties."""
    kept: list[str] = []
    constraints: list[tuple[str, str]] = []
    for first, last in items(found, start, end):
        written, at = "", first
        begin = first
        part = found[:last]
        is_of_table = _OF_TABLE.match(found[first:last]) is not None
        while at < last:
            # What begins with the key itself is a constraint of the table; a column has a name and a type before it.
            column = None if at == first or is_of_table else found[first].value
            key = clause(part, at, column)
            named = _NAMED_CHECK.match(found[at:last])
            check = named or _CHECK.match(found[at:last])
            if key is not None:
                constraints.append(
                    (
                        f"{KEY_PROPERTY}{len(constraints)}",
                        json.dumps({"references": [], "referenced": [], **key.key}, ensure_ascii=False),
                    )
                )
                closed = key.end
            elif check is not None:
                closed = after(found, at + check.end - 1)
                name = found[at + 1].value if named is not None else ""
                constraints.append((PROPERTY + name, text_of(text, found, at + check.end, closed - 1)))
            else:
                at = after(found, at)
                continue
            written += text_of(text, found, begin, at) + " "
            begin = at = closed
        written = (written + text_of(text, found, begin, last)).strip()
        if written:
            kept.append(written)
    return ", ".join(kept), constraints


def items(found: Sequence[Token], start: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of a list between commas. The brackets of types count as well."""
    first, angles, at = start, 0, start
    while at < end:
        if not found[at].is_string and set(found[at].value) <= {"<", ">"}:
            angles += found[at].value.count("<") - found[at].value.count(">")
        elif found[at].kind is TokenType.COMMA and angles <= 0:
            yield first, at
            first = at + 1
        at = after(found, at)
    yield first, end
