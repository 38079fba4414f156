"""Columns by path: walking a schema, and parsing and formatting column names.

Owns the two names of a column: the logical path that a user writes, and the physical path that data files and
statistics have. Follows the protocol's chapters "Column Mapping" and "Schema Serialization Format". Promise: every walk
is in schema order, depth first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from headwater.basics.errors import HeadwaterError
from headwater.protocol.types import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    as_nullable,
)

_PLAIN_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: A column's names from the schema's root to the column itself.
Path = tuple[str, ...]

#: The steps of a field path that go through an array or map.
ELEMENT, KEY, VALUE = "element", "key", "value"


class Leaf(NamedTuple):
    """A column that holds no further struct fields directly: a primitive, or a whole array or map."""

    path: Path
    physical_path: Path
    field: StructField

    @property
    def type(self) -> DataType:
        return self.field.type


def leaves(schema: StructType, prefix: Path = (), physical_prefix: Path = ()) -> Iterator[Leaf]:
    """Every leaf, in schema order. Structs are entered; an array or map is one leaf, whatever it holds."""
    for field in schema:
        path, physical = (*prefix, field.name), (*physical_prefix, field.physical_name)
        if isinstance(field.type, StructType):
            yield from leaves(field.type, path, physical)
        else:
            yield Leaf(path, physical, field)


def all_fields(schema: DataType, prefix: Path = ()) -> Iterator[tuple[Path, StructField]]:
    """Every struct field at any depth, parents first, with its field path (``element``, ``key``, ``value``
    through collections).
    """
    match schema:
        case StructType():
            for field in schema:
                path = (*prefix, field.name)
                yield path, field
                yield from all_fields(field.type, path)
        case ArrayType():
            yield from all_fields(schema.element, (*prefix, ELEMENT))
        case MapType():
            yield from all_fields(schema.key, (*prefix, KEY))
            yield from all_fields(schema.value, (*prefix, VALUE))


def map_fields(schema: StructType, change: Callable[[StructField, Path], StructField], prefix: Path = ()) -> StructType:
    """The schema with every struct field, at any depth, replaced by ``change(field, path)``; children are changed
    first.
    """
    return StructType(
        tuple(change(replace(f, type=_map_type(f.type, change, (*prefix, f.name))), (*prefix, f.name)) for f in schema)
    )


def _map_type(kind: DataType, change: Callable[[StructField, Path], StructField], prefix: Path) -> DataType:
    if isinstance(kind, StructType):
        return map_fields(kind, change, prefix)
    return with_parts(kind, lambda part, step: _map_type(part, change, (*prefix, step)))


def with_parts(kind: DataType, change: Callable[[DataType, str], DataType]) -> DataType:
    """An array or map with ``change(part, step)`` of what it holds; another type as it is."""
    match kind:
        case ArrayType():
            return replace(kind, element=change(kind.element, ELEMENT))
        case MapType():
            return replace(kind, key=change(kind.key, KEY), value=change(kind.value, VALUE))
    return kind


def as_value(kind: DataType) -> DataType:
    """The type as its values have it: what a table's columns declare beside it, also of fields within, is left out."""
    column = StructField("value", as_nullable(kind))
    return map_fields(StructType((column,)), lambda field, _: replace(field, metadata={})).fields[0].type


def nullable_in_structs(schema: StructType) -> StructType:
    """The schema with every field nullable that is not within an array or map: its NOT NULL can be checked row by
    row.
    """
    return StructType(
        tuple(
            replace(f, nullable=True, type=nullable_in_structs(f.type) if isinstance(f.type, StructType) else f.type)
            for f in schema
        )
    )


def find_path(schema: StructType, path: Sequence[str]) -> StructField | None:
    """The field at a logical path, case-insensitively; None if there is none.

    A path goes through an array by ``element`` and through a map by ``key`` or ``value``.
    """
    kind: DataType = schema
    field: StructField | None = None
    for name in path:
        inner = _step(kind, name)
        if inner is None:
            return None
        field, kind = (inner, inner.type) if isinstance(inner, StructField) else (field, inner)
    return field if field is not None and kind is field.type else None


def type_at(kind: DataType, path: Sequence[str]) -> DataType | None:
    """The type at a logical path of a schema or type; None if there is none. Unlike :func:`find_path`, the path may end
    in ``element``, ``key`` or ``value``.
    """
    for name in path:
        inner = _step(kind, name)
        if inner is None:
            return None
        kind = inner.type if isinstance(inner, StructField) else inner
    return kind


def is_part(schema: StructType, path: Sequence[str]) -> bool:
    """Whether a path is that of an array's elements, or of a map's keys or values."""
    return bool(path) and find_path(schema, path) is None and type_at(schema, path) is not None


def parts(kind: DataType, in_collection: bool = False) -> Iterator[tuple[DataType, bool]]:
    """The type and the types within its arrays and maps, and whether each is within one.

    Struct fields are not entered.
    """
    yield kind, in_collection
    match kind:
        case ArrayType():
            yield from parts(kind.element, True)
        case MapType():
            yield from parts(kind.key, True)
            yield from parts(kind.value, True)


def _step(kind: DataType, name: str) -> StructField | DataType | None:
    folded = name.lower()
    match kind:
        case StructType():
            return kind.find(name)
        case ArrayType() if folded == ELEMENT:
            return kind.element
        case MapType() if folded == KEY:
            return kind.key
        case MapType() if folded == VALUE:
            return kind.value
    return None


def parse_name(text: str) -> Path:
    """The path of a dotted column name, where backticks quote a part: ``a.`b.c` `` is ``("a", "b.c")``.

    :raises HeadwaterError: ``DELTA_COLUMN_NOT_FOUND_IN_SCHEMA`` if the text is no column name.
    """
    names = parse_name_list(text)
    if len(names) != 1:
        raise _no_name(text)
    return names[0]


def parse_name_list(text: str) -> list[Path]:
    """The paths of a comma-separated list of dotted column names; an empty text is the empty list.

    :raises HeadwaterError: ``DELTA_COLUMN_NOT_FOUND_IN_SCHEMA`` if a part is empty or a backtick is not closed.
    """
    if not text.strip():
        return []
    paths: list[Path] = []
    parts: list[str] = []
    position = 0
    while True:
        part, position = _name_part(text, position)
        parts.append(part)
        separator = text[position : position + 1]
        if separator != ".":
            paths.append(tuple(parts))
            parts = []
        if not separator:
            return paths
        position += 1


def _name_part(text: str, position: int) -> tuple[str, int]:
    """One part of a name from ``position``, and where the separator after it stands."""
    while position < len(text) and text[position].isspace():
        position += 1
    if text[position : position + 1] == "`":
        part, position = _quoted_part(text, position + 1)
        while position < len(text) and text[position].isspace():
            position += 1
        if position < len(text) and text[position] not in ".,":
            raise _no_name(text)
    else:
        end = position
        while end < len(text) and text[end] not in ".,":
            end += 1
        part, position = text[position:end].strip(), end
    if not part:
        raise _no_name(text)
    return part, position


def _quoted_part(text: str, position: int) -> tuple[str, int]:
    part = ""
    while True:
        end = text.find("`", position)
        if end < 0:
            raise _no_name(text)
        part += text[position:end]
        if text[end + 1 : end + 2] != "`":
            return part, end + 1
        part, position = part + "`", end + 2


def _no_name(text: str) -> HeadwaterError:
    return HeadwaterError("DELTA_COLUMN_NOT_FOUND_IN_SCHEMA", {"columnName": text, "schema": "(not a column name)"})


def format_name(path: Sequence[str]) -> str:
    """A path as a user writes it, quoted where needed."""
    return ".".join(part if part.replace("_", "a").isalnum() else quote([part]) for part in path)


def quote(path: Sequence[str]) -> str:
    """A path as Spark SQL, every part in backticks."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in path)


def sql_name(name: str) -> str:
    """A name as Spark SQL: in backticks unless it is a plain word, which Spark reads without."""
    return name if _PLAIN_WORD.fullmatch(name) else quote([name])
