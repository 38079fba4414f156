"""The grammar of CONVERT TO DELTA.

Owns the parsing of ``CONVERT TO DELTA <table> [NO STATISTICS] [PARTITIONED BY (<column> <type>, …)]``, the table a name
or a path like ``parquet.`/path` ``; and of what CLONE takes of it. Promise: the partition columns are the user's text,
which Spark parses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headwater.basics.errors import HeadwaterError
from headwater.sql.grammar.shared import Parsed, ends_of_table, not_parsed
from headwater.sql.tokens import Pattern, Token, closing, text_of

_CONVERT = Pattern("CONVERT TO DELTA")
_NO_STATISTICS = Pattern("NO STATISTICS")
_PARTITIONED_BY = Pattern(r"PARTITIONED BY \(")
_CONVERT_IS = "CONVERT TO DELTA (t | parquet.`/path`) [NO STATISTICS] [PARTITIONED BY (column type, …)]"


def parse(found: Sequence[Token], text: str) -> Parsed | None:
    """:raises HeadwaterError: ``DELTA_MISSING_PROVIDER_FOR_CONVERT`` for a path in quotes."""
    begin = _CONVERT.match(found)
    if begin is None:
        return None
    ends = ends_of_table(found, begin.end)
    if not ends:
        raise not_parsed(text, f"CONVERT is written {_CONVERT_IS}: it names no table")
    at = max(ends)
    if found[begin.end].is_string:
        raise HeadwaterError("DELTA_MISSING_PROVIDER_FOR_CONVERT", {"path": found[begin.end].value})
    table = text_of(text, found, begin.end, at)
    arguments: dict[str, Any] = {"statistics": True, "partitionedBy": None}
    at = take_of_files(found, text, at, arguments)
    if at < len(found):
        rest = text_of(text, found, at, len(found))
        raise not_parsed(text, f"CONVERT is written {_CONVERT_IS}: '{rest}' is not part of it")
    return Parsed("convert_to_delta", table, arguments)


def take_of_files(found: Sequence[Token], text: str, at: int, arguments: dict[str, Any]) -> int:
    """Put into ``arguments`` what a statement says of files that are no Delta table, from a token on: ``[NO STATISTICS]
    [PARTITIONED BY (…)]``. Where it ends.
    """
    if (without := _NO_STATISTICS.match(found[at:])) is not None:
        arguments["statistics"] = False
        at += without.end
    if _PARTITIONED_BY.match(found[at:]) is None:
        return at
    end = closing(found, at + 2)
    # At least one column, with its type.
    if end is None or end - at < 5:
        return at
    arguments["partitionedBy"] = text_of(text, found, at + 3, end - 1)
    return end
