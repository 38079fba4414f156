"""The grammar of statements Spark's parser does not know, or would read as something else.

Owns their parsing into a command with its table and arguments. What is not one of them is Spark's.
"""

from __future__ import annotations

import re
from typing import Any

from headwater.errors import HeadwaterError
from headwater.sql.text import without_leading_comments

_DESCRIBE = re.compile(r"(?is)desc(?:ribe)?\s+(history|detail)\s+(.+)")
_LIMIT = re.compile(r"""(?is)(.*\S)\s+limit\s+([^\s`'"]+)""")  # outside of quotes: a path may say so too
_QUOTED_PATH = re.compile(r"""(?s)(['"])(.*)\1""")
_IDENTIFIER = re.compile(r"(?is)identifier\s*\(.*\)")  # a name by an expression, which is Spark's to read
_NAME = re.compile(r"(?s)(?:`(?:[^`]|``)*`|[\w$]+)(?:\s*\.\s*(?:`(?:[^`]|``)*`|[\w$]+))*")


def parse(text: str) -> dict[str, Any] | None:
    """The command of a text with its table and arguments, None where the text is Spark's.

    :raises HeadwaterError: ``DELTA_STATEMENT_NOT_PARSED``.
    """
    text = without_leading_comments(text).rstrip().rstrip(";").rstrip()
    match = _DESCRIBE.fullmatch(text)
    if match is None:
        return None
    kind, rest = match.group(1).lower(), match.group(2).strip()
    limit = None
    if kind == "history" and (limited := _LIMIT.fullmatch(rest)):
        rest, limit = limited.group(1), _limit(limited.group(2), text)
    if rest.lower().startswith("table ") and kind == "history":
        rest = rest[6:].strip()
    return {
        "command": f"describe_{kind}",
        "table": _table(rest, text),
        "arguments": {"limit": limit} if kind == "history" else {},
    }


def _limit(text: str, statement: str) -> int:
    if not text.isdecimal():
        raise HeadwaterError(
            "DELTA_STATEMENT_NOT_PARSED", {"statement": statement, "reason": f"LIMIT takes a number, not {text}"}
        )
    return int(text)


def _table(text: str, statement: str) -> str:
    """A table's name as written, or the path of a quoted one."""
    if path := _QUOTED_PATH.fullmatch(text):
        return path.group(2)
    if _NAME.fullmatch(text) or _IDENTIFIER.fullmatch(text):
        return text
    raise HeadwaterError(
        "DELTA_STATEMENT_NOT_PARSED",
        {"statement": statement, "reason": f"'{text}' is not a table name or a quoted path"},
    )
