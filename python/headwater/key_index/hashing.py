"""The hash of a key.

Owns which types can be indexed, and the 44 bits that stand for a key in an index: the upper ones of XXH64 with Spark's
seed over the key's columns, as Spark's function ``xxhash64`` computes it. Spark computes it for the rows of files and
sources (cast to :func:`type_of_kind`), this module for the literals of predicates; a property test compares them.

A value's kind is what it is hashed as. Two values of a kind are equal if, and only if, they are hashed as the same
bytes. A column whose type changed to another kind needs new entries; one that was widened among whole numbers does not.
A key with a null equals none and has no entry. Of dates before 1582 and times before 1900, sessions may read different
values from one file, by the calendar that they choose: such a key is looked up in no index (:data:`EARLIEST`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Context, Decimal

import xxhash

from headwater.protocol.column_metadata import DECLARED_TYPE
from headwater.protocol.types import INTEGERS, DataType, DecimalType, PrimitiveType, StructField
from headwater.pruning.predicates import Value

#: Spark's seed.
_SEED = 42
#: How many bits of the hash are left out: 44 bits take up less space, and collide in one of 350,000 lookups of a key
#: among 50 million.
SHIFT = 20
#: The precision that decimals are hashed with: Spark hashes those of less than 19 digits otherwise.
DECIMAL_PRECISION = 38
_LONG = 1 << 64
#: The first values, as numbers, that all sessions read alike.
EARLIEST = {"date": -141_427, "timestamp": -2_208_988_800_000_000}
#: What stands for bytes that are no text: they are not known here.
_NO_TEXT = re.compile("[\N{REPLACEMENT CHARACTER}\ud800-\udfff]")
_EXACT = Context(prec=80)


def kind_of(column: StructField) -> str | None:
    """What the values of a column are hashed as; None if it cannot be indexed, as equal values may differ in bytes."""
    match column.type:
        case DecimalType(scale=scale):
            return f"decimal({scale})"
        case PrimitiveType("string"):
            plain = DECLARED_TYPE not in column.metadata and "__COLLATIONS" not in column.metadata
            return "string" if plain else None
        case PrimitiveType("date" | "timestamp" as name):
            return name
        case PrimitiveType(name) if name in INTEGERS:
            return "integer"
    return None


def hashes_alike(kind: DataType, column: StructField) -> bool:
    """Whether values of a type are hashed as those of a column: they have its type, or both are whole numbers."""
    return kind == column.type or (_is_whole(kind) and _is_whole(column.type))


def _is_whole(kind: DataType) -> bool:
    return isinstance(kind, PrimitiveType) and kind.name in INTEGERS


def hash_of(kinds: Sequence[str], values: Sequence[Value]) -> int | None:
    """The hash of a key; None if one of its values is null.

    :param values: a literal's value for each of the kinds, as :mod:`headwater.pruning.predicates` has it.
    """
    found = _SEED
    for kind, value in zip(kinds, values, strict=True):
        if value is None:
            return None
        found = xxhash.xxh64_intdigest(_bytes(kind, value), found)
    return found >> SHIFT


def is_hashed(kind: str, value: Value) -> bool:
    """Whether a value can be looked up."""
    if kind == "string":
        return isinstance(value, str) and not _NO_TEXT.search(value)
    return kind not in EARLIEST or (isinstance(value, int) and value >= EARLIEST[kind])


def _bytes(kind: str, value: Value) -> bytes:
    if kind == "string":
        return str(value).encode()
    if kind.startswith("decimal"):
        scale = int(kind[len("decimal(") : -1])
        unscaled = int(_EXACT.scaleb(Decimal(str(value)), scale))
        # As Java's BigInteger: as few bytes as hold it and its sign.
        bits = (~unscaled if unscaled < 0 else unscaled).bit_length()
        return unscaled.to_bytes(bits // 8 + 1, "big", signed=True)
    assert isinstance(value, int)
    return (value % _LONG).to_bytes(8, "little")


def type_of_kind(kind: str) -> DataType:
    """The type that a kind's values are cast to before Spark hashes them; for dates and times, their number."""
    if kind == "string":
        return PrimitiveType("string")
    if kind.startswith("decimal"):
        return DecimalType(DECIMAL_PRECISION, int(kind[len("decimal(") : -1]))
    return PrimitiveType("long")
