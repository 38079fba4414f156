"""Type widening: which changes of a column's type keep old data files readable, and the record of them.

Owns the table of supported changes and ``delta.typeChanges``. Follows the protocol's chapter "Type Widening". Promise:
a type that
:func:`can_widen` allows is one every implementation of the chapter can read old files as; nothing else is ever written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headwater.protocol.column_metadata import TYPE_CHANGES
from headwater.protocol.types import DataType, DecimalType, PrimitiveType, parse_type

_INTEGERS = ("byte", "short", "integer", "long")
#: Decimal digits before the point that each integer needs at least, as the chapter counts them.
_INTEGER_DIGITS = {"byte": 10, "short": 10, "integer": 10, "long": 20}
_PRIMITIVE_CHANGES = frozenset(
    {("float", "double"), ("date", "timestamp_ntz")}
    | {(a, b) for i, a in enumerate(_INTEGERS) for b in _INTEGERS[i + 1 :]}
    | {(a, "double") for a in _INTEGERS[:3]}
)


def can_widen(old: DataType, new: DataType) -> bool:
    """Whether the protocol lets a column of type ``old`` become ``new``. Equal types are no change: False."""
    match old, new:
        case PrimitiveType(a), PrimitiveType(b):
            return (a, b) in _PRIMITIVE_CHANGES
        case PrimitiveType(a), DecimalType(precision, scale):
            return a in _INTEGER_DIGITS and precision - scale >= _INTEGER_DIGITS[a]
        case DecimalType(), DecimalType():
            return old != new and new.scale >= old.scale and new.precision - old.precision >= new.scale - old.scale
    return False


def can_store(data: DataType, column: DataType) -> bool:
    """Whether every value of ``data`` can be cast to ``column`` without loss, so that a write may do it silently.

    ``long`` to ``decimal(20,0)`` and up, ``date`` to either timestamp, and void to anything count, beside the
    widenings.
    """
    if data == column or data == PrimitiveType("void"):
        return True
    if (data, column) == (PrimitiveType("date"), PrimitiveType("timestamp")):
        return True
    return can_widen(data, column)


def with_change(
    metadata: Mapping[str, Any], old: DataType, new: DataType, field_path: Sequence[str] = ()
) -> dict[str, Any]:
    """A field's metadata with one more entry in ``delta.typeChanges``; void had no files and leaves no record.

    :param field_path: ``element``, ``key``, ``value`` steps from the field to the changed type; empty for the field's
        own.
    """
    if old == PrimitiveType("void"):
        return dict(metadata)
    change: dict[str, Any] = {"fromType": old.to_json(), "toType": new.to_json()}
    if field_path:
        change["fieldPath"] = ".".join(field_path)
    return {**metadata, TYPE_CHANGES: [*metadata.get(TYPE_CHANGES, ()), change]}


def unsupported_changes(metadata: Mapping[str, Any]) -> list[str]:
    """The recorded changes of a field this version cannot read through, as ``from -> to``; a reader must refuse
    such a table.
    """
    found = []
    for change in metadata.get(TYPE_CHANGES, ()):
        old, new = parse_type(change["fromType"]), parse_type(change["toType"])
        if old != new and not can_widen(old, new):
            found.append(f"{old.sql()} -> {new.sql()}")
    return found
