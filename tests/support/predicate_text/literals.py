"""Values of literals, from their text.

Owns the reading of numbers, dates and timestamps as Spark SQL writes them, and of casts between literals that lose
nothing. Promise: a value is exactly the one Spark would see, or ``None``.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from headwater.basics.time_zones import time_zone_of
from headwater.basics.times import days_of, microseconds_of, utc_offset
from headwater.protocol.types import DataType, DecimalType, PrimitiveType
from headwater.pruning.predicates import INTEGRAL_RANGES


@dataclass(frozen=True)
class Typed:
    """A value of a type, ``None`` for null. Dates are days, timestamps microseconds since the epoch."""

    type: DataType
    value: Any


NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


WHOLE_NUMBER = re.compile(r"-?\d{1,18}", re.ASCII)


def decimal_literal(text: str, target: DecimalType | None = None) -> Typed | None:
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return None
    scale = max(-exponent, 0)
    precision = max(len(digits) + max(exponent, 0), scale)
    if precision > 38:
        return None
    if target is not None and (scale > target.scale or precision - scale > target.precision - target.scale):
        return None
    return Typed(target or DecimalType(max(precision, 1), scale), value)


def floating_literal(text: str, target: DataType) -> Typed | None:
    if text not in ("NaN", "Infinity", "-Infinity") and not NUMBER.fullmatch(text):
        return None
    value = float(text)
    if target == PrimitiveType("float"):
        try:
            value = struct.unpack("f", struct.pack("f", value))[0]
        except OverflowError:
            return None
    return Typed(target, value)


def cast_literal(value: Typed, target: DataType) -> Typed | None:
    """A literal as another type, where that changes nothing about its value."""
    if value.type == target or value.value is None:
        return Typed(target, value.value)
    if not isinstance(value.type, DecimalType) and not (
        isinstance(value.type, PrimitiveType) and value.type.name in (*INTEGRAL_RANGES, "float")
    ):
        return None
    number = value.value
    if isinstance(target, DecimalType):
        return decimal_literal(str(number), target) if isinstance(number, int | Decimal) else None
    name = target.name if isinstance(target, PrimitiveType) else ""
    if name in INTEGRAL_RANGES and isinstance(number, int):
        limit = INTEGRAL_RANGES[name]
        return Typed(target, number) if -limit <= number < limit else None
    if name == "double" or (name == "float" and isinstance(number, int) and abs(number) <= 2**24):
        return Typed(target, float(number)) if not isinstance(number, float) or math.isfinite(number) else None
    return None


_DATE = re.compile(r"([+-]?\d{4,7})-(\d{2})-(\d{2})", re.ASCII)
_TIMESTAMP = re.compile(
    r"([+-]?\d{4,6}-\d{2}-\d{2})(?:[ T](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?)?(Z|[+-]\d{2}:\d{2})?", re.ASCII
)


def parse_date(text: str) -> int | None:
    """Days since the epoch."""
    match = _DATE.fullmatch(text)
    try:
        days = days_of(*(int(part) for part in match.groups())) if match else None
    except ValueError:
        return None
    return days if days is not None and -(2**31) <= days < 2**31 else None


def timestamp_micros(text: str, zone: str | None, with_zone: bool) -> int | None:
    """Microseconds since the epoch; for text without a zone those of ``zone``, which must then be known."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    day, hour, minute, second, fraction, offset = match.groups()
    if offset is not None and not with_zone:
        return None
    days = parse_date(day)
    if days is None or (offset or zone) is None:
        return None
    fraction_micros = int((fraction or "").ljust(6, "0"))
    try:
        local = microseconds_of(days, int(hour or 0), int(minute or 0), int(second or 0), fraction_micros)
        shift = utc_offset(time_zone_of(offset or zone or ""), local)
    except (ValueError, OverflowError, OSError):  # no such time, or no such zone here
        return None
    micros = local - shift // timedelta(microseconds=1)
    return micros if -(2**63) <= micros < 2**63 else None
