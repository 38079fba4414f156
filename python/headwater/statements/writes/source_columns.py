"""With which columns COPY INTO reads files.

Owns the schema of the read. What Spark infers of files depends on which of them come together, so it decides only about
columns that the table does not have. Promises:

1. A column or nested field that the table has is read with its type, whatever was inferred for it.
2. In formats that name the fields of each row, columns that were not found are read too: a row without fields is a row.
3. Of a column that several files have, rows get one type, and nested fields are matched by name.
4. The value of a folder's name is read with its column's type, never as what all values seen at once look like.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import chain

from headwater.basics.errors import HeadwaterError
from headwater.protocol.column_metadata import CURRENT_DEFAULT
from headwater.protocol.columns import ELEMENT, KEY, VALUE, Path, format_name, map_fields
from headwater.protocol.partition_paths import values_of_directory
from headwater.protocol.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType, as_nullable
from headwater.schema.generated import generated_columns
from headwater.schema.identity import identity_columns
from headwater.schema.widening import can_widen
from headwater.statements.writes.source_files import SourceFile

_STRING, _VOID = PrimitiveType("string"), PrimitiveType("void")
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass
class FolderGroup:
    """Files whose folders have the same columns.

    :param base: the folder above those of the columns, below the source; empty for the source itself.
    :param values: by column, in the order of the folders, one for each file; None for a null.
    """

    base: str
    values: dict[str, list[str | None]]
    files: list[SourceFile] = field(default_factory=list)


def by_folders(files: Iterable[SourceFile]) -> list[FolderGroup]:
    """The files by the columns that their folders' names have. A reader of Spark takes one group at a time."""
    found: dict[tuple[str, ...], FolderGroup] = {}
    for file in files:
        folder = file.below.rpartition("/")[0]
        values = values_of_directory(folder)
        base = _above_columns(folder) if values else ""
        key = (base, *(name for name, _ in values))
        group = found.setdefault(key, FolderGroup(base, {name: [] for name, _ in values}))
        group.files.append(file)
        for name, value in values:
            group.values[name].append(value)
    return list(found.values())


def _above_columns(folder: str) -> str:
    parts = folder.split("/")
    end = max(at for at, part in enumerate(parts) if "=" in part)
    while end > 0 and "=" in parts[end - 1]:
        end -= 1
    return "/".join(parts[:end])


def values_of_folders(files: Iterable[SourceFile]) -> dict[str, list[str | None]]:
    """The values of each column of the files' folders, by its name in lower case."""
    found: dict[str, list[str | None]] = {}
    for group in by_folders(files):
        for name, values in group.values.items():
            found.setdefault(name.lower(), []).extend(values)
    return found


def folder_columns(
    group: FolderGroup, table: StructType, values: Mapping[str, Sequence[str | None]] | None
) -> tuple[StructField, ...]:
    """The columns of a group's folders, with the types of the table's columns.

    :param values: of the folders of all groups (:func:`values_of_folders`). A new column has the type that they look
        like; without them, it is a STRING.
    """
    known = _plain(table)

    def kind(name: str) -> DataType:
        column = known.find(name)
        if column is not None:
            return column.type
        return _STRING if values is None else _kind(values[name.lower()])

    return tuple(StructField(name, kind(name)) for name in group.values)


def _kind(values: Sequence[str | None]) -> DataType:
    """A type that has each value as it is written."""
    there = [value for value in values if value is not None]
    if there and all(map(_INTEGER.fullmatch, there)):
        return PrimitiveType("integer" if all(-(2**31) <= int(value) < 2**31 for value in there) else "long")
    if there and all(map(_is_day, there)):
        return PrimitiveType("date")
    return _STRING


def _is_day(value: str) -> bool:
    try:
        return _DAY.fullmatch(value) is not None and date.fromisoformat(value) is not None
    except ValueError:
        return False


def of_rows(found: StructType, table: StructType, corrupt: str) -> StructType:
    """The columns of files whose rows name their fields (JSON, XML).

    :param corrupt: the name of the column of rows that cannot be read.
    """
    given = {column.name for column in computed_columns(table)}
    wanted = tuple(c for c in table if c.name not in given or _is_corrupt(c, corrupt))
    return _with_missing(of_lines(found, table), StructType(wanted))


def of_lines(found: StructType, table: StructType, corrupt: str | None = None) -> StructType:
    """The columns of files whose values have only a place in their row (CSV), in their order.

    :param corrupt: the name of the column of rows that cannot be read, if the reader may fill it.
    """
    known = _plain(table)
    columns = StructType(tuple(_as_in(column, known) for column in found))
    if corrupt is None or (column := known.find(corrupt)) is None or not _is_corrupt(column, corrupt):
        return columns
    return _with_missing(columns, StructType((column,)))


def computed_columns(table: StructType) -> list[StructField]:
    """The columns in which a missing value is not a null: those with defaults, generated and identity columns."""
    names = {c.name for c in generated_columns(table)} | {c.name for c in identity_columns(table)}
    return [column for column in table if column.name in names or CURRENT_DEFAULT in column.metadata]


def _is_corrupt(column: StructField, name: str) -> bool:
    return column.name.lower() == name.lower() and column.type == _STRING


def _plain(table: StructType) -> StructType:
    """The names and types of a table's columns, without what else is declared of them."""
    plain = as_nullable(map_fields(table, lambda column, _: StructField(column.name, column.type)))
    assert isinstance(plain, StructType)
    return plain


def _with_missing(found: StructType, wanted: StructType) -> StructType:
    """Columns, and those of others that are not among them."""
    there = {column.name.lower() for column in found}
    return StructType((*found, *(column for column in _plain(wanted) if column.name.lower() not in there)))


def _as_in(column: StructField, known: StructType) -> StructField:
    wanted = known.find(column.name)
    return column if wanted is None else StructField(column.name, _type_in(column.type, wanted.type))


def _type_in(found: DataType, wanted: DataType) -> DataType:
    """The type of a table's column, with the nested fields that were found and that it does not have."""
    match wanted:
        case StructType() if isinstance(found, StructType):
            return _with_missing(StructType(tuple(_as_in(inner, wanted) for inner in found)), wanted)
        case ArrayType():
            element = found.element if isinstance(found, ArrayType) else found  # XML: a list of one looks like a value
            return ArrayType(_type_in(element, wanted.element))
        case MapType() if isinstance(found, MapType):
            return MapType(wanted.key, _type_in(found.value, wanted.value))
        case MapType() if isinstance(found, StructType):
            value = wanted.value
            for inner in found:
                value = _type_in(inner.type, value)
            return MapType(wanted.key, value)
    return wanted


# -- Columns of several files ------------------------------------------------------------------------------------------


def merged_columns(found: Sequence[StructType], table: StructType, *, widens: bool) -> StructType:
    """The columns of files that are read apart. Each, and each nested field, has a type to which the others widen.

    Values of a column that the table has are cast to its type, so any will do.

    :param widens: whether the table's columns take wider types. Then one must be wider than the others that do.
    :raises HeadwaterError: ``HEADWATER_COPY_TYPES_DIFFER``.
    """
    if len(found) == 1:
        return found[0]
    return _merged_structs(found, table, (), widens)


def _merged_structs(found: Sequence[StructType], table: StructType, above: Path, widens: bool) -> StructType:
    fields: dict[str, list[StructField]] = {}
    for each in chain.from_iterable(found):
        fields.setdefault(each.name.lower(), []).append(each)
    merged = []
    for alike in fields.values():
        name, known = alike[0].name, table.find(alike[0].name)
        kinds = [field.type for field in alike]
        kind = _merged_types(kinds, None if known is None else known.type, (*above, name), widens)
        merged.append(StructField(name, kind))
    return StructType(tuple(merged))


def _merged_types(kinds: Sequence[DataType], known: DataType | None, path: Path, widens: bool) -> DataType:
    """:param known: the type in the table."""
    structs = [kind for kind in kinds if isinstance(kind, StructType)]
    arrays = [kind for kind in kinds if isinstance(kind, ArrayType)]
    maps = [kind for kind in kinds if isinstance(kind, MapType)]
    if len(structs) == len(kinds):
        return _merged_structs(structs, known if isinstance(known, StructType) else StructType(()), path, widens)
    if len(arrays) == len(kinds):
        of_table = known.element if isinstance(known, ArrayType) else None
        return ArrayType(_merged_types([kind.element for kind in arrays], of_table, (*path, ELEMENT), widens))
    if len(maps) == len(kinds):
        key, value = (known.key, known.value) if isinstance(known, MapType) else (None, None)
        return MapType(
            _merged_types([kind.key for kind in maps], key, (*path, KEY), widens),
            _merged_types([kind.value for kind in maps], value, (*path, VALUE), widens),
        )
    some = list(dict.fromkeys(kind for kind in kinds if kind != _VOID)) or [_VOID]
    if known is not None:
        some = [kind for kind in some if widens and can_widen(known, kind)] or some[:1]
    for wide in some:
        if all(kind == wide or can_widen(kind, wide) for kind in some):
            return wide
    types = ", ".join(kind.sql() for kind in some)
    raise HeadwaterError("HEADWATER_COPY_TYPES_DIFFER", {"column": format_name(path), "types": types})
