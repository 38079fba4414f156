"""Checks of a schema before it becomes a table's.

Owns what CREATE, a write that evolves the schema and ALTER TABLE refuse: duplicate or impossible names, types no data
file can hold, partition columns that cannot partition. Follows the protocol's chapters "Schema Serialization Format",
"Void Type" and "Column Mapping". Promise: pure functions that raise one error naming every offender, or return None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headwater.basics.errors import HeadwaterError
from headwater.protocol import properties
from headwater.protocol.columns import all_fields, format_name, map_fields, parts
from headwater.protocol.row_tracking import reserved_names
from headwater.protocol.types import (
    PRIMITIVES,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    SpatialType,
    StructType,
    as_nullable,
)

#: What Parquet and Spark's readers cannot have in a name without column mapping.
INVALID_CHARACTERS = " ,;{}()\n\t="
#: Columns the change data feed adds to each row.
CHANGE_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")


def check_schema(
    schema: StructType,
    partition_columns: Sequence[str],
    configuration: Mapping[str, str],
    found_in: str = "METADATA_UPDATE",
) -> None:
    """Everything a table's new schema must satisfy.

    :param partition_columns: logical names.
    :param configuration: the table's configuration with the change applied.
    :param found_in: where columns of one name would be, as :func:`check_duplicates` has it.
    :raises HeadwaterError: the conditions of the checks below.
    """
    check_duplicates(schema, found_in)
    check_characters(schema, configuration)
    check_types(schema)
    check_nested_not_null(schema)
    check_partition_columns(schema, partition_columns)
    check_reserved_names(schema, configuration)
    check_row_tracking_names(schema, configuration)


def check_duplicates(schema: StructType, found_in: str) -> None:
    """Names must differ by more than case, at every level.

    :param found_in: whose schema it is: a subcondition of the error.
    :raises HeadwaterError: ``DELTA_DUPLICATE_COLUMNS_FOUND``.
    """
    seen: set[tuple[str, ...]] = set()
    duplicates: list[str] = []
    for path, _ in all_fields(schema):
        folded = tuple(part.lower() for part in path)
        if folded in seen and format_name(folded) not in duplicates:
            duplicates.append(format_name(folded))
        seen.add(folded)
    if duplicates:
        raise HeadwaterError(f"DELTA_DUPLICATE_COLUMNS_FOUND.{found_in}", {"columns": ", ".join(duplicates)})


def check_characters(schema: StructType, configuration: Mapping[str, str]) -> None:
    """Names must be possible in data files; with column mapping any name is.

    :raises HeadwaterError: ``DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES``.
    """
    if properties.COLUMN_MAPPING_MODE.of(configuration) != "none":
        return
    bad = [format_name(path) for path, field in all_fields(schema) if set(field.name) & set(INVALID_CHARACTERS)]
    if bad:
        raise HeadwaterError("DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES", {"columns": ", ".join(bad)})


def check_types(schema: StructType) -> None:
    """Every type must be one of the protocol's. Void is, wherever it stands; data is refused where it cannot be left
    out (:func:`check_writable`).

    :raises HeadwaterError: ``DELTA_UNSUPPORTED_DATA_TYPES``.
    """
    unsupported: list[str] = []
    for path, field in all_fields(schema):
        for kind, _ in parts(field.type):
            if isinstance(kind, PrimitiveType) and kind.name not in PRIMITIVES:
                unsupported.append(f"{format_name(path)}: {field.type.sql()}")
            if isinstance(kind, SpatialType) and kind.srid == "any":
                unsupported.append(f"{format_name(path)}: {field.type.sql()}")
            if isinstance(kind, DecimalType) and not 0 <= kind.scale <= kind.precision <= 38:
                unsupported.append(f"{format_name(path)}: {field.type.sql()}")
    if unsupported:
        raise HeadwaterError("DELTA_UNSUPPORTED_DATA_TYPES", {"columns": ", ".join(unsupported)})


def void_columns(schema: StructType) -> list[str]:
    """The columns and fields that are void, or arrays and maps of it."""
    return [format_name(path) for path, field in all_fields(schema) if any(_is_void(k) for k, _ in parts(field.type))]


def contains_void(kind: DataType) -> bool:
    """Whether a type is void, or has void in it at any depth."""
    return any(
        _is_void(part) or isinstance(part, StructType) and any(contains_void(field.type) for field in part)
        for part, _ in parts(kind)
    )


def without_void(schema: StructType) -> StructType:
    """The columns that data files have: without those of type void, and without such fields of structs."""
    return StructType(
        tuple(
            replace(field, type=without_void(field.type)) if isinstance(field.type, StructType) else field
            for field in schema
            if not _is_void(field.type)
        )
    )


def check_nested_not_null(schema: StructType) -> None:
    """NOT NULL can be enforced on columns and fields of structs, not inside arrays and maps.

    :raises HeadwaterError: ``DELTA_NESTED_NOT_NULL_CONSTRAINT``.
    """
    for path, field in all_fields(schema):
        for kind, _ in parts(field.type):
            children: tuple[DataType, ...] = ()
            if isinstance(kind, ArrayType):
                children = (kind.element,)
            elif isinstance(kind, MapType):
                children = (kind.key, kind.value)
            if any(not inner.nullable for child in children for _, inner in all_fields(child)):
                raise HeadwaterError(
                    "DELTA_NESTED_NOT_NULL_CONSTRAINT", {"column": format_name(path), "type": field.type.sql()}
                )


def without_nested_not_null(schema: StructType) -> StructType:
    """The schema without what :func:`check_nested_not_null` refuses: inside arrays and maps, anything may be null."""
    return map_fields(
        schema, lambda f, _: replace(f, type=as_nullable(f.type)) if isinstance(f.type, ArrayType | MapType) else f
    )


def check_partition_columns(schema: StructType, partition_columns: Sequence[str]) -> None:
    """Partition columns must exist, be top-level, distinct, of a type with a text form, and leave a data column over.

    :raises HeadwaterError: ``DELTA_PARTITION_COLUMN_NOT_FOUND``, ``DELTA_INVALID_PARTITION_COLUMN_TYPE``,
        ``DELTA_DUPLICATE_COLUMNS_FOUND``, ``DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION``.
    """
    folded = [name.lower() for name in partition_columns]
    repeated = sorted({name for name in folded if folded.count(name) > 1})
    if repeated:
        raise HeadwaterError("DELTA_DUPLICATE_COLUMNS_FOUND.PARTITION_COLUMNS", {"columns": ", ".join(repeated)})
    for name in partition_columns:
        field = schema.find(name)
        if field is None:
            raise HeadwaterError(
                "DELTA_PARTITION_COLUMN_NOT_FOUND", {"columnName": name, "columns": ", ".join(schema.names)}
            )
        if not _can_partition(field.type):
            raise HeadwaterError(
                "DELTA_INVALID_PARTITION_COLUMN_TYPE", {"name": name, "dataType": field.type.sql().upper()}
            )
    if partition_columns and len(folded) == len(schema):
        raise HeadwaterError("DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION")


def check_reserved_names(schema: StructType, configuration: Mapping[str, str], *, writing: bool = False) -> None:
    """With the change data feed on, its own columns cannot be the table's, nor (``writing``) be in data written to it.

    :raises HeadwaterError: ``DELTA_TABLE_ALREADY_CONTAINS_CDC_COLUMNS``; ``RESERVED_CDC_COLUMNS_ON_WRITE`` when
        writing.
    """
    if not properties.CHANGE_DATA_FEED.of(configuration):
        return
    taken = [name for name in schema.names if name.lower() in CHANGE_COLUMNS]
    if taken:
        condition = "RESERVED_CDC_COLUMNS_ON_WRITE" if writing else "DELTA_TABLE_ALREADY_CONTAINS_CDC_COLUMNS"
        raise HeadwaterError(condition, {"columns": ", ".join(taken)})


def check_row_tracking_names(schema: StructType, configuration: Mapping[str, str]) -> None:
    """The hidden columns of row tracking share no name with a column, in queries or in data files.

    :raises HeadwaterError: ``DELTA_ADDING_COLUMN_WITH_INTERNAL_NAME_FAILED``.
    """
    reserved = {name.lower() for name in reserved_names(configuration) if name is not None}
    for field in schema:
        if reserved & {field.name.lower(), field.physical_name.lower()}:
            raise HeadwaterError("DELTA_ADDING_COLUMN_WITH_INTERNAL_NAME_FAILED", {"columnName": field.name})


def check_writable(schema: StructType) -> None:
    """Refuse new data files for a table that could not have them: void columns are never in a file, and some shapes
    need them there.

    :raises HeadwaterError: ``DELTA_COMPLEX_TYPE_COLUMN_CONTAINS_NULL_TYPE`` for a void inside an array or map, at any
        depth;
        ``DELTA_CANNOT_WRITE_EMPTY_SCHEMA`` if the table or a struct has no field that is not void.
    """
    check_types(schema)
    for path, field in all_fields(schema):
        if any(in_collection and contains_void(kind) for kind, in_collection in parts(field.type)):
            raise HeadwaterError(
                "DELTA_COMPLEX_TYPE_COLUMN_CONTAINS_NULL_TYPE",
                {"column": format_name(path), "type": field.type.sql()},
            )
    if not schema.fields:
        raise HeadwaterError("DELTA_CANNOT_WRITE_EMPTY_SCHEMA.TABLE_NO_COLUMNS")
    if _is_hollow(schema):
        raise HeadwaterError("DELTA_CANNOT_WRITE_EMPTY_SCHEMA.TABLE_ALL_VOID_COLUMNS")
    for path, field in all_fields(schema):
        for kind, _ in parts(field.type):
            if isinstance(kind, StructType) and _is_hollow(kind):
                what = "STRUCT_ALL_VOID_FIELDS" if kind.fields else "STRUCT_NO_FIELDS"
                raise HeadwaterError(f"DELTA_CANNOT_WRITE_EMPTY_SCHEMA.{what}", {"columnPath": format_name(path)})


def _is_hollow(struct: StructType) -> bool:
    return all(_is_void(field.type) for field in struct)


def _is_void(kind: DataType) -> bool:
    return isinstance(kind, PrimitiveType) and kind.name == "void"


def _can_partition(kind: DataType) -> bool:
    return isinstance(kind, DecimalType) or (
        isinstance(kind, PrimitiveType) and kind.name in PRIMITIVES and kind.name not in ("void", "variant")
    )
