"""PRIMARY KEY and FOREIGN KEY in the text of a statement.

Owns the clauses of a key, for Sparks whose parser does not know constraints. For the others, REFERENCES without
columns and PRIMARY KEY … ENFORCED in words that they parse, and the error for another key that is to be ENFORCED:
Spark's own says no more than that it is not supported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlglot import TokenType

from headwater.basics.errors import HeadwaterError
from headwater.protocol.columns import sql_name
from headwater.sql.tokens import Pattern, Token, after, end_of_table, tokens

#: Stands for the columns of the primary key of the table that a foreign key refers to.
OWN_KEY = "*"
#: How the name of a primary key begins that is to be ENFORCED, in a text for Spark's parser. Nothing follows if it has
#: no name.
ENFORCED_NAME = "*enforced*"
_NAMED = Pattern("CONSTRAINT <name>")
_PRIMARY = Pattern(r"PRIMARY KEY \(")
_OF_COLUMN = Pattern("PRIMARY KEY")
_FOREIGN = Pattern(r"FOREIGN KEY \(")
_REFERENCES = Pattern("REFERENCES")
_CHARACTERISTICS = Pattern("(NOT ENFORCED|ENFORCED|RELY|NORELY)")
_CREATION = Pattern("(CREATE TABLE|REPLACE TABLE|CREATE OR REPLACE TABLE|ALTER TABLE)")
_KINDS = Pattern("(FOREIGN KEY|REFERENCES|UNIQUE)")


class Clause(NamedTuple):
    """A key, by the fields of :class:`~headwater.bridge.messages.define.TableConstraint`, and where it ends."""

    key: dict[str, Any]
    end: int


def clause(found: Sequence[Token], at: int, column: str | None = None) -> Clause | None:
    """The key that begins at a token, None if none does.

    :param column: the column whose definition the tokens are part of; None for a constraint of a table.
    :raises HeadwaterError: ``HEADWATER_KEY_ENFORCED``.
    """
    name = None
    if (named := _NAMED.match(found[at:])) is not None:
        name, at = found[at + 1].value, at + named.end
    key: dict[str, Any] = {}
    if column is None and (primary := _PRIMARY.match(found[at:])) is not None:
        listed = _listed(found, at + primary.end - 1)
        key = {"kind": "primary_key"}
    elif column is None and (foreign := _FOREIGN.match(found[at:])) is not None:
        listed = _listed(found, at + foreign.end - 1)
        key = {"kind": "foreign_key"}
    elif column is not None and (primary := _OF_COLUMN.match(found[at:])) is not None:
        listed, key = ([column], at + primary.end), {"kind": "primary_key"}
    elif column is not None and _REFERENCES.match(found[at:]) is not None:
        listed, key = ([column], at), {"kind": "foreign_key"}
    else:
        return None
    if listed is None:
        return None
    key["columns"], at = listed
    if key["kind"] == "foreign_key":
        referred = _referred(found, at)
        if referred is None:
            return None
        given, at = referred
        key |= given
    while (characteristic := _CHARACTERISTICS.match(found[at:])) is not None:
        if found[at].is_word_of("RELY"):
            key["rely"] = True
        elif found[at].is_word_of("ENFORCED"):
            if key["kind"] == "foreign_key":
                raise HeadwaterError("HEADWATER_KEY_ENFORCED")
            key["enforced"] = True
        at += characteristic.end
    return Clause(key | ({} if name is None else {"name": name}), at)


def _referred(found: Sequence[Token], at: int) -> tuple[dict[str, Any], int] | None:
    """The table, and the columns if they are listed, of REFERENCES."""
    if _REFERENCES.match(found[at:]) is None:
        return None
    end = end_of_table(found, at + 1)
    if end is None or found[at + 1].is_string:
        return None
    given = {"references": [token.value for token in found[at + 1 : end : 2]]}
    if end < len(found) and found[end].kind is TokenType.L_PAREN:
        listed = _listed(found, end)
        return None if listed is None else (given | {"referenced": listed[0]}, listed[1])
    return given, end


def _listed(found: Sequence[Token], opening: int) -> tuple[list[str], int] | None:
    """The column names in brackets, and where the brackets end."""
    end = after(found, opening)
    names = found[opening + 1 : end - 1]
    separated = all(token.kind is TokenType.COMMA for token in names[1::2])
    if not names or len(names) % 2 == 0 or not separated or not all(token.is_part for token in names[::2]):
        return None
    return [token.value for token in names[::2]], end


def for_spark(text: str) -> str | None:
    """A CREATE TABLE or ALTER TABLE, or a script with some, for which Spark's parser fails: with :data:`OWN_KEY` as the
    columns of each REFERENCES that lists none, and :data:`ENFORCED_NAME` in place of ENFORCED. None for any other text.
    """
    found = tokens(text)
    if not found or not (found[0].is_word_of("BEGIN") or _CREATION.match(found)):
        return None
    edits: list[tuple[int, int, str]] = []
    for at in range(len(found)):
        end = end_of_table(found, at + 1) if found[at].is_word_of("REFERENCES") else None
        if end is not None and (end == len(found) or found[end].kind is not TokenType.L_PAREN):
            edits.append((found[end - 1].end, found[end - 1].end, f" (`{OWN_KEY}`)"))
        edits += _with_enforced_name(found, at)
    written, done = "", 0
    for start, end, said in sorted(edits):
        written += text[done:start] + said
        done = end
    return written + text[done:] if edits else None


def _with_enforced_name(found: Sequence[Token], at: int) -> list[tuple[int, int, str]]:
    """What makes a primary key that begins at a token, and is to be ENFORCED, one whose name says so: start and end of
    a piece of text, and what takes its place.
    """
    if _OF_COLUMN.match(found[at:]) is None:
        return []
    end = at + 2
    if end < len(found) and found[end].kind is TokenType.L_PAREN:
        end = after(found, end)
    asked = None
    while (characteristic := _CHARACTERISTICS.match(found[end:])) is not None:
        if found[end].is_word_of("ENFORCED"):
            asked = found[end]
        end += characteristic.end
    if asked is None:
        return []
    named = at >= 2 and _NAMED.match(found[at - 2 : at]) is not None
    name = sql_name(ENFORCED_NAME + (found[at - 1].value if named else ""))
    start = found[at - 1 if named else at].start
    said = (start, found[at - 1].end, name) if named else (start, start, f"CONSTRAINT {name} ")
    return [said, (asked.start, asked.end, "")]


def refuse_enforced(text: str) -> None:
    """Refuse a CREATE TABLE or ALTER TABLE that asks for a key other than a primary key that is enforced, which Spark's
    parser has refused.

    :raises HeadwaterError: ``HEADWATER_KEY_ENFORCED``.
    """
    found = tokens(text)
    if not found or _CREATION.match(found) is None:
        return
    in_key = False
    for at, token in enumerate(found):
        if _KINDS.match(found[at:]) is not None:
            in_key = True
        elif token.is_word_of("CHECK") or _OF_COLUMN.match(found[at:]) is not None:
            in_key = False
        elif in_key and token.is_word_of("ENFORCED") and not found[at - 1].is_word_of("NOT"):
            raise HeadwaterError("HEADWATER_KEY_ENFORCED")
