"""The grammar of ``ANALYZE TABLE <table> COMPUTE DELTA STATISTICS [FOR ALL COLUMNS | FOR COLUMNS <column>, …]``.

Without the word DELTA, the statement is Spark's.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.sql.grammar.shared import Parsed, columns, not_parsed, tables_after
from headwater.sql.tokens import Pattern, Token, text_of

_ANALYZE = Pattern("ANALYZE TABLE")
_COMPUTE = Pattern("COMPUTE DELTA STATISTICS")
_ALL_COLUMNS = Pattern("[FOR ALL COLUMNS]")
_COLUMNS = Pattern("FOR COLUMNS")


def parse(found: Sequence[Token], text: str) -> Parsed | None:
    for table, rest in tables_after(_ANALYZE, found, text):
        if (computing := _COMPUTE.match(rest)) is not None:
            return Parsed("analyze_table", table, {"columns": _analyzed_columns(rest[computing.end :], text)})
        if rest and rest[0].is_word_of("PARTITION") and any(_COMPUTE.match(rest[at:]) for at in range(len(rest))):
            raise not_parsed(text, "DELTA STATISTICS are computed for all files of a table; leave out PARTITION")
    return None


def _analyzed_columns(rest: Sequence[Token], text: str) -> list[list[str]] | None:
    """The columns of FOR COLUMNS; None if all are meant."""
    if len(rest) in _ALL_COLUMNS.ends(rest):
        return None
    named = _COLUMNS.match(rest)
    listed = None if named is None else columns(rest, named.end)
    if listed is not None and listed[1] == len(rest):
        return listed[0]
    written = text_of(text, rest, 0, len(rest))
    raise not_parsed(text, f"after STATISTICS comes nothing, FOR ALL COLUMNS or FOR COLUMNS a, b, not '{written}'")
