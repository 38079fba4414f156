"""The Delta columns of an Iceberg schema, and the texts of its partition values.

Owns the step from the JSON of a schema to columns with mapping: field ids become column ids, and the names also become
physical names, unless files have other columns by them (:mod:`headwater.statements.tables.iceberg_table`). Follows the
chapters "Schemas and Data Types" and "Partition Transforms" of Iceberg's specification, and the protocol's chapters
"Column Mapping", "Type Widening" and "Partition Value Serialization". Promise: what Delta has no type for is a
:class:`NotDelta` that names it.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from headwater.basics.times import date_text, timestamp_text
from headwater.iceberg.types import DELTA_NAMES
from headwater.protocol.column_metadata import COLUMN_ID, PHYSICAL_NAME
from headwater.protocol.types import ArrayType, DataType, DecimalType, MapType, PrimitiveType, StructField, StructType
from headwater.schema.widening import can_widen, with_change

_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_FIXED = re.compile(r"fixed\[\s*\d+\s*\]")
_DEFAULTS = ("initial-default", "write-default")


class NotDelta(ValueError):
    """What of an Iceberg table a Delta table cannot have."""


def delta_schema(schema: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]] = ()) -> StructType:
    """The columns of an Iceberg schema, given as its JSON object.

    :param earlier: the table's other schemas, oldest first: a type that was another then is recorded as widened.
    :raises NotDelta: a type or default value has no counterpart.
    """
    types: dict[int, list[DataType]] = {}
    for each in earlier:
        _collect(each["fields"], types)
    return StructType(tuple(_field(field, types, is_required=True) for field in schema["fields"]))


def _field(field: Mapping[str, Any], earlier: Mapping[int, Sequence[DataType]], *, is_required: bool) -> StructField:
    """A column of a struct.

    :param is_required: whether what it lies in is never null, so that NOT NULL means what it says.
    """
    name, number = str(field["name"]), int(field["id"])
    if any(field.get(key) is not None for key in _DEFAULTS):
        raise NotDelta(f"its column {name} has a default value, which rows of older files lack")
    required = is_required and bool(field.get("required"))
    kind = _type(field["type"], name, earlier, is_required=required)
    metadata: dict[str, Any] = {COLUMN_ID: number, PHYSICAL_NAME: name}
    if field.get("doc"):
        metadata["comment"] = str(field["doc"])
    known = [each for each in earlier.get(number, ()) if each != kind]
    for at, old in enumerate(known):
        new = known[at + 1] if at + 1 < len(known) else kind
        if old == new:
            continue
        if not can_widen(old, new):
            raise NotDelta(f"its column {name} was {old.sql()} and became {new.sql()}")
        metadata = with_change(metadata, old, new)
    return StructField(name, kind, nullable=not required, metadata=metadata)


def _type(kind: Any, name: str, earlier: Mapping[int, Sequence[DataType]], *, is_required: bool = False) -> DataType:
    if isinstance(kind, str):
        return _primitive(kind, name)
    match kind.get("type"):
        case "struct":
            return StructType(tuple(_field(each, earlier, is_required=is_required) for each in kind["fields"]))
        case "list":
            _check_same(kind["element-id"], kind["element"], name, earlier)
            element = _type(kind["element"], name, earlier)
            return ArrayType(element, contains_null=not kind.get("element-required"))
        case "map":
            _check_same(kind["key-id"], kind["key"], name, earlier)
            _check_same(kind["value-id"], kind["value"], name, earlier)
            key, value = _type(kind["key"], name, earlier), _type(kind["value"], name, earlier)
            return MapType(key, value, value_contains_null=not kind.get("value-required"))
    raise NotDelta(f"its column {name} has the type {kind.get('type')}")


def _primitive(kind: str, name: str) -> DataType:
    if kind in DELTA_NAMES:
        return PrimitiveType(DELTA_NAMES[kind])
    if (decimal := _DECIMAL.fullmatch(kind)) is not None:
        return DecimalType(int(decimal.group(1)), int(decimal.group(2)))
    if _FIXED.fullmatch(kind) is not None:
        return PrimitiveType("binary")
    raise NotDelta(f"its column {name} has the type {kind}")


def _check_same(number: int, kind: Any, name: str, earlier: Mapping[int, Sequence[DataType]]) -> None:
    """Elements, keys and values are only recorded as they are: one of another type before is refused."""
    if isinstance(kind, str) and any(old != _primitive(kind, name) for old in earlier.get(int(number), ())):
        raise NotDelta(f"the type of what its column {name} holds was changed to {kind}")


def _collect(fields: Sequence[Mapping[str, Any]], types: dict[int, list[DataType]]) -> None:
    """The primitive types by field id. What Delta has no type for is left out: no column has it now."""

    def visit(number: int, kind: Any) -> None:
        if isinstance(kind, str):
            try:
                found = _primitive(kind, "")
            except NotDelta:
                return
            if found not in types.setdefault(number, []):
                types[number].append(found)
            return
        match kind.get("type"):
            case "struct":
                _collect(kind["fields"], types)
            case "list":
                visit(int(kind["element-id"]), kind["element"])
            case "map":
                visit(int(kind["key-id"]), kind["key"])
                visit(int(kind["value-id"]), kind["value"])

    for field in fields:
        visit(int(field["id"]), field["type"])


def partition_text(value: Any, kind: DataType, name: str) -> str | None:
    """A partition value of a manifest as a log of Delta has it.

    :param value: as :func:`headwater.iceberg.avro.read_records` decodes it.
    :raises NotDelta: a log cannot have it.
    """
    if value is None:
        return None
    match kind:
        case DecimalType(_, scale):
            return _decimal(int.from_bytes(value, "big", signed=True), scale)
        case PrimitiveType("boolean"):
            return "true" if value else "false"
        case PrimitiveType("integer" | "long"):
            return str(value)
        case PrimitiveType("float" | "double"):
            # The value of a column that was widened is as long as it was then.
            return _floating(struct.unpack("<f" if len(value) == 4 else "<d", value)[0])
        case PrimitiveType("date"):
            return date_text(value)
        case PrimitiveType("timestamp"):
            return timestamp_text(value, separator="T") + "Z"
        case PrimitiveType("timestamp_ntz"):
            return timestamp_text(value)
        case PrimitiveType("string"):
            if not value:
                raise NotDelta(f"a partition value of its column {name} is an empty string, which Delta reads as null")
            return str(value)
    raise NotDelta(f"it is partitioned by its column {name} of the type {kind.sql()}")


def _decimal(digits: int, scale: int) -> str:
    if not scale:
        return str(digits)
    text = f"{abs(digits):0{scale + 1}d}"
    return f"{'-' if digits < 0 else ''}{text[:-scale]}.{text[-scale:]}"


def _floating(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)
