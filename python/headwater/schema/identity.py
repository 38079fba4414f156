"""Identity columns: values that the table generates.

Owns the ``delta.identity.*`` keys of a column and the arithmetic of the next value. Follows the protocol's chapter
"Identity Columns". Promise: a generated value is never one at or before the high-water mark, always start plus a whole
number of steps, and never outside a 64-bit integer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headwater.basics.errors import HeadwaterError
from headwater.protocol.column_metadata import (
    GENERATION_EXPRESSION,
    IDENTITY_ALLOW_EXPLICIT_INSERT,
    IDENTITY_HIGH_WATER_MARK,
    IDENTITY_START,
    IDENTITY_STEP,
)
from headwater.protocol.types import PrimitiveType, StructField, StructType
from headwater.schema.evolution import replace_field

_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class IdentityColumn:
    """A top-level identity column; ``high_water_mark`` is None while nothing was generated."""

    name: str
    start: int
    step: int
    high_water_mark: int | None
    allow_explicit_insert: bool

    @property
    def next_value(self) -> int:
        """The first value to generate next.

        :raises HeadwaterError: ``DELTA_IDENTITY_COLUMN_OVERFLOW`` if no 64-bit integer is left.
        """
        return self.value(0)

    def value(self, index: int) -> int:
        """The value of the ``index``-th row (from 0) of the next write.

        :raises HeadwaterError: as :attr:`next_value`.
        """
        steps = 0
        if self.high_water_mark is not None:
            # Floor division also takes a mark that a restore or an explicit insert left between two values.
            steps = max(0, (self.high_water_mark - self.start) // self.step + 1)
        result = self.start + (steps + index) * self.step
        if not _LOWEST <= result <= _HIGHEST:
            raise self.overflow()
        return result

    @property
    def values_left(self) -> int:
        """How many values there are from the next one on.

        :raises HeadwaterError: as :attr:`next_value`.
        """
        last = _HIGHEST if self.step > 0 else _LOWEST
        return (last - self.next_value) // self.step + 1

    def overflow(self) -> HeadwaterError:
        """The error for a row for which no value is left."""
        return HeadwaterError("DELTA_IDENTITY_COLUMN_OVERFLOW", {"columnName": self.name})

    def further(self, value: int) -> bool:
        """Whether a value lies beyond the high-water mark in the direction of the step."""
        if self.high_water_mark is None:
            return True
        return value > self.high_water_mark if self.step > 0 else value < self.high_water_mark


def is_identity(field: StructField) -> bool:
    return IDENTITY_START in field.metadata or IDENTITY_STEP in field.metadata


def identity_columns(schema: StructType) -> list[IdentityColumn]:
    """The identity columns in schema order.

    :raises HeadwaterError: ``DELTA_IDENTITY_COLUMN_INCONSISTENT_METADATA`` where keys are missing or a step is 0.
    """
    return [_parse(field) for field in schema if is_identity(field)]


def _parse(field: StructField) -> IdentityColumn:
    try:
        mark = field.metadata.get(IDENTITY_HIGH_WATER_MARK)
        column = IdentityColumn(
            field.name,
            int(field.metadata[IDENTITY_START]),
            int(field.metadata[IDENTITY_STEP]),
            None if mark is None else int(mark),
            str(field.metadata[IDENTITY_ALLOW_EXPLICIT_INSERT]).lower() == "true",
        )
    except (KeyError, ValueError, TypeError, OverflowError):
        column = None
    if column is None or column.step == 0:
        raise HeadwaterError("DELTA_IDENTITY_COLUMN_INCONSISTENT_METADATA", {"columnName": field.name})
    return column


def identity_metadata(start: int = 1, step: int = 1, *, allow_explicit_insert: bool = False) -> dict[str, Any]:
    """The keys of a new identity column.

    :raises HeadwaterError: ``DELTA_IDENTITY_COLUMNS_ILLEGAL_STEP`` if the step is 0.
    """
    if step == 0:
        raise HeadwaterError("DELTA_IDENTITY_COLUMNS_ILLEGAL_STEP")
    return {IDENTITY_START: start, IDENTITY_STEP: step, IDENTITY_ALLOW_EXPLICIT_INSERT: allow_explicit_insert}


def check_identity_columns(schema: StructType, partition_columns: Sequence[str]) -> None:
    """Refuse identity columns that cannot work.

    :raises HeadwaterError: ``DELTA_IDENTITY_COLUMNS_UNSUPPORTED_DATA_TYPE``,
        ``DELTA_IDENTITY_COLUMNS_PARTITION_NOT_SUPPORTED``, ``DELTA_IDENTITY_COLUMNS_WITH_GENERATED_EXPRESSION``,
        ``DELTA_IDENTITY_COLUMN_INCONSISTENT_METADATA``.
    """
    partitions = {name.lower() for name in partition_columns}
    identity_columns(schema)
    for field in filter(is_identity, schema):
        if field.type != PrimitiveType("long"):
            raise HeadwaterError(
                "DELTA_IDENTITY_COLUMNS_UNSUPPORTED_DATA_TYPE",
                {"columnName": field.name, "dataType": field.type.sql().upper()},
            )
        if field.name.lower() in partitions:
            raise HeadwaterError("DELTA_IDENTITY_COLUMNS_PARTITION_NOT_SUPPORTED", {"columnName": field.name})
        if GENERATION_EXPRESSION in field.metadata:
            raise HeadwaterError("DELTA_IDENTITY_COLUMNS_WITH_GENERATED_EXPRESSION", {"columnName": field.name})


def with_high_water_marks(schema: StructType, highest: Mapping[str, int]) -> StructType:
    """The schema after a write that generated values up to ``highest``, by column name; a mark never goes back.

    With a negative step "highest" is the smallest value generated.

    :raises HeadwaterError: ``DELTA_COLUMN_NOT_FOUND_IN_SCHEMA``.
    """
    for name, value in highest.items():

        def change(field: StructField, value: int = value) -> StructField:
            if not _parse(field).further(value):
                return field
            return replace(field, metadata={**field.metadata, IDENTITY_HIGH_WATER_MARK: value})

        schema = replace_field(schema, (name,), change)
    return schema


def with_marks_of(schema: StructType, marked: StructType) -> StructType:
    """The schema with the high-water marks of another one, where those are further. The same column may have another
    name there.
    """
    marks = {column.name: column.high_water_mark for column in identity_columns(marked)}
    by_physical_name = {field.physical_name: marks.get(field.name) for field in marked}
    own = ((field.name, by_physical_name.get(field.physical_name)) for field in filter(is_identity, schema))
    return with_high_water_marks(schema, {name: mark for name, mark in own if mark is not None})
