"""The differences of two schemas, in lines for people.

Owns the wording for errors like ``DELTA_CREATE_TABLE_SCHEME_MISMATCH``, where a declared schema is not the table's, and
``DELTA_METADATA_MISMATCH``. Promise: no lines if and only if both describe the same columns, types and nullability;
comments and other metadata do not count, nor does case.
"""

from __future__ import annotations

from headwater.protocol.columns import Path, format_name
from headwater.protocol.types import DataType, StructField, StructType
from headwater.schema.walk import held


def describe_difference(declared: StructType, existing: StructType) -> list[str]:
    """One line per disagreement, in the existing schema's order, then what is only declared, then a changed order
    of columns.
    """
    return _structs(declared, existing, ())


def _structs(declared: StructType, existing: StructType, path: Path) -> list[str]:
    lines: list[str] = []
    for field in existing:
        other = declared.find(field.name)
        if other is None:
            lines.append(f"Column {_name(path, field)} ({field.type.sql()}) of the table is missing.")
        else:
            lines += _fields(other, field, (*path, field.name))
    for field in declared:
        if existing.find(field.name) is None:
            lines.append(f"Column {_name(path, field)} ({field.type.sql()}) is not in the table.")
    if not lines and [n.lower() for n in declared.names] != [n.lower() for n in existing.names]:
        where = f" of {format_name(path)}" if path else ""
        lines.append(
            f"The order{where} differs: {', '.join(declared.names)}; the table has {', '.join(existing.names)}."
        )
    return lines


def _fields(declared: StructField, existing: StructField, path: Path) -> list[str]:
    lines: list[str] = []
    if declared.nullable != existing.nullable:
        lines.append(
            f"Column {format_name(path)} is {_nullability(declared.nullable)}; "
            f"in the table it is {_nullability(existing.nullable)}."
        )
    return lines + _types(declared.type, existing.type, path)


def _types(declared: DataType, existing: DataType, path: Path) -> list[str]:
    if isinstance(declared, StructType) and isinstance(existing, StructType):
        return _structs(declared, existing, path)
    lines, both = [], held(declared, existing)
    for step, one, two, may, may_there in both:
        lines += [*_nulls(may, may_there, f"{step}s of {format_name(path)}"), *_types(one, two, (*path, step))]
    if both or declared == existing:
        return lines
    return [f"Column {format_name(path)} is {declared.sql()}; in the table it is {existing.sql()}."]


def _nulls(declared: bool, existing: bool, what: str) -> list[str]:
    if declared == existing:
        return []
    return [f"The {what} are {_nullability(declared)}; in the table they are {_nullability(existing)}."]


def _nullability(nullable: bool) -> str:
    return "nullable" if nullable else "NOT NULL"


def _name(path: Path, field: StructField) -> str:
    return format_name((*path, field.name))
