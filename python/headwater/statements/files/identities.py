"""Identity columns of rows that a job writes: their values, and the high-water mark after it.

Owns the expression that numbers rows, and reading from the statistics of the files which number was the last. Follows
the protocol's chapter "Identity Columns". Promise: the next value of a column is beyond each that a file has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headwater.bridge.messages.callbacks import WrittenFile
from headwater.protocol.types import StructType
from headwater.schema.identity import IdentityColumn, with_high_water_marks
from headwater.sql.composing import Expression, Number, call, infix


def identity_values(column: IdentityColumn) -> Expression:
    """The next values of an identity column, one a row, in order."""
    steps = infix("*", Number(column.step, is_long=True), call("monotonically_increasing_id"))
    return infix("+", Number(column.next_value, is_long=True), steps)


def advanced_identities(
    schema: StructType,
    identities: Sequence[IdentityColumn],
    leaves: Sequence[tuple[tuple[str, ...], Any]],
    files: Sequence[WrittenFile],
) -> StructType | None:
    """A table's schema after a job gave values to identity columns; None where it gave none.

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
