"""Single values as bytes: the bounds of columns and of partitions in Iceberg's manifests.

Owns the forms of the chapter "Binary single-value serialization" of Iceberg's specification, a column at a time.
"""

from __future__ import annotations

import math
import struct
from decimal import Context
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.protocol.types import DataType, DecimalType, PrimitiveType

#: Type names of the protocol, and the little-endian number that holds a value.
_NUMBERS = {
    "byte": "<i4",
    "short": "<i4",
    "integer": "<i4",
    "date": "<i4",
    "long": "<i8",
    "timestamp": "<i8",
    "timestamp_ntz": "<i8",
    "float": "<f4",
    "double": "<f8",
}
#: Enough digits for any decimal.
_EXACT = Context(prec=76)
_FORMATS = {"<i4": "<i", "<i8": "<q", "<f4": "<f", "<f8": "<d"}


def serialized(values: pa.ChunkedArray, kind: DataType) -> list[bytes | None]:
    """Each value of a column as bytes; None for null, and for NaN, which is no bound.

    :param values: of the Arrow type of ``kind``.
    """
    match kind:
        case DecimalType(_, scale):
            return [None if value is None else _unscaled(value, scale) for value in values.to_pylist()]
        case PrimitiveType("string" | "binary"):
            return list(values.cast(pa.binary()).to_pylist())
        case PrimitiveType("boolean"):
            return [None if value is None else bytes([value]) for value in values.to_pylist()]
        case PrimitiveType(name) if name in _NUMBERS:
            return _numbers(values, _NUMBERS[name])
    return [None] * len(values)


def _numbers(values: pa.ChunkedArray, form: str) -> list[bytes | None]:
    dtype = np.dtype(form)
    if dtype.kind == "i":
        if not pa.types.is_integer(values.type):
            values = values.cast(pa.int32() if pa.types.is_date32(values.type) else pa.int64())
        valid = values.is_valid().to_numpy()
    else:
        valid = pc.fill_null(pc.invert(pc.is_nan(values)), False).to_numpy()
    data = pc.fill_null(values, 0).to_numpy().astype(dtype).tobytes()
    width = dtype.itemsize
    return [data[at * width : (at + 1) * width] if known else None for at, known in enumerate(valid.tolist())]


def _unscaled(value: Any, scale: int) -> bytes:
    """A decimal's digits as the shortest big-endian number in two's complement."""
    number = int(value.scaleb(scale, _EXACT))
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)


def comparable(data: bytes, kind: DataType) -> Any:
    """What orders two values that are bytes."""
    match kind:
        case DecimalType():
            return int.from_bytes(data, "big", signed=True)
        case PrimitiveType(name) if name in _NUMBERS:
            (number,) = struct.unpack(_FORMATS[_NUMBERS[name]], data)
            return number
    return data


def is_nan(value: Any) -> bool:
    """Whether a value of a partition is no number."""
    return isinstance(value, float) and math.isnan(value)
