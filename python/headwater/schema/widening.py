"""Type widening: which changes of a column's type keep old data files readable, and the record of them.

Owns the table of supported changes and ``delta.typeChanges``. Follows the protocol's chapter "Type Widening". Promise:
a type that :func:`can_widen` allows is one every implementation of the chapter can read old files as; nothing else is
ever written, and a table in which another writer recorded something else is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from headwater.basics.errors import HeadwaterError
from headwater.protocol.column_metadata import TYPE_CHANGES
from headwater.protocol.columns import all_fields, format_name
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import INTEGERS, DataType, DecimalType, PrimitiveType, parse_type

#: Decimal digits before the point that each integer needs at least, as the chapter counts them.
_INTEGER_DIGITS = {"byte": 10, "short": 10, "integer": 10, "long": 20}
_PRIMITIVE_CHANGES = frozenset(
    {("float", "double"), ("date", "timestamp_ntz")}
    | {(a, b) for i, a in enumerate(INTEGERS) for b in INTEGERS[i + 1 :]}
    | {(a, "double") for a in INTEGERS[:3]}
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


def check_readable_types(definition: TableDefinition) -> None:
    """Refuse a table with a recorded change that no reader can follow: its old files have other types than it.

    Lengths of strings may change; some writers record it.

    :raises HeadwaterError: ``DELTA_UNSUPPORTED_TYPE_CHANGE_IN_SCHEMA``.
    """
    if TYPE_CHANGES not in definition.metadata.schema_string or not definition.supports("typeWidening"):
        return
    for path, field in all_fields(definition.schema):
        for change in field.metadata.get(TYPE_CHANGES) or ():
            old, new = parse_type(change["fromType"]), parse_type(change["toType"])
            if old != new and not can_widen(old, new) and not (_is_text(old) and _is_text(new)):
                name = format_name((*path, *(part for part in change.get("fieldPath", "").split(".") if part)))
                raise HeadwaterError(
                    "DELTA_UNSUPPORTED_TYPE_CHANGE_IN_SCHEMA",
                    {"fieldName": name, "fromType": old.sql(), "toType": new.sql()},
                )


def _is_text(kind: DataType) -> bool:
    return isinstance(kind, PrimitiveType) and re.fullmatch(r"string|(var)?char\(\d+\)", kind.name) is not None
