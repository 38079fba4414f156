"""Types of Delta and of Iceberg.

Owns the schema, the name mapping and the partition spec that Iceberg's metadata gives for a table with column mapping:
column ids are field ids, and nested ids those of elements, keys and values. Follows the protocol's chapters "Column
Mapping" and "IcebergCompatV2", and the chapter "Schemas and Data Types" of Iceberg's specification.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from headwater.basics.errors import HeadwaterError
from headwater.protocol.column_metadata import COLUMN_ID, NESTED_IDS
from headwater.protocol.columns import ELEMENT, KEY, VALUE
from headwater.protocol.types import ArrayType, DataType, DecimalType, MapType, PrimitiveType, StructField, StructType

#: The id of a spec's first partition field.
FIRST_PARTITION_ID = 1000

#: Delta's names of Iceberg's types without parts and parameters.
DELTA_NAMES = {
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamptz": "timestamp",
    "timestamp": "timestamp_ntz",
}
#: Iceberg's names of Delta's; it has no integers of less than four bytes.
_ICEBERG_NAMES = {"byte": "int", "short": "int", **{delta: iceberg for iceberg, delta in DELTA_NAMES.items()}}

_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")


def iceberg_schema(schema: StructType, schema_id: int = 0) -> dict[str, Any]:
    """The JSON object of Iceberg's schema, with logical names.

    :raises HeadwaterError: ``HEADWATER_ICEBERG_TYPE_NOT_SUPPORTED``; ``HEADWATER_ICEBERG_FIELD_ID_MISSING``.
    """
    return {"type": "struct", "schema-id": schema_id, "fields": [_field(field) for field in schema]}


def field_id_of(field: StructField) -> int:
    """The Iceberg id of a column.

    :raises HeadwaterError: ``HEADWATER_ICEBERG_FIELD_ID_MISSING``.
    """
    return _id(field.metadata, COLUMN_ID, field.name)


def primitive_name(kind: DataType) -> str | None:
    """Iceberg's name of a type without parts; None if it has none."""
    match kind:
        case DecimalType(precision, scale):
            return f"decimal({precision}, {scale})"
        case PrimitiveType(name):
            return _ICEBERG_NAMES.get(name)
    return None


def is_promotion(old: str, new: str) -> bool:
    """Whether a column of one of Iceberg's types may become one of another: each value of the old type is one of the
    new.
    """
    decimals = [_DECIMAL.fullmatch(each) for each in (old, new)]
    if decimals[0] and decimals[1]:
        (precision, scale), (wider, same) = (map(int, each.groups()) for each in decimals if each)
        return scale == same and precision <= wider
    return old == new or (old, new) in (("int", "long"), ("float", "double"))


def _field(field: StructField) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": field_id_of(field),
        "name": field.name,
        "required": not field.nullable,
        "type": _type(field.type, field, field.physical_name),
    }
    if field.comment:
        found["doc"] = field.comment
    return found


def _type(kind: DataType, field: StructField, path: str) -> Any:
    """The JSON value of a type at a path that leads from the physical name of its nearest field."""
    match kind:
        case StructType():
            return {"type": "struct", "fields": [_field(each) for each in kind]}
        case ArrayType(element, contains_null):
            at = f"{path}.{ELEMENT}"
            return {
                "type": "list",
                "element-id": _nested_id(field, at),
                "element": _type(element, field, at),
                "element-required": not contains_null,
            }
        case MapType(key, value, value_contains_null):
            at_key, at_value = f"{path}.{KEY}", f"{path}.{VALUE}"
            return {
                "type": "map",
                "key-id": _nested_id(field, at_key),
                "key": _type(key, field, at_key),
                "value-id": _nested_id(field, at_value),
                "value": _type(value, field, at_value),
                "value-required": not value_contains_null,
            }
    name = primitive_name(kind)
    if name is None:
        raise HeadwaterError(
            "HEADWATER_ICEBERG_TYPE_NOT_SUPPORTED", {"columnName": field.name, "dataType": kind.sql().upper()}
        )
    return name


def name_mapping(schema: StructType, hidden: Mapping[str, int]) -> list[dict[str, Any]]:
    """Which columns of files without field ids are meant: the physical names, as the files have them.

    :param hidden: the field ids of columns that files have beside the table's.
    """
    more = [{"field-id": number, "names": [name]} for name, number in hidden.items()]
    return [*(_named(field) for field in schema), *more]


def _named(field: StructField) -> dict[str, Any]:
    return _mapped(field_id_of(field), field.physical_name, field.type, field, field.physical_name)


def _mapped(number: int, name: str, kind: DataType, field: StructField, path: str) -> dict[str, Any]:
    found: dict[str, Any] = {"field-id": number, "names": [name]}

    def within(part: DataType, step: str) -> dict[str, Any]:
        at = f"{path}.{step}"
        return _mapped(_nested_id(field, at), step, part, field, at)

    match kind:
        case StructType():
            found["fields"] = [_named(each) for each in kind]
        case ArrayType(element):
            found["fields"] = [within(element, ELEMENT)]
        case MapType(key, value):
            found["fields"] = [within(key, KEY), within(value, VALUE)]
    return found


def partition_spec(schema: StructType, partition_columns: Sequence[str]) -> list[dict[str, Any]]:
    """The fields of Iceberg's partition spec: each partition column as it is (the transform ``identity``)."""
    fields = []
    for position, name in enumerate(partition_columns):
        column = schema.find(name)
        assert column is not None  # a definition's partition columns are columns
        fields.append(
            {
                "source-id": field_id_of(column),
                "field-id": FIRST_PARTITION_ID + position,
                "name": column.name,
                "transform": "identity",
            }
        )
    return fields


def _nested_id(field: StructField, path: str) -> int:
    return _id(field.metadata.get(NESTED_IDS) or {}, path, field.name)


def _id(metadata: Mapping[str, Any], key: str, name: str) -> int:
    found = metadata.get(key)
    if not isinstance(found, int):
        raise HeadwaterError("HEADWATER_ICEBERG_FIELD_ID_MISSING", {"columnName": name, "key": key})
    return found
