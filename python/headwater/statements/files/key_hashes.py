"""The hash of a key in a query.

Promise: Spark computes what :func:`headwater.key_index.hashing.hash_of` does, under all settings.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.key_index.hashing import SHIFT, kind_of, type_of_kind
from headwater.protocol.types import StructField
from headwater.sql.composing import Cast, Expression, Number, call


def hash_expression(columns: Sequence[StructField], values: Sequence[Expression]) -> Expression:
    """The hash of a key in a query, as :func:`headwater.key_index.hashing.hash_of` computes it.

    :param values: of the columns' types.
    """
    hashed = [_canonical(column, value) for column, value in zip(columns, values, strict=True)]
    return call("shiftrightunsigned", call("xxhash64", *hashed), Number(SHIFT))


def _canonical(column: StructField, value: Expression) -> Expression:
    kind = kind_of(column)
    assert kind is not None
    if kind == "string":
        return value
    if kind in ("date", "timestamp"):
        value = call("unix_date" if kind == "date" else "unix_micros", value)
    return Cast(value, type_of_kind(kind))
