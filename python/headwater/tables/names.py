"""Quoting and splitting of names and string literals in SQL text.

A name with dots is split as Spark splits a column's name: at dots outside backticks. Inside backticks, a doubled
backtick stands for one.
"""

from __future__ import annotations

import re

_PART = re.compile(r"`((?:[^`]|``)*)`|([^`.]+)")


def split_name(name: str) -> list[str]:
    """The parts of a dotted name.

    :raises ValueError: a backtick is not closed, or a part is empty.
    """
    parts, position = [], 0
    while match := _PART.match(name, position):
        quoted, plain = match.groups()
        parts.append(plain.strip() if quoted is None else quoted.replace("``", "`"))
        position = match.end()
        if position == len(name):
            if all(parts):
                return parts
            break
        if name[position] != ".":
            break
        position += 1
    raise ValueError(f"{name!r} is no name: put a part with dots, spaces or backticks in it into backticks.")


def quote(*parts: str) -> str:
    """A name of several parts, each in backticks."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def literal(text: str) -> str:
    """A text as a string literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def path_name(path: str) -> str:
    """A table's path as the name of the table.

    A path without a slash gets one; otherwise it would name a table in a schema called ``delta``.
    """
    return "delta." + quote(path if "/" in path else f"./{path}")


def named_path(parts: list[str]) -> str | None:
    """The path in a name of the form ``delta.`/path` ``; None for other names."""
    is_path = len(parts) == 2 and parts[0].lower() == "delta" and "/" in parts[1]
    return parts[1] if is_path else None
