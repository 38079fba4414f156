"""The schema as Spark sees it.

Owns the step from the log's schema to that of a relation: the protocol's own metadata keys stay behind, so that a
DataFrame read from one table does not carry them into another.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headwater.basics.errors import HeadwaterError
from headwater.protocol.column_metadata import CURRENT_DEFAULT, EXISTS_DEFAULT
from headwater.protocol.columns import map_fields
from headwater.protocol.types import DataType, StructField, StructType, schema_string
from headwater.schema.walk import held


def for_reading(schema: StructType) -> StructType:
    """The schema of a relation over the table."""
    return map_fields(schema, lambda field, _: replace(field, metadata=_visible(field)))


def _visible(field: StructField) -> dict[str, Any]:
    kept = {key: value for key, value in field.metadata.items() if not key.startswith("delta.")}
    if CURRENT_DEFAULT in kept:
        # Spark wants both; rows from before the column have null in it, whatever its default for new rows.
        kept[EXISTS_DEFAULT] = "NULL"
    return kept


def changed(then: StructType, now: StructType) -> bool:
    """Whether a query analysed with one schema cannot be run with the other: a column is gone, its type has changed, it
    may have nulls now, or it was renamed and another column has its name. Columns added later do not matter. If no
    column has its physical name, the column of its logical name replaces it, as in a table that was created again.
    """
    return not _reads(then, now)


def columns_changed(table: str, then: StructType, now: StructType) -> HeadwaterError:
    """The error that says so; if both have the same columns and types, it shows what else is declared of them."""
    shown = schema_string if then.sql() == now.sql() else StructType.sql
    return HeadwaterError(
        "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS", {"tableName": table, "then": shown(then), "now": shown(now)}
    )


def _reads(then: DataType, now: DataType) -> bool:
    if isinstance(then, StructType) and isinstance(now, StructType):
        fields = {field.name: field for field in now}
        names = {field.physical_name: field.name for field in now}
        return all(
            field.name in fields
            and names.get(field.physical_name, field.name) == field.name
            and _reads_field(field, fields[field.name])
            for field in then
        )
    both = held(then, now)
    return all(e.two_nulls <= e.one_nulls and _reads(e.one, e.two) for e in both) if both else then == now


def _reads_field(then: StructField, now: StructField) -> bool:
    return now.nullable <= then.nullable and _reads(then.type, now.type)
