"""Values in a form that JSON can hold, and short texts of them.

Owns how a value of a table becomes text. Promise: whatever it is, the result is text or a plain JSON value of bounded
length; whole numbers that JavaScript would round are texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

#: Characters of a value that are shown.
MOST_CHARACTERS = 200
_EXACT, _LARGEST = 1 << 53, (1 << 63) - 1
_DEEPEST = 20


def short(text: str, most: int = MOST_CHARACTERS) -> str:
    """The text, cut off with an ellipsis where it is longer."""
    return text if len(text) <= most else text[: most - 1] + "…"


def text_of(value: Any, most: int = MOST_CHARACTERS) -> str | None:
    """A value of Arrow's as text; None for null."""
    try:
        plain = value.as_py() if isinstance(value, pa.Scalar) else value
    except (ValueError, OverflowError, pa.ArrowException):  # a time that no Python object holds
        plain = str(value)
    if plain is None:
        return None
    if isinstance(plain, bytes):
        return short("0x" + plain[:most].hex(), most)
    if isinstance(plain, bool):
        return str(plain).lower()
    return short(str(plain), most)


def json_value(value: Any, depth: int = _DEEPEST) -> Any:
    """A parsed JSON value of the log, as the page can hold it."""
    if depth == 0:
        return "…"
    if isinstance(value, Mapping):
        return {short(str(name)): json_value(each, depth - 1) for name, each in value.items()}
    if isinstance(value, str):
        return short(_printable(value), 20_000)
    if isinstance(value, list | tuple):
        return [json_value(each, depth - 1) for each in value]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if abs(value) < _EXACT else str(value)
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    return short(str(value))


def whole(value: Any) -> int | None:
    """A size or a count of the log's, which may be text, as metrics are; None for anything else."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        value = int(value)
    return value if type(value) is int and 0 <= value <= _LARGEST else None


def _printable(text: str) -> str:
    """The text without halves of surrogate pairs, which JSON in the wild has and UTF-8 has not."""
    return text.encode("utf-8", "replace").decode("utf-8")
