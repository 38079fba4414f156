"""The schema as Spark sees it.

Owns the step from the log's schema to that of a relation: the protocol's own metadata keys stay behind, so that a
DataFrame read from one table does not carry them into another.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headwater.schema.columns import map_fields
from headwater.schema.constraints import CURRENT_DEFAULT, EXISTS_DEFAULT
from headwater.schema.types import StructField, StructType


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
    """Whether a query analysed with one schema cannot be run with the other: names, types, nullability or physical
    names differ.
    """
    return _shape(then) != _shape(now)


def _shape(schema: StructType) -> Any:
    return map_fields(schema, lambda field, _: replace(field, metadata={"physical": field.physical_name})).to_json()
