"""The grammar of CLONE.

Owns the parsing of ``CREATE [OR REPLACE] TABLE [IF NOT EXISTS] <table>``, or ``REPLACE TABLE <table>``, before
``[SHALLOW | DEEP] CLONE <table> [(VERSION|TIMESTAMP) AS OF <value>]``, or of other files ``[NO STATISTICS] [PARTITIONED
BY (…)]``, and, in any order, ``TBLPROPERTIES (…)`` and ``LOCATION '…'``. Promise: what is said of the new table comes
back as a CREATE TABLE of Spark's, which Spark parses, so that names, properties and strings mean what they mean there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import TokenType

from headwater.sql.grammar.convert import take_of_files
from headwater.sql.grammar.shared import Parsed, ends_of_table, not_parsed
from headwater.sql.tokens import Pattern, Token, closing, text_of

_MAKES = Pattern("(CREATE [OR REPLACE]|REPLACE) TABLE [IF NOT EXISTS]")
_CLONE = Pattern("[SHALLOW|DEEP] CLONE")
_AT = Pattern("[FOR] (VERSION|SYSTEM_VERSION|TIMESTAMP|SYSTEM_TIME) AS OF")
_CLONE_IS = (
    "CREATE [OR REPLACE] TABLE [IF NOT EXISTS] t SHALLOW CLONE s [VERSION AS OF 1 | TIMESTAMP AS OF '…' | "
    "[NO STATISTICS] [PARTITIONED BY (column type, …)]] "
    "[TBLPROPERTIES (…)] [LOCATION '…']"
)


def parse(found: Sequence[Token], text: str) -> Parsed | None:
    """The table is the source."""
    for start in sorted(_MAKES.ends(found), reverse=True):
        for end in sorted(ends_of_table(found, start)):
            if not found[start].is_string and (cloned := _CLONE.match(found[end:])) is not None:
                return _clone(found, text, end, end + cloned.end)
    return None


def _clone(found: Sequence[Token], text: str, target_end: int, start: int) -> Parsed:
    """A CLONE whose new table ends at one token, and whose source begins at another."""

    def wrong(what: str) -> Exception:
        return not_parsed(text, f"CLONE is written {_CLONE_IS}: {what}")

    ends = ends_of_table(found, start)
    if not ends:
        raise wrong("it names no table to clone")
    at = max(ends)
    arguments: dict[str, Any] = {"isShallow": found[target_end].is_word_of("SHALLOW")}
    table = text_of(text, found, start, at)
    if (travels := _AT.match(found[at:])) is not None:
        begins, at = at + travels.end, _end_of_value(found, at + travels.end)
        if at == begins:
            raise wrong("it says no version or time after AS OF")
        kind = "version" if "VERSION" in found[begins - 3].value.upper() else "timestamp"
        arguments[kind] = text_of(text, found, begins, at)
    else:
        at = take_of_files(found, text, at, arguments)
    options = _options(found, at)
    if sum(end - begin for begin, end in options.values()) != len(found) - at:
        raise wrong(f"'{text_of(text, found, at, len(found))}' is not part of it")
    said = "".join(f" {text_of(text, found, *span)}" for span in options.values())
    creates = f"{text_of(text, found, 0, target_end)} USING delta{said}"
    return Parsed("clone", table, arguments, creates)


def _end_of_value(found: Sequence[Token], start: int) -> int:
    """Where an expression ends that an option, or nothing, follows."""
    depth = 0
    for at in range(start, len(found)):
        if depth == 0 and _options(found, at):
            return at
        depth += (found[at].kind is TokenType.L_PAREN) - (found[at].kind is TokenType.R_PAREN)
    return len(found)


def _options(found: Sequence[Token], at: int) -> dict[str, tuple[int, int]]:
    """The options that begin at a token, by name: the tokens of each, as a range."""
    options: dict[str, tuple[int, int]] = {}
    while at < len(found):
        name, follows = found[at].value.upper(), found[at + 1 : at + 2]
        if not found[at].is_word_of("TBLPROPERTIES", "LOCATION") or not follows or name in options:
            break
        end = closing(found, at + 1) if name == "TBLPROPERTIES" else at + 2
        if not end or name == "LOCATION" and not follows[0].is_string:
            break
        options[name], at = (at, end), end
    return options
