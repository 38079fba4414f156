"""CONSTRAINT … EXPECT in the text of a statement, which no Spark parses.

Owns the clause, and CREATE TABLE with expectations in words that Spark takes: each becomes the table property that it
is stored as (:mod:`headwater.schema.expectations`). :mod:`headwater.sql.grammar.alter` has ALTER TABLE.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from headwater.basics.errors import HeadwaterError
from headwater.protocol.properties import EXPECT_PREFIX
from headwater.sql.older_constraints import items, with_properties
from headwater.sql.tokens import Pattern, Token, after, end_of_table, text_of, tokens

_CREATE = Pattern(
    "(CREATE|REPLACE|CREATE OR REPLACE|CREATE STREAMING|CREATE OR REFRESH STREAMING) TABLE [IF NOT EXISTS]"
)
_CREATE_VIEW = Pattern("(CREATE|CREATE OR REFRESH) MATERIALIZED VIEW [IF NOT EXISTS]")
_EXPECT = Pattern(r"[CONSTRAINT <name>] EXPECT \(")
_ON_VIOLATION = Pattern("ON VIOLATION")
_ENDS = {"FAIL UPDATE": Pattern("FAIL UPDATE"), "DROP ROW": Pattern("DROP ROW")}
_QUARANTINE = Pattern("QUARANTINE INTO")
_USING = Pattern("USING <name>")


class Clause(NamedTuple):
    """An expectation, by the fields of :class:`~headwater.bridge.messages.define.TableConstraint`, and its end."""

    expectation: dict[str, Any]
    end: int


def clause(text: str, found: Sequence[Token], at: int) -> Clause | None:
    """The expectation that begins at a token, None if none does.

    :raises HeadwaterError: ``PARSE_SYNTAX_ERROR``.
    """
    begun = _EXPECT.match(found[at:])
    if begun is None:
        return None
    if not found[at].is_word_of("CONSTRAINT"):
        raise _not_parsed(text, "an expectation needs a name: CONSTRAINT <name> EXPECT (<condition>)")
    opening = at + begun.end - 1
    end = after(found, opening)
    condition = text_of(text, found, opening + 1, end - 1)
    if not condition.strip():
        raise _not_parsed(text, "EXPECT needs a condition in brackets")
    said: dict[str, Any] = {"kind": "expect", "name": found[at + 1].value, "expression": condition}
    if (violation := _ON_VIOLATION.match(found[end:])) is None:
        return Clause(said, end)
    end += violation.end
    for words, pattern in _ENDS.items():
        if (action := pattern.match(found[end:])) is not None:
            return Clause(said | {"onViolation": words}, end + action.end)
    if (action := _QUARANTINE.match(found[end:])) is not None:
        start = end + action.end
        table = end_of_table(found, start)
        if table is not None and not found[start].is_string:
            into = [token.value for token in found[start:table:2]]
            return Clause(said | {"onViolation": "QUARANTINE", "references": into}, table)
    reason = (
        "ON VIOLATION takes FAIL UPDATE, DROP ROW or QUARANTINE INTO <table>; without it, rows are kept and counted"
    )
    raise _not_parsed(text, reason)


def for_spark(text: str, *, default_is_delta: bool) -> str | None:
    """A CREATE TABLE with expectations as properties; None for any other text.

    :param default_is_delta: whether a table without USING is a Delta table.
    :raises HeadwaterError: ``PARSE_SYNTAX_ERROR`` for an expectation that is not written well, or of another format.
    """
    found = tokens(text)
    if not found:
        return None
    starts = {*_CREATE.ends(found), *_CREATE_VIEW.ends(found)}
    for start in sorted(starts, reverse=True):
        end = end_of_table(found, start)
        if end is None or end >= len(found) or found[end].value != "(":
            continue
        closing = after(found, end)
        columns, asked = _without_expectations(text, found, end + 1, closing - 1)
        if not asked:
            return None
        using = _USING.match(found[closing:])
        is_delta = default_is_delta if using is None else found[closing + 1].value.lower() == "delta"
        if not is_delta:
            raise _not_parsed(text, "only Delta tables have expectations: add USING delta after the columns")
        return with_properties(text, found, (end, closing), columns, asked)
    return None


def _without_expectations(text: str, found: Sequence[Token], start: int, end: int) -> tuple[str, list[tuple[str, str]]]:
    """A list of columns without its expectations, and these as properties."""
    kept: list[str] = []
    asked: dict[str, str] = {}
    for first, last in items(found, start, end):
        part = found[:last]
        said = clause(text, part, first)
        if said is None:
            kept.append(text_of(text, found, first, last))
            continue
        if said.end != last:
            rest = text_of(text, found, said.end, last)
            raise _not_parsed(text, f"nothing may follow an expectation but a comma, not '{rest}'")
        given = said.expectation
        key = EXPECT_PREFIX + given["name"].lower()
        if key in asked:
            raise _not_parsed(text, f"the name {given['name']} is given to two expectations")
        value = {"name": given["name"], "condition": given["expression"]}
        value |= {"onViolation": given["onViolation"]} if "onViolation" in given else {}
        value |= {"into": given["references"]} if "references" in given else {}
        asked[key] = json.dumps(value, ensure_ascii=False)
    return ", ".join(kept), list(asked.items())


def _not_parsed(text: str, reason: str) -> HeadwaterError:
    return HeadwaterError("PARSE_SYNTAX_ERROR", {"statement": text.strip(), "reason": reason})
