"""The grammar of the forms of ALTER TABLE that Spark's parser does not know.

Owns the parsing of ``ALTER TABLE <table>`` before ``ALTER [COLUMN] <column> SYNC IDENTITY``, ``DROP FEATURE <feature>
[TRUNCATE HISTORY]``, the feature in quotes or not, ``DROP PRIMARY KEY [IF EXISTS] [RESTRICT | CASCADE]``, ``DROP
FOREIGN KEY [IF EXISTS] (<column>, …)`` or ``ADD CONSTRAINT <name> EXPECT (<condition>) [ON VIOLATION …]``; and, for
Spark 4.0, whose parser has no constraints, before ``ADD CONSTRAINT <name> CHECK (<condition>)``, ``ADD [CONSTRAINT
<name>] <key>`` or ``DROP CONSTRAINT [IF EXISTS] <name> [RESTRICT | CASCADE]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import TokenType

from headwater.basics.errors import HeadwaterError
from headwater.sql import expectation_clauses
from headwater.sql.grammar.shared import Parsed, columns, not_parsed, tables_after
from headwater.sql.key_clauses import clause
from headwater.sql.tokens import Pattern, Token, after, text_of

_ALTER = Pattern("ALTER TABLE")
_ALTER_COLUMN = Pattern("(ALTER|CHANGE) [COLUMN]")
_SYNC = Pattern("SYNC IDENTITY")
_DROP_FEATURE = Pattern("DROP FEATURE")
_TRUNCATE_HISTORY = Pattern("TRUNCATE HISTORY")
_ADD_CHECK = Pattern(r"ADD CONSTRAINT <name> CHECK \(")
_ADD = Pattern("ADD")
_ADD_UNIQUE = Pattern("ADD [CONSTRAINT <name>] UNIQUE")
_DROP_CONSTRAINT = Pattern("DROP CONSTRAINT [IF EXISTS] <name> [RESTRICT|CASCADE]")
_DROP_PRIMARY = Pattern("DROP PRIMARY KEY [IF EXISTS] [RESTRICT|CASCADE]")
_DROP_FOREIGN = Pattern(r"DROP FOREIGN KEY [IF EXISTS] \(")


def parse(found: Sequence[Token], text: str) -> Parsed | None:
    for table, rest in tables_after(_ALTER, found, text):
        if (column := _synced_column(rest)) is not None:
            return Parsed("sync_identity", table, {"column": column})
        if (dropped := _DROP_FEATURE.match(rest)) is not None:
            return Parsed("drop_feature", table, _dropped_feature(rest[dropped.end :], text))
        if (key := _dropped_key(rest)) is not None:
            return Parsed("drop_key", table, key)
        if _ADD.match(rest) is not None and (asked := expectation_clauses.clause(text, rest, 1)) is not None:
            if asked.end == len(rest):
                return Parsed("add_constraint", table, asked.expectation)
            raise not_parsed(text, f"nothing may follow it, not '{text_of(text, rest, asked.end, len(rest))}'")
    return None


def _dropped_key(rest: Sequence[Token]) -> dict[str, Any] | None:
    said = [token.value.upper() for token in rest if token.is_word]
    words = {"ifExists": "EXISTS" in said, "cascade": said[-1:] == ["CASCADE"]}
    if len(rest) in set(_DROP_PRIMARY.ends(rest)):
        return words
    for opening in _DROP_FOREIGN.ends(rest):
        listed = columns(rest, opening)
        if listed is not None and listed[1] + 1 == len(rest) and all(len(name) == 1 for name in listed[0]):
            return {"columns": [name[0] for name in listed[0]], "ifExists": words["ifExists"]}
    return None


def _synced_column(rest: Sequence[Token]) -> list[str] | None:
    """The column of ``ALTER COLUMN <column> SYNC IDENTITY``."""
    for start in sorted(_ALTER_COLUMN.ends(rest), reverse=True):
        listed = columns(rest, start)
        if listed is not None and len(rest) - listed[1] in set(_SYNC.ends(rest[listed[1] :])) and len(listed[0]) == 1:
            return listed[0][0]
    return None


def _dropped_feature(rest: Sequence[Token], text: str) -> dict[str, Any]:
    """The feature of ``DROP FEATURE <feature> [TRUNCATE HISTORY]``. A name like ``typeWidening-preview`` needs no
    quotes.
    """
    end = 1 if rest and (rest[0].is_string or rest[0].is_part) else 0
    while end and end + 1 < len(rest) and rest[end].kind is TokenType.DASH and rest[end + 1].is_part:
        end += 2
    truncates = len(rest) - end in set(_TRUNCATE_HISTORY.ends(rest[end:]))
    if not end or not truncates and end < len(rest):
        found = f"'{text_of(text, rest, 0, len(rest))}'" if rest else "nothing"
        raise not_parsed(text, f"DROP FEATURE takes the name of a table feature and [TRUNCATE HISTORY], not {found}")
    return {"feature": "-".join(token.value for token in rest[:end:2]), "truncateHistory": truncates}


def parse_constraints(found: Sequence[Token], text: str) -> Parsed | None:
    """ADD and DROP CONSTRAINT.

    :raises HeadwaterError: ``DELTA_UNSUPPORTED_CONSTRAINT`` for UNIQUE, ``HEADWATER_KEY_ENFORCED``.
    """
    ways = tables_after(_ALTER, found, text)
    return next((parsed for way in ways if (parsed := _added(*way, text) or _dropped(*way))), None)


def _added(table: str, rest: Sequence[Token], text: str) -> Parsed | None:
    if (added := _ADD_CHECK.match(rest)) is not None and after(rest, added.end - 1) == len(rest):
        expression = text_of(text, rest, added.end, len(rest) - 1)
        return Parsed("add_constraint", table, {"kind": "check", "name": rest[2].value, "expression": expression})
    if _ADD.match(rest) is not None and (key := clause(rest, 1)) is not None and key.end == len(rest):
        return Parsed("add_constraint", table, key.key)
    if _ADD_UNIQUE.match(rest) is not None:
        raise HeadwaterError("DELTA_UNSUPPORTED_CONSTRAINT", {"constraint": text_of(text, rest, 1, len(rest))})
    return None


def _dropped(table: str, rest: Sequence[Token]) -> Parsed | None:
    if len(rest) not in set(_DROP_CONSTRAINT.ends(rest)):
        return None
    # A constraint may have the name of a word that may follow it.
    at = 4 if rest[2].is_word_of("IF") and len(rest) > 4 and rest[3].is_word_of("EXISTS") else 2
    arguments = {"name": rest[at].value, "ifExists": at == 4}
    cascades = len(rest) > at + 1 and rest[at + 1].is_word_of("CASCADE")
    return Parsed("drop_constraint", table, arguments | ({"cascade": True} if cascades else {}))
