"""Identity columns of rows that a job writes: their values, and the high-water mark after it.

Owns the expression that numbers rows, and reading from the statistics of the files which number was the last. Follows
the protocol's chapter "Identity Columns". Promise: the next value of a column is beyond each that a file has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from headwater.bridge.messages.callbacks import WrittenFile
from headwater.protocol.types import PrimitiveType, StructType
from headwater.schema.identity import IdentityColumn, identity_columns, with_high_water_marks
from headwater.sql.composing import Cast, Expression, Number, Text, call, infix, when

#: No job writes so many rows.
_MOST_ROWS = 1 << 50


def identities_to_give(schema: StructType, provided: Iterable[str]) -> list[IdentityColumn]:
    """The identity columns whose values a write gives to rows that have columns of the table."""
    have = {name.lower() for name in provided}
    return [column for column in identity_columns(schema) if column.name.lower() not in have]


def identity_values(column: IdentityColumn) -> Expression:
    """The next values of an identity column, one a row, in order. A row for which none is left ends the statement with
    ``DELTA_IDENTITY_COLUMN_OVERFLOW``, whether or not Spark's arithmetic would.
    """
    number = call("monotonically_increasing_id")
    steps = infix("*", Number(column.step, is_long=True), number)
    value = infix("+", Number(column.next_value, is_long=True), steps)
    if column.values_left > _MOST_ROWS:
        return value
    none_left = column.overflow()
    error = call("raise_row_error", *map(Text, (none_left.condition, none_left.sql_state, none_left.text)))
    return when(infix("<", number, Number(column.values_left, is_long=True)), value, Cast(error, PrimitiveType("long")))


def advanced_identities(
    schema: StructType,
    identities: Sequence[IdentityColumn],
    leaves: Sequence[tuple[tuple[str, ...], Any]],
    files: Sequence[WrittenFile],
) -> StructType | None:
    """A table's schema after a job gave values to identity columns; None if it gave none.

    :param leaves: the columns that the files' statistics are of, in order.
    """
    if not identities or not files:
        return None
    positions = {path: i for i, (path, _) in enumerate(leaves)}
    marks = {}
    for column in identities:
        stored = schema.find(column.name)
        assert stored is not None
        ascends = column.step > 0
        bounds = [file.statistics[positions[(stored.physical_name,)]][1 if ascends else 0] for file in files]
        known = [bound for bound in bounds if isinstance(bound, int)]
        assert len(known) == len(bounds)
        marks[column.name] = max(known) if ascends else min(known)
    return with_high_water_marks(schema, marks)


def after_rows(schema: StructType, provided: Iterable[str], rows: int) -> StructType:
    """A table's schema as if a job had given values to the identity columns that its rows do not have.

    :raises HeadwaterError: ``DELTA_IDENTITY_COLUMN_OVERFLOW`` if there are not so many.
    """
    given = identities_to_give(schema, provided) if rows else []
    return with_high_water_marks(schema, {column.name: column.value(rows - 1) for column in given})
