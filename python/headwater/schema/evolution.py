"""Schema evolution: the schema after a write that may add to it, and after ALTER TABLE ADD COLUMNS.

Owns mergeSchema's rule, the check whether data fits a table as it is, and the edits of single columns. Follows the
protocol's chapters "Type Widening", "Void Type" and "Schema Serialization Format". Promise: a column that exists keeps
its name, position, nullability and metadata; what is added is nullable, at the end unless asked otherwise; data files
written before stay readable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from headwater.basics.errors import HeadwaterError
from headwater.protocol import properties
from headwater.protocol.column_metadata import CURRENT_DEFAULT, DECLARED_TYPE, EXISTS_DEFAULT
from headwater.protocol.columns import ELEMENT, KEY, VALUE, Path, find_path, format_name, is_part, map_fields
from headwater.protocol.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType, is_nested
from headwater.schema.checks import check_duplicates
from headwater.schema.declared import can_relax
from headwater.schema.walk import held, with_held
from headwater.schema.widening import can_store, can_widen, with_change

_VOID = PrimitiveType("void")
#: What to do about a change of type that ALTER TABLE refuses.
_WIDEN = (
    f"This type is wider. Run ALTER TABLE … SET TBLPROPERTIES ('{properties.TYPE_WIDENING.name}' = 'true'), then this "
    "statement again."
)
_REWRITE = (
    "ALTER TABLE changes a type only to a wider one. Read the table with the column cast, and write it with mode "
    "overwrite and the option overwriteSchema."
)
_GROW = (
    "To add new columns to the table, write with the option mergeSchema = true or INSERT ... WITH SCHEMA EVOLUTION, or "
    "set spark.databricks.delta.schema.autoMerge.enabled to true; to replace its schema, overwrite with the option "
    "overwriteSchema = true. Otherwise select and cast the data to the table's columns."
)
_OTHER_CASE = (
    "This session distinguishes names by case (spark.sql.caseSensitive = true), but a table cannot have columns whose "
    "names differ in case alone. Rename the data's columns as in the table, or set spark.sql.caseSensitive to false."
)
#: Metadata of a DataFrame's column that must not become a new table column's: it speaks of another table.
_OWN_METADATA = ("delta.", CURRENT_DEFAULT, EXISTS_DEFAULT)


def merge_schemas(
    table: StructType, data: StructType, *, allow_widening: bool = False, keep_existing_type: bool = False
) -> StructType:
    """The table's schema grown so that it holds ``data``'s columns, as ``mergeSchema`` does.

    Columns match ignoring case. A data type the column can hold without loss leaves it as it is.

    :param allow_widening: the table has type widening on: a column takes the wider type and records the change.
    :param keep_existing_type: another primitive type is no error; the column keeps its own, and the writer casts.
    :raises HeadwaterError: ``DELTA_DUPLICATE_COLUMNS_FOUND``, ``DELTA_FAILED_TO_MERGE_FIELDS``.
    """
    check_duplicates(data, "READ_SCHEMA")
    return _Merge(allow_widening, keep_existing_type).structs(table, data, ())


def widened_columns(table: StructType, grown: StructType, above: Path = ()) -> list[Path]:
    """The columns and fields of structs that have a wider type, themselves or within an array or map.

    :param grown: the table's schema with the columns of data.
    """
    found: list[Path] = []
    for field in table:
        path, new = (*above, field.name), grown.find(field.name)
        if new is None:
            continue
        if isinstance(field.type, StructType) and isinstance(new.type, StructType):
            found += widened_columns(field.type, new.type, path)
        elif _is_widened(field.type, new.type):
            found.append(path)
    return found


def _is_widened(old: DataType, new: DataType) -> bool:
    if isinstance(old, StructType) and isinstance(new, StructType):
        return bool(widened_columns(old, new))
    both = held(old, new)
    return any(_is_widened(each.one, each.two) for each in both) if both else old not in (new, _VOID)


class _Merge(NamedTuple):
    """One merge's settings."""

    allow_widening: bool
    keep_existing_type: bool

    def structs(self, table: StructType, data: StructType, path: Path) -> StructType:
        merged = [self.field(field, data.find(field.name), (*path, field.name)) for field in table]
        merged += [_as_new(field) for field in data if table.find(field.name) is None]
        return StructType(tuple(merged))

    def field(self, table: StructField, data: StructField | None, path: Path) -> StructField:
        if data is None:
            return table
        changes: list[tuple[DataType, DataType, Path]] = []
        kind = self.types(table.type, data.type, path, (), changes)
        metadata = table.metadata
        for old, new, field_path in changes:
            metadata = with_change(metadata, old, new, field_path)
        return replace(table, type=kind, metadata=metadata)

    def types(
        self,
        table: DataType,
        data: DataType,
        path: Path,
        field_path: Path,
        changes: list[tuple[DataType, DataType, Path]],
    ) -> DataType:
        """The merged type. ``field_path`` leads from the nearest struct field here; type changes are put into
        ``changes``.
        """

        def inner(table: DataType, data: DataType, step: str) -> DataType:
            return self.types(table, data, (*path, step), (*field_path, step), changes)

        if isinstance(table, StructType) and isinstance(data, StructType):
            return self.structs(table, data, path)
        if held(table, data):
            return with_held(table, data, inner)
        if can_store(data, table):
            return table
        if table == _VOID:
            return _nullable(data)
        if self.allow_widening and can_widen(table, data):
            changes.append((table, data, field_path))
            return data
        if self.keep_existing_type and not is_nested(table) and (not is_nested(data) or _is_string(table)):
            return table
        raise HeadwaterError(
            "DELTA_FAILED_TO_MERGE_FIELDS",
            {
                "column": format_name(path),
                "tableType": table.sql(),
                "dataType": data.sql(),
                "hint": self._hint(table, data),
            },
        )

    def _hint(self, table: DataType, data: DataType) -> str:
        if is_nested(table) or is_nested(data):
            return "No cast makes one of the other. Give the column another name in the data."
        if can_widen(table, data):
            return (
                f"Cast the data to {table.sql()}, or run ALTER TABLE … SET TBLPROPERTIES "
                f"('{properties.TYPE_WIDENING.name}' = 'true'), so that the column takes the wider type."
            )
        return f"Cast the data to {table.sql()}."


def schema_mismatch(table: StructType, data: StructType) -> list[str]:
    """Why data cannot be appended without a change of the schema: a line for each column that is new, or whose type is
    neither equal nor castable without loss. Empty where it can.

    Columns the data lacks and nulls in NOT NULL columns are the writer's to fill or refuse, not a mismatch of schemas.
    """
    return _mismatch(table, data, ())


def unknown_columns_error(table: StructType, data: StructType) -> HeadwaterError | None:
    """The error for columns, at any depth, that data brings and the table lacks; None if it lacks none of them."""
    return schema_mismatch_error(table, data) if _lacks_columns(table, data) else None


def _lacks_columns(table: DataType, data: DataType) -> bool:
    if isinstance(table, StructType) and isinstance(data, StructType):
        columns = [(table.find(field.name), field) for field in data]
        return any(mine is None or _lacks_columns(mine.type, field.type) for mine, field in columns)
    return any(_lacks_columns(each.one, each.two) for each in held(table, data))


def other_case_error(table: StructType, data: StructType) -> HeadwaterError | None:
    """The error for columns, at any depth, whose names differ from the table's in case alone, in a session that tells
    such names apart; None if no name does. A table cannot have both.
    """
    found = _in_other_case(table, data, ())
    if not found:
        return None
    spelled = [f"- The data has {format_name(given)}, the table has {format_name(own)}" for given, own in found]
    return HeadwaterError("DELTA_METADATA_MISMATCH", {"differences": "\n".join(spelled), "hint": _OTHER_CASE})


def _in_other_case(table: DataType, data: DataType, above: Path) -> list[tuple[Path, Path]]:
    """Fields of the data and of the table whose names differ in case alone: both paths of each."""
    found: list[tuple[Path, Path]] = []
    if isinstance(table, StructType) and isinstance(data, StructType):
        for field in data:
            own = table.find(field.name)
            if own is not None and own.name != field.name:
                found.append(((*above, field.name), (*above, own.name)))
            elif own is not None:
                found += _in_other_case(own.type, field.type, (*above, own.name))
    for each in held(table, data):
        found += _in_other_case(each.one, each.two, (*above, each.step))
    return found


def schema_mismatch_error(table: StructType, data: StructType) -> HeadwaterError:
    """``DELTA_METADATA_MISMATCH`` with the report and how to let the schema grow."""
    return HeadwaterError(
        "DELTA_METADATA_MISMATCH",
        {
            "differences": "\n".join(f"- {line}" for line in schema_mismatch(table, data)),
            "hint": f"{_GROW}\nTable schema: {table.sql()}\nData schema: {data.sql()}",
        },
    )


def partition_mismatch_error(given: Sequence[str], existing: Sequence[str]) -> HeadwaterError:
    """``DELTA_METADATA_MISMATCH`` of a write that names other partition columns than the table's."""
    return HeadwaterError(
        "DELTA_METADATA_MISMATCH",
        {
            "differences": f"- The write is partitioned by ({', '.join(given)}), "
            f"the table by ({', '.join(existing) or 'none'})",
            "hint": "Leave out partitionBy to use the table's columns, or set overwriteSchema=true with mode "
            "'overwrite' to change them.",
        },
    )


def _mismatch(table: DataType, data: DataType, path: Path) -> list[str]:
    if isinstance(table, StructType) and isinstance(data, StructType):
        lines: list[str] = []
        for field in data:
            target = table.find(field.name)
            name = (*path, field.name)
            if target is None:
                lines.append(f"{format_name(name)} ({field.type.sql()}) is not a column of the table")
            else:
                lines += _mismatch(target.type, field.type, name)
        return lines
    if both := held(table, data):
        return [line for each in both for line in _mismatch(each.one, each.two, (*path, each.step))]
    if can_store(data, table):
        return []
    return [f"{format_name(path)} is {data.sql()}, the table's column is {table.sql()}"]


def lacking_fields(table: DataType, data: DataType, above: Path = ()) -> list[Path]:
    """The fields of the table's structs, at any depth, that the data's structs lack. Columns are none."""
    found: list[Path] = []
    if isinstance(table, StructType) and isinstance(data, StructType):
        for field in table:
            given, path = data.find(field.name), (*above, field.name)
            if given is not None:
                found += lacking_fields(field.type, given.type, path)
            elif above:
                found.append(path)
    for each in held(table, data):
        found += lacking_fields(each.one, each.two, (*above, each.step))
    return found


class After(NamedTuple):
    """A new column's position: behind this sibling."""

    name: str


FIRST = "first"


class NewColumn(NamedTuple):
    """A column to add: its logical path, ``element``/``key``/``value`` leading through collections; ``position``
    None is the end; ``declared_type`` is the CHAR or VARCHAR that Spark stores as a string.
    """

    path: Path
    type: DataType
    nullable: bool = True
    comment: str | None = None
    position: After | str | None = None
    declared_type: str | None = None


def add_columns(schema: StructType, columns: Sequence[NewColumn | tuple[Any, ...]]) -> StructType:
    """The schema with columns added one after another, so that a later one may name an earlier.

    :raises HeadwaterError: ``DELTA_ADD_COLUMN_EXISTS``, ``DELTA_ADD_COLUMN_STRUCT_NOT_FOUND``,
        ``DELTA_ADD_COLUMN_PARENT_NOT_STRUCT``, ``DELTA_COLUMN_NOT_FOUND_IN_SCHEMA`` for the column to stand after,
        ``DELTA_OPERATION_NOT_ALLOWED`` for NOT NULL: rows that exist could only have null there.
    """
    for each in columns:
        schema = _add_column(schema, NewColumn(*each))
    return schema


def _add_column(schema: StructType, column: NewColumn) -> StructType:
    *parent, name = column.path
    if not column.nullable:
        raise HeadwaterError(
            "DELTA_OPERATION_NOT_ALLOWED",
            {"operation": f"ADD COLUMNS with NOT NULL ({format_name(column.path)})", "hint": "Add it as nullable."},
        )

    def insert(kind: DataType) -> DataType:
        if not isinstance(kind, StructType):
            raise HeadwaterError(
                "DELTA_ADD_COLUMN_PARENT_NOT_STRUCT",
                {"columnName": format_name(column.path), "parent": format_name(parent), "type": kind.sql()},
            )
        if kind.find(name) is not None:
            raise HeadwaterError("DELTA_ADD_COLUMN_EXISTS", {"columnName": format_name(column.path)})
        metadata = {} if column.comment is None else {"comment": column.comment}
        if column.declared_type is not None:
            metadata[DECLARED_TYPE] = column.declared_type
        fields = list(kind.fields)
        fields.insert(_position(kind, column), StructField(name, column.type, True, metadata))
        return StructType(tuple(fields))

    changed = _change_at(schema, parent, insert, column.path)
    assert isinstance(changed, StructType)
    return changed


def _position(struct: StructType, column: NewColumn) -> int:
    if column.position is None:
        return len(struct)
    if column.position == FIRST:
        return 0
    # A plain ("after", name) pair is accepted beside After(name).
    sibling = column.position[-1]
    found = struct.find(sibling)
    if found is None:
        raise HeadwaterError("DELTA_COLUMN_NOT_FOUND_IN_SCHEMA", {"columnName": sibling, "schema": struct.sql()})
    return struct.fields.index(found) + 1


def _change_at(
    kind: DataType, path: Sequence[str], change: Callable[[DataType], DataType], whole: Sequence[str]
) -> DataType:
    """The type with ``change`` applied to the type at ``path`` within it."""
    if not path:
        return change(kind)
    step, rest = path[0], path[1:]
    match kind, step.lower():
        case StructType(), _:
            found = kind.find(step)
            if found is not None:
                replaced = replace(found, type=_change_at(found.type, rest, change, whole))
                return StructType(tuple(replaced if f is found else f for f in kind))
        case ArrayType(), "element":
            return replace(kind, element=_change_at(kind.element, rest, change, whole))
        case MapType(), "key":
            return replace(kind, key=_change_at(kind.key, rest, change, whole))
        case MapType(), "value":
            return replace(kind, value=_change_at(kind.value, rest, change, whole))
        case _:
            raise HeadwaterError(
                "DELTA_ADD_COLUMN_PARENT_NOT_STRUCT",
                {"columnName": format_name(whole), "parent": format_name(whole[: -len(path)]), "type": kind.sql()},
            )
    raise HeadwaterError(
        "DELTA_ADD_COLUMN_STRUCT_NOT_FOUND",
        {"columnName": format_name(whole), "parent": format_name(whole[:-1]), "schema": kind.sql()},
    )


def replace_field(schema: StructType, path: Sequence[str], change: Callable[[StructField], StructField]) -> StructType:
    """The schema with one field, found by its logical path ignoring case, replaced.

    :raises HeadwaterError: ``DELTA_COLUMN_NOT_FOUND_IN_SCHEMA``.
    """
    target = find_path(schema, path)
    if target is None:
        raise HeadwaterError(
            "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA", {"columnName": format_name(path), "schema": schema.sql()}
        )
    folded = tuple(part.lower() for part in path)
    return map_fields(schema, lambda f, at: change(f) if tuple(p.lower() for p in at) == folded else f)


def set_comment(schema: StructType, path: Sequence[str], comment: str | None) -> StructType:
    """The schema with a column's comment set, or removed where None.

    :raises HeadwaterError: ``DELTA_COLUMN_NOT_FOUND_IN_SCHEMA``; ``DELTA_UNSUPPORTED_COMMENT_MAP_ARRAY`` for the
        elements of an array, and the keys and values of a map.
    """
    if is_part(schema, path):
        raise HeadwaterError("DELTA_UNSUPPORTED_COMMENT_MAP_ARRAY", {"fieldPath": format_name(path)})

    def change(field: StructField) -> StructField:
        metadata = {key: value for key, value in field.metadata.items() if key != "comment"}
        if comment is not None:
            metadata["comment"] = comment
        return replace(field, metadata=metadata)

    return replace_field(schema, path, change)


def change_type(
    schema: StructType, path: Sequence[str], new: DataType, *, allow_widening: bool, shown: Sequence[str] = ()
) -> StructType:
    """The schema after ALTER COLUMN TYPE: every supported widening, any type for a void column, and longer texts for
    ``char`` and ``varchar``.

    :param path: may end in ``element``, ``key`` or ``value``.
    :param shown: what errors show before the path.
    :raises HeadwaterError: ``DELTA_COLUMN_NOT_FOUND_IN_SCHEMA``, ``DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP``.
    """
    field_path: list[str] = []
    owner = tuple(path)
    while len(owner) > 1 and find_path(schema, owner) is None and owner[-1].lower() in (ELEMENT, KEY, VALUE):
        field_path.insert(0, owner[-1].lower())
        owner = owner[:-1]

    def change(field: StructField) -> StructField:
        metadata = field.metadata

        def at(old: DataType) -> DataType:
            nonlocal metadata
            if old == new:
                return old
            if can_relax(old, new):
                return new
            if old != _VOID and not (allow_widening and can_widen(old, new)):
                raise HeadwaterError(
                    "DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP",
                    {
                        "fieldPath": format_name((*shown, *path)),
                        "oldField": old.sql(),
                        "newField": new.sql(),
                        "hint": _REWRITE if not can_widen(old, new) else _WIDEN,
                    },
                )
            metadata = with_change(metadata, old, new, field_path)
            return new

        kind = _change_at(field.type, field_path, at, path)
        return replace(field, type=kind, metadata=metadata)

    return replace_field(schema, owner, change)


def _as_new(field: StructField) -> StructField:
    metadata = {key: value for key, value in field.metadata.items() if not key.startswith(_OWN_METADATA)}
    return StructField(field.name, _nullable(field.type), True, metadata)


def _nullable(kind: DataType) -> DataType:
    """The type with everything inside nullable and free of another table's metadata."""
    match kind:
        case StructType():
            return StructType(tuple(_as_new(f) for f in kind))
        case ArrayType():
            return ArrayType(_nullable(kind.element), True)
        case MapType():
            return MapType(_nullable(kind.key), _nullable(kind.value), True)
    return kind


def _is_string(kind: DataType) -> bool:
    """Whether a column holds text, to which every value can be cast."""
    return isinstance(kind, PrimitiveType) and kind.name.startswith("string")
