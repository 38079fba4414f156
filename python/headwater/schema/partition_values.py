"""Partition values as text, and the text as values.

Owns the forms of the protocol's chapter "Partition Value Serialization", for one value and for an Arrow column of
them. Promise: what :func:`serialize` writes, :func:`parse` reads back as the same value; an empty text and null are
both null. Directory names are ``headwater.schema.partition_paths``' business.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone, tzinfo
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import HeadwaterError
from headwater.schema.types import DataType, DecimalType, PrimitiveType

_INTEGER_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_EPOCH = datetime(1970, 1, 1)
_MICROSECONDS_A_DAY = 24 * 3600 * 1_000_000
_DATE = r"([+-]?\d{1,10})-(\d{1,2})-(\d{1,2})"
_DATE_ONLY = re.compile(rf"\s*{_DATE}(?:[T ].*)?\s*")
_TIMESTAMP = re.compile(
    rf"\s*{_DATE}(?:[T ](\d{{1,2}}):(\d{{1,2}})(?::(\d{{1,2}})(?:\.(\d{{0,9}}))?)?)?\s*([A-Za-z+-].*?)?\s*"
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")
_TRUE = frozenset({"true", "t", "yes", "y", "1"})
_FALSE = frozenset({"false", "f", "no", "n", "0"})
_WIDE = Context(prec=80)


def serialize(value: Any, kind: DataType) -> str | None:
    """The text of a value in ``add.partitionValues``; None for null and, as the protocol has it, for an empty string.

    :param value: what Arrow's ``as_py`` gives for the type: int, float, Decimal, bool, str, bytes, date, datetime. A
        timestamp without zone counts as UTC; it is written in UTC with six digits of fraction.
    :raises HeadwaterError: ``DELTA_INVALID_PARTITION_COLUMN_TYPE``; ``DELTA_FAILED_CAST_PARTITION_VALUE`` for bytes
        that are not UTF-8, which this form would lose.
    """
    if value is None:
        return None
    if isinstance(kind, DecimalType):
        return format(_fit(Decimal(value), kind), "f")
    match kind:
        case PrimitiveType("string"):
            return str(value) or None
        case PrimitiveType("byte" | "short" | "integer" | "long"):
            return str(int(value))
        case PrimitiveType("float" | "double" as name):
            return _java_floating(float(value), np.float32 if name == "float" else np.float64)
        case PrimitiveType("boolean"):
            return "true" if value else "false"
        case PrimitiveType("date"):
            return value.isoformat()[:10]
        case PrimitiveType("timestamp"):
            utc = value.astimezone(timezone.utc) if value.tzinfo else value
            return utc.replace(tzinfo=None).isoformat("T", "microseconds") + "Z"
        case PrimitiveType("timestamp_ntz"):
            local = value.replace(tzinfo=None).isoformat(" ", "microseconds")
            # Without the zeros at the end, as other writers have it: one value should have one text.
            return local.rstrip("0").rstrip(".") if value.microsecond else local[:19]
        case PrimitiveType("binary"):
            try:
                return bytes(value).decode("utf-8") or None
            except UnicodeDecodeError:
                raise _failed(repr(bytes(value)), kind) from None
    raise _no_partition_type(kind)


def parse(text: str | None, kind: DataType, time_zone: str = "UTC") -> Any:
    """The value a text stands for: the inverse of :func:`serialize`, and of every other form the protocol allows.

    :param time_zone: the zone of timestamps written without one, which is the writing system's; commonly the session's.
    :raises HeadwaterError: ``DELTA_FAILED_CAST_PARTITION_VALUE`` where it is no value of the type, or a date Python's
        calendar does not have (:func:`parse_array` does), ``DELTA_INVALID_PARTITION_COLUMN_TYPE``.
    """
    stored = _stored(text, kind, time_zone)
    if stored is None or not isinstance(kind, PrimitiveType):
        return stored
    try:
        match kind.name:
            case "date":
                return date(1970, 1, 1) + timedelta(days=stored)
            case "timestamp":
                return (_EPOCH + timedelta(microseconds=stored)).replace(tzinfo=timezone.utc)
            case "timestamp_ntz":
                return _EPOCH + timedelta(microseconds=stored)
    except OverflowError:
        raise _failed(str(text), kind) from None
    return stored


def parse_array(texts: pa.Array | pa.ChunkedArray, kind: DataType, time_zone: str = "UTC") -> pa.Array:
    """The values of a column of texts, as an Arrow array of the type's Arrow type; each distinct text is parsed once.

    :raises HeadwaterError: as :func:`parse`.
    """
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks()
    if not pa.types.is_dictionary(texts.type):
        texts = texts.dictionary_encode()
    stored = [_stored(text, kind, time_zone) for text in texts.dictionary.to_pylist()]
    target = kind.to_arrow()
    physical = {pa.date32(): pa.int32()}.get(target, pa.int64() if pa.types.is_timestamp(target) else target)
    return pc.take(pa.array(stored, physical).cast(target), texts.indices)


def _stored(text: str | None, kind: DataType, time_zone: str) -> Any:
    """The value with dates as days and timestamps as microseconds since the epoch, which know no first or last year."""
    if text is None or text == "":
        return None
    try:
        if isinstance(kind, DecimalType):
            return _fit(Decimal(text.strip()), kind)
        match kind:
            case PrimitiveType("string"):
                return text
            case PrimitiveType("byte" | "short" | "integer" | "long" as name):
                return _integer(text, _INTEGER_BITS[name])
            case PrimitiveType("float"):
                return float(np.float32(text))
            case PrimitiveType("double"):
                return float(text)
            case PrimitiveType("boolean"):
                return _boolean(text)
            case PrimitiveType("date"):
                return _days(text)
            case PrimitiveType("timestamp"):
                return _microseconds(text, time_zone)
            case PrimitiveType("timestamp_ntz"):
                return _microseconds(text, None)
            case PrimitiveType("binary"):
                return text.encode("utf-8", "surrogatepass")
    except (ValueError, InvalidOperation, OverflowError):
        raise _failed(text, kind) from None
    raise _no_partition_type(kind)


def _fit(value: Decimal, kind: DecimalType) -> Decimal:
    fitted = value.quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, _WIDE)
    if not fitted.is_finite() or len(fitted.as_tuple().digits) > kind.precision:
        raise _failed(str(value), kind)
    return fitted


def _integer(text: str, bits: int) -> int:
    # Some writers store a column that was once read as floating: "2021.0".
    value = Decimal(text.strip())
    whole = int(value)
    if whole != value or not -(1 << bits - 1) <= whole < 1 << bits - 1:
        raise ValueError(text)
    return whole


def _boolean(text: str) -> bool:
    folded = text.strip().lower()
    if folded in _TRUE:
        return True
    if folded in _FALSE:
        return False
    raise ValueError(text)


def _days(text: str) -> int:
    match = _DATE_ONLY.fullmatch(text)
    if not match:
        raise ValueError(text)
    return _civil_days(int(match.group(1)), int(match.group(2)), int(match.group(3)))


def _civil_days(year: int, month: int, day: int) -> int:
    """Days since the epoch in the proleptic Gregorian calendar, for any year."""
    # The calendar repeats every 400 years; move the year to where Python's has it.
    cycles, within = divmod(year - 2000, 400)
    return date(within + 2000, month, day).toordinal() - date(1970, 1, 1).toordinal() + cycles * 146_097


def _microseconds(text: str, time_zone: str | None) -> int:
    """Microseconds since the epoch. ``time_zone`` None: a local time, where a zone in the text has no meaning and
    is refused.
    """
    match = _TIMESTAMP.fullmatch(text)
    if not match:
        raise ValueError(text)
    year, month, day = int(match.group(1)), int(match.group(2)), int(match.group(3))
    hour, minute, second = (int(part or 0) for part in match.group(4, 5, 6))
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(text)
    in_day = (hour * 3600 + minute * 60 + second) * 1_000_000 + int((match.group(7) or "").ljust(6, "0")[:6])
    local = _civil_days(year, month, day) * _MICROSECONDS_A_DAY + in_day
    zone = match.group(8)
    if time_zone is None:
        if zone is not None:
            raise ValueError(text)
        return local
    return local - _offset(zone or time_zone, local)


def _offset(zone: str, local: int) -> int:
    """A zone's offset from UTC in microseconds at a local time; of two, the earlier instant's, as Spark has it."""
    try:
        at = _EPOCH + timedelta(microseconds=local)
    except OverflowError:
        # Beyond Python's calendar a zone has the rule of the nearest year it has.
        at = datetime.max if local > 0 else datetime.min
    offset = time_zone_of(zone).utcoffset(at)
    return 0 if offset is None else round(offset / timedelta(microseconds=1))


def time_zone_of(name: str) -> tzinfo:
    """The zone Spark means by a name: a region, ``Z``, ``UTC``, or an offset like ``+01:00`` or ``GMT+8``.

    :raises ValueError: where there is none.
    """
    if name.upper() in ("Z", "UTC", "GMT", "UT"):
        return timezone.utc
    match = _OFFSET.fullmatch(name)
    if match:
        hours, minutes, seconds = (int(part or 0) for part in match.group(2, 3, 4))
        offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return timezone(offset if match.group(1) == "+" else -offset)
    try:
        return ZoneInfo(name)
    except (OSError, KeyError):
        raise ValueError(name) from None


def _java_floating(value: float, width: type[np.float32] | type[np.float64]) -> str:
    """The text Java gives a float or double, which is what other writers of the format store."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        # Both zeros are one partition.
        return "0.0"
    narrow = width(value)
    mantissa, exponent_text = np.format_float_scientific(narrow, unique=True, trim="-").split("e")
    if len(mantissa.lstrip("-")) == 1:
        # Java has two digits at least, and of those the nearest that is still this number: 4.9E-324.
        two_digits = f"{float(narrow):.1e}"
        if width(two_digits) == narrow:
            mantissa, exponent_text = two_digits.split("e")
    exponent = int(exponent_text)
    if -3 <= exponent < 7:
        plain = format(Decimal(f"{mantissa}e{exponent}"), "f")
        whole, _, fraction = plain.partition(".")
        return f"{whole}.{fraction.rstrip('0') or '0'}"
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{exponent}"


def _failed(text: str, kind: DataType) -> HeadwaterError:
    return HeadwaterError("DELTA_FAILED_CAST_PARTITION_VALUE", {"value": text, "dataType": kind.sql()})


def _no_partition_type(kind: DataType) -> HeadwaterError:
    return HeadwaterError("DELTA_INVALID_PARTITION_COLUMN_TYPE", {"name": "?", "dataType": kind.sql().upper()})
