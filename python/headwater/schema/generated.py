"""Generated columns: values that are computed from other columns of the row.

Owns ``delta.generationExpression``. Follows the protocol's chapter "Generated Columns". Promise: a writer that fills
what the data lacks from :func:`generated_columns` and enforces :func:`generated_checks` on what it has, honours the
chapter.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from headwater.protocol.column_metadata import GENERATION_EXPRESSION
from headwater.protocol.columns import quote
from headwater.protocol.types import DataType, StructType
from headwater.schema.constraints import GENERATED, Check


class GeneratedColumn(NamedTuple):
    """A top-level column and its expression, Spark SQL over the row's other columns."""

    name: str
    type: DataType
    sql: str


def generated_columns(schema: StructType) -> list[GeneratedColumn]:
    """The generated columns in schema order."""
    return [
        GeneratedColumn(f.name, f.type, str(f.metadata[GENERATION_EXPRESSION]))
        for f in schema
        if GENERATION_EXPRESSION in f.metadata
    ]


def generated_checks(schema: StructType, provided: Iterable[str] | None = None) -> list[Check]:
    """The condition each generated column's value must meet; only for the columns the data provides, where those
    are given.
    """
    wanted = None if provided is None else {name.lower() for name in provided}
    return [
        Check(column.name, column.sql, GENERATED, f"{quote((column.name,))} <=> CAST((", f") AS {column.type.sql()})")
        for column in generated_columns(schema)
        if wanted is None or column.name.lower() in wanted
    ]
