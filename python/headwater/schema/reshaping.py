"""Renaming, dropping, moving and replacing columns, and changing their nullability: pure edits of a schema.

Owns what ALTER TABLE does to columns that exist. Follows the protocol's chapter "Column Mapping". Promise: a column
that stays keeps its id and physical name, so that data files are read as before; a column that goes takes them along.
Paths are logical, ignore case, and lead through collections by ``element``, ``key`` and ``value``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from headwater.basics.errors import HeadwaterError
from headwater.protocol import properties
from headwater.protocol.column_metadata import DECLARED_TYPE
from headwater.protocol.columns import (
    ELEMENT,
    KEY,
    VALUE,
    Path,
    all_fields,
    find_path,
    format_name,
    is_part,
    type_at,
    with_parts,
)
from headwater.protocol.types import DataType, StructField, StructType
from headwater.schema.evolution import After, NewColumn, add_columns, change_type
from headwater.schema.walk import held, with_held

#: The fields of the struct that has a column, and that column; returns the fields as they will be.
_Change = Callable[[tuple[StructField, ...], StructField], Sequence[StructField]]


def rename_column(schema: StructType, path: Sequence[str], name: str) -> StructType:
    """The schema with a column under another name.

    :raises HeadwaterError: ``DELTA_COLUMN_NOT_FOUND_IN_SCHEMA``, ``DELTA_UNSUPPORTED_FIELD_UPDATE_NON_STRUCT``,
        ``DELTA_ADD_COLUMN_EXISTS`` if a sibling has the name.
    """

    def change(fields: tuple[StructField, ...], column: StructField) -> Sequence[StructField]:
        if any(field is not column and field.name.lower() == name.lower() for field in fields):
            raise HeadwaterError("DELTA_ADD_COLUMN_EXISTS", {"columnName": format_name((*path[:-1], name))})
        return [replace(field, name=name) if field is column else field for field in fields]

    return _change_siblings(schema, path, change, "renamed")


def drop_column(schema: StructType, path: Sequence[str]) -> StructType:
    """The schema without a column.

    :raises HeadwaterError: ``DELTA_COLUMN_NOT_FOUND_IN_SCHEMA``, ``DELTA_UNSUPPORTED_FIELD_UPDATE_NON_STRUCT``,
        ``DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA`` if nothing would be left beside it.
    """

    def change(fields: tuple[StructField, ...], column: StructField) -> Sequence[StructField]:
        if len(fields) == 1:
            raise last_column(path)
        return [field for field in fields if field is not column]

    return _change_siblings(schema, path, change, "dropped")


def last_column(path: Sequence[str]) -> HeadwaterError:
    """``DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA``: without the column there would be nothing to store."""
    owner = f"the struct {format_name(path[:-1])}" if len(path) > 1 else "the table"
    return HeadwaterError("DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA", {"columnName": format_name(path), "owner": owner})


def move_column(schema: StructType, path: Sequence[str], position: After | None) -> StructType:
    """The schema with a column behind a sibling, or first among its siblings where ``position`` is None. Behind itself
    it stays where it is.

    :raises HeadwaterError: ``DELTA_COLUMN_NOT_FOUND_IN_SCHEMA`` for the column and for the sibling,
        ``DELTA_UNSUPPORTED_FIELD_UPDATE_NON_STRUCT``.
    """

    def change(fields: tuple[StructField, ...], column: StructField) -> Sequence[StructField]:
        others = [field for field in fields if field is not column]
        if position is None:
            return [column, *others]
        if position.name.lower() == column.name.lower():
            return fields
        for place, field in enumerate(others):
            if field.name.lower() == position.name.lower():
                return [*others[: place + 1], column, *others[place + 1 :]]
        raise not_found(schema, (*path[:-1], position.name))

    return _change_siblings(schema, path, change, "moved")


def set_nullable(schema: StructType, path: Sequence[str], nullable: bool) -> StructType:
    """The schema with a column that may be null, or may not.

    :raises HeadwaterError: ``DELTA_COLUMN_NOT_FOUND_IN_SCHEMA``, ``DELTA_UNSUPPORTED_FIELD_UPDATE_NON_STRUCT``.
    """

    def change(fields: tuple[StructField, ...], column: StructField) -> Sequence[StructField]:
        return [replace(field, nullable=nullable) if field is column else field for field in fields]

    return _change_siblings(schema, path, change, "declared NOT NULL or nullable")


def replace_columns(
    schema: StructType, columns: Sequence[NewColumn], *, may_drop: bool, allow_widening: bool
) -> StructType:
    """The schema after REPLACE COLUMNS: exactly ``columns``, in their order. A column that the schema has already, by
    name, stays the same column; it takes the new type, comment and nullability.

    :param may_drop: whether columns, and fields of structs, may go.
    :raises HeadwaterError: ``DELTA_UNSUPPORTED_ALTER_TABLE_REPLACE_COL_OP`` for columns that would go and may not,
        or types that may not change, and those of :func:`~headwater.schema.evolution.add_columns`.
    """
    added = add_columns(StructType(()), columns)
    dropped: list[Path] = []
    replaced = _Replacement(schema, allow_widening, dropped).structs(schema, added, ())
    if dropped and not may_drop:
        raise HeadwaterError(
            "DELTA_UNSUPPORTED_ALTER_TABLE_REPLACE_COL_OP",
            {
                "reason": f"they would drop {', '.join(map(format_name, dropped))}, which a table without column "
                "mapping cannot do. Name them in the statement, or enable column mapping with ALTER TABLE ... SET "
                f"TBLPROPERTIES ('{properties.COLUMN_MAPPING_MODE.name}' = 'name')."
            },
        )
    return replaced


class _Replacement:
    """One REPLACE COLUMNS; notes in ``dropped`` the paths of columns that go."""

    def __init__(self, schema: StructType, allow_widening: bool, dropped: list[Path]) -> None:
        self.schema = schema
        self.allow_widening = allow_widening
        self.dropped = dropped

    def structs(self, old: StructType, new: StructType, path: Path) -> StructType:
        self.dropped += [(*path, field.name) for field in old if new.find(field.name) is None]
        fields = []
        for field in new:
            found = old.find(field.name)
            fields.append(field if found is None else self.field(found, field, (*path, found.name)))
        return StructType(tuple(fields))

    def field(self, old: StructField, new: StructField, path: Path) -> StructField:
        described = ("comment", DECLARED_TYPE)
        metadata = {key: value for key, value in old.metadata.items() if key != DECLARED_TYPE}
        metadata |= {key: value for key, value in new.metadata.items() if key in described}
        column = StructField(old.name, old.type, new.nullable, metadata)
        for inner, kind in _primitives(old.type, new.type):
            at = (old.name, *inner)
            try:
                changed = change_type(
                    StructType((column,)), at, kind, allow_widening=self.allow_widening, shown=path[:-1]
                )
            except HeadwaterError as error:
                raise HeadwaterError("DELTA_UNSUPPORTED_ALTER_TABLE_REPLACE_COL_OP", {"reason": error.text}) from None
            column = changed.fields[0]
        return replace(column, type=self.types(column.type, new.type, path))

    def types(self, old: DataType, new: DataType, path: Path) -> DataType:
        if isinstance(old, StructType) and isinstance(new, StructType):
            return self.structs(old, new, path)
        return with_held(old, new, lambda one, two, step: self.types(one, two, (*path, step)))


def _primitives(old: DataType, new: DataType, path: Path = ()) -> list[tuple[Path, DataType]]:
    """The parts of a column's type that are another type now, structs apart, each with the path to it."""
    if isinstance(old, StructType) and isinstance(new, StructType):
        return []
    if both := held(old, new):
        return [found for each in both for found in _primitives(each.one, each.two, (*path, each.step))]
    return [] if old == new else [(path, new)]


def without(schema: StructType, paths: Collection[Sequence[str]]) -> StructType:
    """The schema without columns, and without structs that would be empty: what an expression that uses none of the
    columns resolves over. A path may lead into a collection, which then goes whole.
    """
    for path in paths:
        owner = tuple(path)
        while owner and find_path(schema, owner) is None:
            owner = owner[:-1]
        while owner and (parent := _siblings(schema, owner[:-1])) is not None and len(parent) == 1 and len(owner) > 1:
            owner = owner[:-1]
        while owner and owner[-1].lower() in (ELEMENT, KEY, VALUE) and find_path(schema, owner) is None:
            owner = owner[:-1]
        if owner and len(_siblings(schema, owner[:-1]) or ()) > 1:
            schema = drop_column(schema, owner)
        elif owner:
            return StructType(())
    return schema


def _siblings(schema: StructType, owner: Sequence[str]) -> StructType | None:
    kind = type_at(schema, owner)
    return kind if isinstance(kind, StructType) else None


def _change_siblings(schema: StructType, path: Sequence[str], change: _Change, done: str) -> StructType:
    if find_path(schema, path) is None:
        if is_part(schema, path):
            raise HeadwaterError(
                "DELTA_UNSUPPORTED_FIELD_UPDATE_NON_STRUCT", {"columnName": format_name(path), "change": done}
            )
        raise not_found(schema, path)
    changed = _at_struct(schema, path[:-1], lambda fields: tuple(change(fields, _named(fields, path[-1]))))
    assert isinstance(changed, StructType)
    return changed


def _named(fields: tuple[StructField, ...], name: str) -> StructField:
    return next(field for field in fields if field.name.lower() == name.lower())


def _at_struct(
    kind: DataType, path: Sequence[str], change: Callable[[tuple[StructField, ...]], tuple[StructField, ...]]
) -> DataType:
    """The type with the fields of the struct at ``path``, which is there, changed."""
    if not path:
        assert isinstance(kind, StructType)
        return StructType(change(kind.fields))
    step, rest = path[0], path[1:]
    if isinstance(kind, StructType):
        found = kind.find(step)
        assert found is not None
        inner = replace(found, type=_at_struct(found.type, rest, change))
        return StructType(tuple(inner if field is found else field for field in kind))
    return with_parts(kind, lambda part, name: _at_struct(part, rest, change) if name == step.lower() else part)


def not_found(schema: StructType, path: Sequence[str]) -> HeadwaterError:
    """``DELTA_COLUMN_NOT_FOUND_IN_SCHEMA``."""
    return HeadwaterError("DELTA_COLUMN_NOT_FOUND_IN_SCHEMA", {"columnName": format_name(path), "schema": schema.sql()})


def follow_rename(path: Sequence[str], renamed: Sequence[str], name: str) -> Path:
    """A path after the column ``renamed`` got another name: itself, its fields, and other columns."""
    folded = [part.lower() for part in path[: len(renamed)]]
    if folded != [part.lower() for part in renamed]:
        return tuple(path)
    return (*path[: len(renamed) - 1], name, *path[len(renamed) :])


def is_within(path: Sequence[str], column: Sequence[str]) -> bool:
    """Whether a path is a column's or that of a field in it."""
    return [part.lower() for part in path[: len(column)]] == [part.lower() for part in column]


def paths_of(schema: StructType) -> list[Path]:
    """The path of every column and field, parents first."""
    return [path for path, _ in all_fields(schema)]
