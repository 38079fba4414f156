"""The grammar of statements Spark's parser does not know, or would read as something else.

Owns their parsing into a command with its table and arguments:

- ``DESCRIBE HISTORY [TABLE] <table> [LIMIT <number>]``
- ``DESCRIBE DETAIL <table>``

A table is a name, a path in quotes, or ``IDENTIFIER(…)``, which Spark evaluates. Any other text is Spark's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import TokenType

from headwater.errors import HeadwaterError
from headwater.sql.tokens import Pattern, Token, end_of_table, text_of, tokens

_DESCRIBE = Pattern("(DESC|DESCRIBE) (HISTORY|DETAIL)")
_IDENTIFIER = Pattern(r"IDENTIFIER \( ... \)")


def parse(text: str) -> dict[str, Any] | None:
    """The command of a text with its table and arguments, None where the text is Spark's.

    :raises HeadwaterError: ``DELTA_STATEMENT_NOT_PARSED``.
    """
    found = tokens(text)
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
    """A table's name as it is written, or the path of a quoted one."""
    if end_of_table(found, 0) == len(found):
        return found[0].value if found[0].is_string else text_of(text, found, 0, len(found))
    written = text_of(text, found, 0, len(found))
    if any(way == len(found) for way in _IDENTIFIER.ends(found)):
        return written
    raise _not_parsed(text, f"'{written}' is not a table name or a quoted path")


def _not_parsed(text: str, reason: str) -> HeadwaterError:
    return HeadwaterError("DELTA_STATEMENT_NOT_PARSED", {"statement": text.strip(), "reason": reason})
