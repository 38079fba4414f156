"""Rows in one form, whichever engine they come from: JSON that keeps what a value says, but not its type, sorted.

A timestamp with a time zone is in UTC. A struct is an object, a map a sorted list of pairs (some engines have lists of
structs ``key`` and ``value`` for it), binary is hexadecimal, a double its shortest text, a decimal its digits with all
zeros of its scale. A VARIANT, given as its two binary fields or as JSON, is the JSON value. Columns are sorted by name,
as engines differ in where partition columns stand.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa

#: Names of columns, sorted, and rows with values in that order, sorted.
Rows = dict[str, list[Any]]


def canonical(table: pa.Table, variants: Iterable[str] = ()) -> Rows:
    """The rows of a table.

    :param variants: the columns of VARIANT that this table may have as JSON text.
    """
    names = sorted(table.column_names)
    as_json = frozenset(variants)
    columns = []
    for name in names:
        column = table.column(name)
        values = [_value(value, column.type) for value in _python_values(column)]
        if name in as_json and _is_text(column.type):
            values = [None if value is None else json.loads(value) for value in values]
        columns.append(values)
    return sorted_rows(names, zip(*columns, strict=True) if columns else [])


def sorted_rows(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Rows:
    """Rows of values in their canonical form, in an order that depends on nothing else."""
    return {"columns": list(names), "rows": sorted((list(row) for row in rows), key=json.dumps)}


def _python_values(column: pa.ChunkedArray) -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.unit != "us":
        column = column.cast(pa.timestamp("us", kind.tz))
    found: list[Any] = column.to_pylist()
    return found


def _is_text(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


def _value(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if isinstance(kind, pa.BaseExtensionType):
        return _value(value, kind.storage_type)
    if pa.types.is_struct(kind):
        names = {field.name for field in kind}
        if names == {"metadata", "value"}:
            return _variant(value)
        return {field.name: _value(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        pairs = [[_value(key, kind.key_type), _value(item, kind.item_type)] for key, item in value]
        return sorted(pairs, key=json.dumps)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_list_view(kind):
        if _is_entries(kind.value_type):
            pairs = [[_value(each[field.name], field.type) for field in kind.value_type] for each in value]
            return sorted(pairs, key=json.dumps)
        return [_value(each, kind.value_type) for each in value]
    return plain(value)


def _is_entries(kind: pa.DataType) -> bool:
    return bool(pa.types.is_struct(kind)) and [field.name for field in kind] == ["key", "value"]


def _variant(value: dict[str, bytes | None]) -> Any:
    from pyspark.sql.variant_utils import VariantUtils

    if value["value"] is None or value["metadata"] is None:
        return None
    return json.loads(VariantUtils.to_json(value["value"], value["metadata"]))


def plain(value: Any) -> Any:
    """A value without parts.

    :raises TypeError: its type is not known.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    if isinstance(value, datetime):
        return (value.astimezone(timezone.utc).replace(tzinfo=None) if value.tzinfo else value).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no plain form")
