"""Rows as JSON can hold them, the same from every engine."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa


def sorted_rows(table: pa.Table) -> list[Any]:
    """The rows of a table of Arrow, without the names of its columns."""
    return sorted((plain(list(row.values())) for row in table.to_pylist()), key=repr)


def plain(value: Any) -> Any:
    """A value of any of Spark's types: rows and arrays as lists, maps as sorted pairs, all else exact, as text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    if isinstance(value, dict):
        return sorted(([plain(k), plain(v)] for k, v in value.items()), key=repr)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "toJson"):
        return value.toJson()
    raise TypeError(f"{type(value).__name__} has no plain form")
