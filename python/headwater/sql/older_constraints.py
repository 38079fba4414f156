"""CHECK constraints in statements for a Spark whose parser has none: Spark 4.0.

Owns ``ALTER TABLE … ADD CONSTRAINT`` and ``DROP CONSTRAINT`` as commands of ours, and CREATE TABLE with CHECK
constraints in words that such a Spark takes: each becomes a table property, which the JVM makes a constraint again
before anybody sees the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlglot import TokenType

from headwater.errors import HeadwaterError
from headwater.sql.statements import ends_of_table
from headwater.sql.tokens import Pattern, Token, after, end_of_table, literal, outer, text_of

#: How the properties begin that stand for constraints; the constraint's name follows.
PROPERTY = "headwater.constraint."
_ALTER = Pattern("ALTER TABLE")
_ADD_CHECK = Pattern(r"ADD CONSTRAINT <name> CHECK \(")
_ADD_KEY = Pattern("ADD CONSTRAINT <name> (PRIMARY KEY|UNIQUE|FOREIGN KEY)")
_DROP = Pattern("DROP CONSTRAINT [IF EXISTS]")
_CREATE = Pattern("(CREATE|REPLACE|CREATE OR REPLACE) TABLE [IF NOT EXISTS]")
_NAMED_CHECK = Pattern(r"CONSTRAINT <name> CHECK \(")
_CHECK = Pattern(r"CHECK \(")


def alteration(text: str, found: Sequence[Token]) -> dict[str, Any] | None:
    """The command of an ADD or DROP CONSTRAINT; None for any other text.

    :raises HeadwaterError: ``DELTA_UNSUPPORTED_CONSTRAINT`` for a key.
    """
    begun = _ALTER.match(found)
    for end in () if begun is None else sorted(ends_of_table(found, begun.end)):
        assert begun is not None
        rest = found[end:]
        asked = _added(text, rest) or _dropped(rest)
        if asked is not None:
            return {"command": asked[0], "table": text_of(text, found, begun.end, end), "arguments": asked[1]}
    return None


def _added(text: str, rest: Sequence[Token]) -> tuple[str, dict[str, Any]] | None:
    if (added := _ADD_CHECK.match(rest)) is not None and after(rest, added.end - 1) == len(rest):
        expression = text_of(text, rest, added.end, len(rest) - 1)
        return "add_constraint", {"name": rest[2].value, "expression": expression}
    if _ADD_KEY.match(rest) is not None:
        raise HeadwaterError("DELTA_UNSUPPORTED_CONSTRAINT", {"constraint": text_of(text, rest, 1, len(rest))})
    return None


def _dropped(rest: Sequence[Token]) -> tuple[str, dict[str, Any]] | None:
    for named in sorted(_DROP.ends(rest), reverse=True):
        if named + 1 == len(rest) and rest[named].is_part:
            return "drop_constraint", {"name": rest[named].value, "ifExists": rest[named - 1].is_word_of("EXISTS")}
    return None


def creation(text: str, found: Sequence[Token]) -> str | None:
    """A CREATE or REPLACE TABLE of a Delta table with its CHECK constraints as properties; None for any other text."""
    for start in sorted(_CREATE.ends(found), reverse=True):
        end = end_of_table(found, start)
        if end is None or end >= len(found) or found[end].kind is not TokenType.L_PAREN:
            continue
        closing = after(found, end)
        if [token.value.lower() for token in found[closing : closing + 2]] == ["using", "delta"]:
            return _with_properties(text, found, end, closing)
    return None


def _with_properties(text: str, found: Sequence[Token], opening: int, closing: int) -> str | None:
    columns, constraints = _without_checks(text, found, opening + 1, closing - 1)
    if not constraints:
        return None
    listed = ", ".join(f"{literal(PROPERTY + name)} = {literal(expression)}" for name, expression in constraints)
    head = f"{text[: found[opening].end]}{columns})"
    for at in outer(found, closing):
        if found[at].is_word_of("TBLPROPERTIES") and at + 1 < len(found) and found[at + 1].kind is TokenType.L_PAREN:
            bracket = found[at + 1].end
            return f"{head}{text[found[closing - 1].end : bracket]}{listed}, {text[bracket:]}"
    # The provider must follow the columns.
    provider = found[closing + 1].end
    return f"{head}{text[found[closing - 1].end : provider]} TBLPROPERTIES ({listed}){text[provider:]}"


def _without_checks(text: str, found: Sequence[Token], start: int, end: int) -> tuple[str, list[tuple[str, str]]]:
    """A list of columns without its constraints, and their names, empty for none, and conditions."""
    kept: list[str] = []
    constraints: list[tuple[str, str]] = []
    for first, last in _items(found, start, end):
        written, at = "", first
        begin = first
        while at < last:
            named = _NAMED_CHECK.match(found[at:last])
            check = named or _CHECK.match(found[at:last])
            if check is None:
                at = after(found, at)
                continue
            closed = after(found, at + check.end - 1)
            name = found[at + 1].value if named is not None else ""
            constraints.append((name, text_of(text, found, at + check.end, closed - 1)))
            written += text_of(text, found, begin, at) + " "
            begin = at = closed
        written = (written + text_of(text, found, begin, last)).strip()
        if written:
            kept.append(written)
    return ", ".join(kept), constraints


def _items(found: Sequence[Token], start: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of a list between commas. The brackets of types count, too."""
    first, angles, at = start, 0, start
    while at < end:
        if not found[at].is_string and set(found[at].value) <= {"<", ">"}:
            angles += found[at].value.count("<") - found[at].value.count(">")
        elif found[at].kind is TokenType.COMMA and angles <= 0:
            yield first, at
            first = at + 1
        at = after(found, at)
    yield first, end
