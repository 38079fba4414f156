"""One schema for the columns of data files that were written separately.

Owns the rule by which CONVERT TO DELTA takes files together: columns match ignoring case, at any depth, and keep the
name and place that they have in the first file; what a file lacks is null there; a byte, a short and an integer go
together, as files hold them alike; any other difference of types is refused. Owns the check whether a file can be read
by a schema that is given. Promise: whatever a file is accepted with, Spark's reader reads it so.
"""

from __future__ import annotations

from dataclasses import replace

from headwater.protocol.columns import Path, all_fields, format_name
from headwater.protocol.types import INTEGERS, DataType, PrimitiveType, StructField, StructType
from headwater.schema.walk import held, with_held
from headwater.schema.widening import can_widen

#: Integers that a file holds in 32 bits.
_SMALL = INTEGERS[:3]
_TEXT, _BYTES = PrimitiveType("string"), PrimitiveType("binary")


def union(schema: StructType, file: StructType) -> StructType:
    """The columns of files so far with those of one more.

    :raises ValueError: they do not go together; says which column.
    """
    check_distinct(file)
    return _structs(schema, file, ())


def check_distinct(schema: StructType) -> None:
    """Refuse two columns of a struct whose names differ by case alone.

    :raises ValueError: there are some.
    """
    seen: set[tuple[Path, str]] = set()
    for path, field in all_fields(schema):
        column = path[:-1], field.name.lower()
        if column in seen:
            raise ValueError(f"it has several columns {format_name(path)}")
        seen.add(column)


def check_readable(schema: StructType, file: StructType) -> None:
    """Whether a file can be read by a schema. Columns that it has beyond it are not read.

    :raises ValueError: it cannot; says which column.
    """
    check_distinct(file)
    _readable(schema, file, ())


def _structs(schema: StructType, file: StructType, path: Path) -> StructType:
    fields = [_field(field, file.find(field.name), (*path, field.name)) for field in schema]
    return StructType((*fields, *(field for field in file if schema.find(field.name) is None)))


def _field(field: StructField, other: StructField | None, path: Path) -> StructField:
    return field if other is None else replace(field, type=_types(field.type, other.type, path))


def _types(kind: DataType, other: DataType, path: Path) -> DataType:
    match kind, other:
        case StructType(), StructType():
            return _structs(kind, other, path)
        case PrimitiveType(one), PrimitiveType(two) if one in _SMALL and two in _SMALL:
            return max(kind, other, key=lambda each: _SMALL.index(each.name))
    if kind == other or held(kind, other):
        return with_held(kind, other, lambda one, two, step: _types(one, two, (*path, step)))
    raise ValueError(_difference(path, other, kind, "in the files before it"))


def _readable(kind: DataType, file: DataType, path: Path) -> None:
    if isinstance(kind, StructType) and isinstance(file, StructType):
        for field in kind:
            if (stored := file.find(field.name)) is not None:
                _readable(field.type, stored.type, (*path, field.name))
        return
    both = held(kind, file)
    for each in both:
        _readable(each.one, each.two, (*path, each.step))
    # Some writers do not mark texts as such.
    if not both and kind != file and not can_widen(file, kind) and (file, kind) != (_BYTES, _TEXT):
        raise ValueError(_difference(path, file, kind, "in the table"))


def _difference(path: Path, file: DataType, other: DataType, where: str) -> str:
    return f"its column {format_name(path)} is {file.sql()}, and {other.sql()} {where}"
