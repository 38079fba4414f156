"""Keys in queries: their hashes, and their values as Python compares them.

Promise: Spark computes what :func:`headwater.key_index.hashing.hash_of` does, under all settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from headwater.key_index.hashing import EARLIEST, SHIFT, kind_of, type_of_kind
from headwater.protocol.types import DataType, DecimalType, PrimitiveType, StructField
from headwater.sql.composing import Cast, Expression, Number, call, every, infix, when


def hash_expression(columns: Sequence[StructField], values: Sequence[Expression]) -> Expression:
    """The hash of a key in a query, as :func:`headwater.key_index.hashing.hash_of` computes it.

    :param values: of the columns' types.
    """
    hashed = [_canonical(column, value) for column, value in zip(columns, values, strict=True)]
    return call("shiftrightunsigned", call("xxhash64", *hashed), Number(SHIFT))


def hash_of_known(columns: Sequence[StructField], values: Sequence[Expression]) -> Expression:
    """The same, but null if a value cannot be looked up (:data:`~headwater.key_index.hashing.EARLIEST`)."""
    hashed = hash_expression(columns, values)
    is_known = every(*(_is_hashed(column, value) for column, value in zip(columns, values, strict=True)))
    return hashed if is_known is None else when(is_known, hashed)


def _is_hashed(column: StructField, value: Expression) -> Expression | None:
    """Whether a value can be looked up; None if any can."""
    earliest = EARLIEST.get(kind_of(column) or "")
    return None if earliest is None else infix(">=", _canonical(column, value), Number(earliest, is_long=True))


def as_noted(kind: DataType, value: Expression) -> Expression:
    """A value of a key as :class:`headwater.transaction.keyed.KeyReads` has it, and as JSON holds it."""
    if isinstance(kind, DecimalType):
        return Cast(value, PrimitiveType("string"))
    assert isinstance(kind, PrimitiveType)
    function = {"date": "unix_date", "timestamp": "unix_micros"}.get(kind.name)
    return value if function is None else call(function, value)


def is_text(key: Iterable[Any]) -> bool:
    """Whether the values of a key are here as they are: bytes that are no text come from Spark as another string, with
    another order, which several of them share.
    """
    return not any(isinstance(value, str) and "\N{REPLACEMENT CHARACTER}" in value for value in key)


def _canonical(column: StructField, value: Expression) -> Expression:
    kind = kind_of(column)
    assert kind is not None
    if kind == "string":
        return value
    if kind in EARLIEST:
        value = call("unix_date" if kind == "date" else "unix_micros", value)
    return Cast(value, type_of_kind(kind))
