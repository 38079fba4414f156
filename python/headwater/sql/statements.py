"""The grammar of statements Spark's parser does not know, or would read as something else.

Owns their parsing into a command with its table and arguments:

- ``CONVERT TO DELTA <table> …`` (:mod:`headwater.sql.convert`)
- ``DESCRIBE HISTORY [TABLE] <table> [LIMIT <number>]``
- ``DESCRIBE DETAIL <table>``
- ``DESCRIBE HEALTH <table>``
- ``ALTER TABLE <table> ALTER [COLUMN] <column> SYNC IDENTITY``
- ``ANALYZE TABLE <table> COMPUTE DELTA STATISTICS [FOR ALL COLUMNS | FOR COLUMNS <column>, …]``
- ``GENERATE <mode> FOR TABLE <table>``
- ``CREATE TABLE <table> SHALLOW CLONE <table> …`` (:mod:`headwater.sql.clone`)
- ``OPTIMIZE <table> …`` (:mod:`headwater.sql.optimize`)
- ``REORG TABLE <table> …`` (:mod:`headwater.sql.reorg`)
- ``ALTER TABLE <table> DROP FEATURE <feature> [TRUNCATE HISTORY]``; the feature in quotes or not
- ``RESTORE [TABLE] <table> [TO] [FOR] (VERSION|TIMESTAMP) AS OF <value>``; ``SYSTEM_VERSION`` and ``SYSTEM_TIME`` too
- ``VACUUM <table>`` with, in any order, ``FULL`` or ``LITE``, ``USING INVENTORY <table>`` or ``(<query>)``, ``RETAIN
  <number> HOURS``, ``DRY RUN``
- ``BEGIN TRANSACTION``, ``COMMIT``, ``ROLLBACK`` and ``BEGIN ATOMIC … END`` (:mod:`headwater.sql.transactions`)

A table is a name, a path in quotes, or ``IDENTIFIER(…)``, and stands in a command as it is written, quotes included:
Spark reads it, so that its escapes and variables mean what they mean elsewhere. Any other text is Spark's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import TokenType

from headwater.errors import HeadwaterError
from headwater.sql import clone, convert, optimize, reorg, transactions
from headwater.sql.tokens import Pattern, Token, closing, end_of_table, text_of, tokens

_DESCRIBE = Pattern("(DESC|DESCRIBE) (HISTORY|DETAIL|HEALTH)")
_IDENTIFIER = Pattern(r"IDENTIFIER \( ... \)")
_SYNC = Pattern("SYNC IDENTITY")
_ALTER = Pattern("ALTER TABLE")
_ANALYZE = Pattern("ANALYZE TABLE")
_COMPUTE = Pattern("COMPUTE DELTA STATISTICS")
_ALL_COLUMNS = Pattern("[FOR ALL COLUMNS]")
_COLUMNS = Pattern("FOR COLUMNS")
_ALTER_COLUMN = Pattern("(ALTER|CHANGE) [COLUMN]")
_DROP_FEATURE = Pattern("DROP FEATURE")
_TRUNCATE_HISTORY = Pattern("TRUNCATE HISTORY")
_GENERATE = Pattern("GENERATE <name> FOR TABLE")
_RESTORE = Pattern("RESTORE [TABLE]")
_DRY_RUN = Pattern("DRY RUN")
_INVENTORY = Pattern("USING INVENTORY")
_VACUUM_IS = "VACUUM t [FULL | LITE] [USING INVENTORY (t | (query))] [RETAIN n HOURS] [DRY RUN]"
_TO = Pattern("[TO] [FOR] (VERSION|SYSTEM_VERSION|TIMESTAMP|SYSTEM_TIME) AS OF")


def parse(text: str) -> dict[str, Any] | None:
    """The command of a text with its table and arguments, None where the text is Spark's.

    :raises HeadwaterError: ``PARSE_SYNTAX_ERROR``.
    """
    found = tokens(text)
    if found and (ended := transactions.parse(found, text)) is not None:
        return ended
    if found is not None and (altered := _ALTER.match(found)) is not None:
        return _alteration(found, altered.end, text)
    if found is not None and (analyzed := _ANALYZE.match(found)) is not None:
        return _analysis(found, analyzed.end, text)
    if found is not None and (generated := _GENERATE.match(found)) is not None:
        return {
            "command": "generate",
            "table": _table(found[generated.end :], text),
            "arguments": {"mode": found[1].value},
        }
    if found is not None and _RESTORE.match(found) is not None:
        return _restoration(found, text)
    for parse_kind in (convert.parse, optimize.parse, reorg.parse, clone.parse):
        if found is not None and (command := parse_kind(found, text, ends_of_table, _not_parsed)) is not None:
            return command
    if found is not None and found and found[0].is_word_of("VACUUM") and (ends := ends_of_table(found, 1)):
        return _vacuum(found, max(ends), text)
    described = _DESCRIBE.match(found) if found is not None else None
    if found is None or described is None or described.end == len(found):
        return None
    kind = found[1].value.lower()
    rest: Sequence[Token] = found[described.end :]
    arguments: dict[str, Any] = {}
    if kind == "history":
        rest, arguments["limit"] = _without_limit(rest, text)
        if len(rest) > 1 and rest[0].is_word_of("TABLE") and rest[1].kind is not TokenType.DOT:
            rest = rest[1:]
    return {"command": f"describe_{kind}", "table": _table(rest, text), "arguments": arguments}


def _alteration(found: Sequence[Token], start: int, text: str) -> dict[str, Any] | None:
    """An ALTER TABLE that Spark's parser does not know."""
    for end in sorted(ends_of_table(found, start)):
        rest = found[end:]
        table = text_of(text, found, start, end)
        if (column := _synced_column(rest)) is not None:
            return {"command": "sync_identity", "table": table, "arguments": {"column": column}}
        if (dropped := _DROP_FEATURE.match(rest)) is not None:
            arguments = _dropped_feature(rest[dropped.end :], text)
            return {"command": "drop_feature", "table": table, "arguments": arguments}
    return None


def _analysis(found: Sequence[Token], start: int, text: str) -> dict[str, Any] | None:
    """An ANALYZE TABLE with the word DELTA; without it, the statement is Spark's."""
    for end in sorted(ends_of_table(found, start)):
        rest = found[end:]
        if (computing := _COMPUTE.match(rest)) is not None:
            table = text_of(text, found, start, end)
            arguments = {"columns": _analyzed_columns(rest[computing.end :], text)}
            return {"command": "analyze_table", "table": table, "arguments": arguments}
        if rest and rest[0].is_word_of("PARTITION") and any(_COMPUTE.match(rest[at:]) for at in range(len(rest))):
            raise _not_parsed(text, "DELTA STATISTICS are computed for all files of a table; leave out PARTITION")
    return None


def _analyzed_columns(rest: Sequence[Token], text: str) -> list[list[str]] | None:
    """The columns of FOR COLUMNS; None where all are meant."""
    if len(rest) in _ALL_COLUMNS.ends(rest):
        return None
    columns: list[list[str]] = []
    named = _COLUMNS.match(rest)
    at = None if named is None else named.end
    while at is not None:
        end = end_of_table(rest, at)
        if end is None or rest[at].is_string:
            break
        columns.append([token.value for token in rest[at:end:2]])
        if end == len(rest):
            return columns
        at = end + 1 if rest[end].kind is TokenType.COMMA else None
    written = text_of(text, rest, 0, len(rest))
    raise _not_parsed(text, f"after STATISTICS comes nothing, FOR ALL COLUMNS or FOR COLUMNS a, b, not '{written}'")


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
        raise _not_parsed(text, f"DROP FEATURE takes the name of a table feature and [TRUNCATE HISTORY], not {found}")
    return {"feature": "-".join(token.value for token in rest[:end:2]), "truncateHistory": truncates}


def _restoration(found: Sequence[Token], text: str) -> dict[str, Any] | None:
    """A RESTORE; None for a text that is no more than a word of that name."""
    begins = sorted(_RESTORE.ends(found), reverse=True)
    for start in begins:
        for end in sorted(ends_of_table(found, start)):
            to = _TO.match(found[end:])
            if to is None or end + to.end == len(found):
                continue
            kind = "version" if "VERSION" in found[end + to.end - 3].value.upper() else "timestamp"
            arguments = {kind: text_of(text, found, end + to.end, len(found))}
            return {"command": "restore", "table": text_of(text, found, start, end), "arguments": arguments}
    if any(ends_of_table(found, start) for start in begins):
        raise _not_parsed(text, "RESTORE is written RESTORE [TABLE] t TO VERSION AS OF 1, or TO TIMESTAMP AS OF '…'")
    return None


def _vacuum(found: Sequence[Token], at: int, text: str) -> dict[str, Any]:
    """A VACUUM whose table ends at a token."""
    arguments: dict[str, Any] = {}
    table = text_of(text, found, 1, at)
    while at < len(found):
        rest = found[at:]
        name: str | None = None
        value: Any = None
        taken = 0
        if rest[0].is_word_of("FULL", "LITE"):
            name, value, taken = "mode", rest[0].value.lower(), 1
        elif (dry := _DRY_RUN.match(rest)) is not None:
            name, value, taken = "dryRun", True, dry.end
        elif rest[0].is_word_of("RETAIN"):
            end = next((end for end, token in enumerate(rest) if token.is_word_of("HOURS", "HOUR")), 0)
            if end > 1:
                name, value, taken = "hours", text_of(text, rest, 1, end), end + 1
        elif (using := _INVENTORY.match(rest)) is not None:
            taken = _end_of_inventory(rest, using.end) or 0
            if taken:
                name, value = "inventory", _inventory(rest, using.end, taken, text)
        if name is None or name in arguments:
            why = "is there twice" if name in arguments else "is not part of it"
            raise _not_parsed(text, f"VACUUM is written {_VACUUM_IS}: '{text_of(text, rest, 0, len(rest))}' {why}")
        arguments[name] = value
        at += taken
    return {"command": "vacuum", "table": table, "arguments": arguments}


def _end_of_inventory(rest: Sequence[Token], start: int) -> int | None:
    """Where a table's name or a query in parentheses ends."""
    if start < len(rest) and rest[start].kind is TokenType.L_PAREN:
        return closing(rest, start)
    return max(ends_of_table(rest, start), default=None)


def _inventory(rest: Sequence[Token], start: int, end: int, text: str) -> str:
    """The query that gives an inventory's rows."""
    if rest[start].kind is TokenType.L_PAREN:
        return text_of(text, rest, start + 1, end - 1)
    named = text_of(text, rest, start, end)
    if rest[start].is_string:
        named = f"IDENTIFIER('spark_catalog.delta.`' || replace({named}, '`', '``') || '`')"
    return f"SELECT * FROM {named}"


def _synced_column(rest: Sequence[Token]) -> list[str] | None:
    """The column of ``ALTER COLUMN <column> SYNC IDENTITY``."""
    for start in sorted(_ALTER_COLUMN.ends(rest), reverse=True):
        end = end_of_table(rest, start)
        if (
            end is not None
            and not rest[start].is_string
            and len(rest) in {end + more for more in _SYNC.ends(rest[end:])}
        ):
            return [token.value for token in rest[start:end:2]]
    return None


def ends_of_table(found: Sequence[Token], start: int) -> set[int]:
    """Where a table, by name, by path or by ``IDENTIFIER(…)``, that begins at a token may end."""
    ends = {start + end for end in _IDENTIFIER.ends(found[start:])} & {closing(found, start + 1)}
    named = end_of_table(found, start)
    return ends if named is None else {*ends, named}


def _without_limit(found: Sequence[Token], text: str) -> tuple[Sequence[Token], int | None]:
    """The tokens before a LIMIT, and its number."""
    after_names = [
        at
        for at, token in enumerate(found)
        if token.is_word_of("LIMIT") and 0 < at < len(found) - 1 and found[at - 1].kind is not TokenType.DOT
    ]
    if not after_names:
        return found, None
    at = after_names[-1]
    if at + 2 != len(found) or found[at + 1].kind is not TokenType.NUMBER or not found[at + 1].value.isdecimal():
        raise _not_parsed(text, f"LIMIT takes a number, not {text_of(text, found, at + 1, len(found))}")
    return found[:at], int(found[at + 1].value)


def _table(found: Sequence[Token], text: str) -> str:
    """A table as it is written."""
    written = text_of(text, found, 0, len(found))
    if end_of_table(found, 0) == len(found) or any(way == len(found) for way in _IDENTIFIER.ends(found)):
        return written
    raise _not_parsed(text, f"'{written}' is not a table name or a quoted path")


def _not_parsed(text: str, reason: str) -> HeadwaterError:
    return HeadwaterError("PARSE_SYNTAX_ERROR", {"statement": text.strip(), "reason": reason})
