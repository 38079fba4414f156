"""The grammar of statements of key indexes that Spark's parser does not know.

Owns the parsing of ``REFRESH INDEX [<name>] ON [TABLE] <table>`` and ``SHOW INDEXES {ON | FROM | IN} [TABLE] <table>``;
and, for a path in quotes, which Spark takes for no table, of ``CREATE INDEX [IF NOT EXISTS] <name> ON [TABLE] <table>
(<column>, …)`` and ``DROP INDEX [IF EXISTS] <name> ON [TABLE] <table>``. Spark parses these two for any other table, be
it of a Delta catalog or not.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.sql.grammar.shared import Parsed, columns, not_parsed, tables_after, whole_table
from headwater.sql.tokens import Pattern, Token, closing, text_of

_CREATE = Pattern("CREATE INDEX [IF NOT EXISTS] <name> ON [TABLE]")
_DROP = Pattern("DROP INDEX [IF EXISTS] <name> ON [TABLE]")
_REFRESH = Pattern("REFRESH INDEX <name> ON [TABLE]")
_REFRESH_ALL = Pattern("REFRESH INDEX ON [TABLE]")
_SHOW = Pattern("SHOW (INDEX|INDEXES) (ON|FROM|IN) [TABLE]")
_CREATE_IS = "CREATE INDEX [IF NOT EXISTS] name ON [TABLE] t (column, …)"
#: How the statements begin that Spark never parses.
_BEGINNINGS = (
    (Pattern("REFRESH INDEX"), "REFRESH INDEX [name] ON [TABLE] t"),
    (Pattern("SHOW (INDEX|INDEXES)"), "SHOW INDEXES {ON | FROM | IN} t"),
)


def parse(found: Sequence[Token], text: str) -> Parsed | None:
    if (table := _only_table(_SHOW, found, text)) is not None:
        return Parsed("show_indexes", table, {})
    if (table := _only_table(_REFRESH, found, text)) is not None:
        return Parsed("refresh_index", table, {"index": found[2].value})
    if (table := _only_table(_REFRESH_ALL, found, text)) is not None:
        return Parsed("refresh_index", table, {})
    if (at := _path_after(_DROP, found)) is not None:
        name, guarded = _named(found)
        arguments = {"index": name} | ({"ifExists": True} if guarded else {})
        return Parsed("drop_index", whole_table(found[at:], text), arguments)
    if (at := _path_after(_CREATE, found)) is not None:
        return _created(found, at, text)
    for begin, how in _BEGINNINGS:
        if begin.match(found) is not None:
            raise not_parsed(text, f"It is written {how}")
    return None


def _only_table(words: Pattern, found: Sequence[Token], text: str) -> str | None:
    """The table that alone follows the words of a statement."""
    return next((table for table, rest in tables_after(words, found, text) if not rest), None)


def _path_after(words: Pattern, found: Sequence[Token]) -> int | None:
    """Where a path in quotes begins after the words of a statement; None if none does."""
    return next((end for end in words.ends(found) if end < len(found) and found[end].is_string), None)


def _named(found: Sequence[Token]) -> tuple[str, bool]:
    """The name of an index in CREATE and DROP, and whether EXISTS is before it."""
    at = next(at for at in range(2, len(found)) if found[at + 1].is_word_of("ON"))
    return found[at].value, found[at - 1].is_word_of("EXISTS")


def _created(found: Sequence[Token], at: int, text: str) -> Parsed:
    name, guarded = _named(found)
    end = closing(found, at + 1) if at + 1 < len(found) else None
    listed = columns(found, at + 2) if end is not None else None
    if end != len(found) or listed is None or listed[1] != end - 1:
        raise not_parsed(text, f"It is written {_CREATE_IS}")
    arguments = {"index": name, "columns": listed[0]} | ({"ifNotExists": True} if guarded else {})
    return Parsed("create_index", text_of(text, found, at, at + 1), arguments)
