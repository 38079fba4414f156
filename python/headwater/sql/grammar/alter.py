"""The grammar of the forms of ALTER TABLE that Spark's parser does not know.

Owns the parsing of ``ALTER TABLE <table>`` before ``ALTER [COLUMN] <column> SYNC IDENTITY``, or ``DROP FEATURE
<feature> [TRUNCATE HISTORY]``, the feature in quotes or not; and, for Spark 4.0, whose parser has no CHECK constraints,
before ``ADD CONSTRAINT <name> CHECK (<condition>)`` or ``DROP CONSTRAINT [IF EXISTS] <name>``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import TokenType

from headwater.basics.errors import HeadwaterError
from headwater.sql.grammar.shared import Parsed, columns, not_parsed, tables_after
from headwater.sql.tokens import Pattern, Token, after, text_of

_ALTER = Pattern("ALTER TABLE")
_ALTER_COLUMN = Pattern("(ALTER|CHANGE) [COLUMN]")
_SYNC = Pattern("SYNC IDENTITY")
_DROP_FEATURE = Pattern("DROP FEATURE")
_TRUNCATE_HISTORY = Pattern("TRUNCATE HISTORY")
_ADD_CHECK = Pattern(r"ADD CONSTRAINT <name> CHECK \(")
_ADD_KEY = Pattern("ADD CONSTRAINT <name> (PRIMARY KEY|UNIQUE|FOREIGN KEY)")
_DROP_CONSTRAINT = Pattern("DROP CONSTRAINT [IF EXISTS]")


def parse(found: Sequence[Token], text: str) -> Parsed | None:
    for table, rest in tables_after(_ALTER, found, text):
        if (column := _synced_column(rest)) is not None:
            return Parsed("sync_identity", table, {"column": column})
        if (dropped := _DROP_FEATURE.match(rest)) is not None:
            return Parsed("drop_feature", table, _dropped_feature(rest[dropped.end :], text))
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

    :raises HeadwaterError: ``DELTA_UNSUPPORTED_CONSTRAINT`` for a key.
    """
    ways = tables_after(_ALTER, found, text)
    return next((parsed for way in ways if (parsed := _added(*way, text) or _dropped(*way))), None)


def _added(table: str, rest: Sequence[Token], text: str) -> Parsed | None:
    if (added := _ADD_CHECK.match(rest)) is not None and after(rest, added.end - 1) == len(rest):
        expression = text_of(text, rest, added.end, len(rest) - 1)
        return Parsed("add_constraint", table, {"name": rest[2].value, "expression": expression})
    if _ADD_KEY.match(rest) is not None:
        raise HeadwaterError("DELTA_UNSUPPORTED_CONSTRAINT", {"constraint": text_of(text, rest, 1, len(rest))})
    return None


def _dropped(table: str, rest: Sequence[Token]) -> Parsed | None:
    for named in sorted(_DROP_CONSTRAINT.ends(rest), reverse=True):
        if named + 1 == len(rest) and rest[named].is_part:
            arguments = {"name": rest[named].value, "ifExists": rest[named - 1].is_word_of("EXISTS")}
            return Parsed("drop_constraint", table, arguments)
    return None
