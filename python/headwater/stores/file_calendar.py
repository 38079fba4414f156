"""The calendar of the days and times in a Parquet file.

Owns the rule of Spark's readers. Spark 2, and later versions in the mode ``LEGACY``, wrote the calendar of
:mod:`headwater.basics.julian`, and later versions mark such files. A file that does not name the Spark that wrote it
has Parquet's own calendar, the proleptic Gregorian one, unless a session's settings say otherwise. Times without a time
zone never change.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timezone, tzinfo
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.basics.julian import FIRST_DAY, FIRST_MICROSECOND, days_from_julian, microseconds_from_julian
from headwater.basics.time_zones import time_zone_of
from headwater.basics.times import MICROSECONDS_OF_DAY

_VERSION, _ZONE = b"org.apache.spark.version", b"org.apache.spark.timeZone"
#: What marks a file of Spark, and the first version of Spark that marks them.
_DAYS_AND_TIMES = (b"org.apache.spark.legacyDateTime", b"3.0.0")
_INT96 = (b"org.apache.spark.legacyINT96", b"3.1.0")
#: With it, Spark takes a file's days and times as they are, whatever the session's settings are.
PROLEPTIC_GREGORIAN: Mapping[bytes, bytes] = {_VERSION: b"4.0.0"}


@dataclass(frozen=True)
class FileCalendar:
    """The calendar of a file.

    :param is_named: whether it is known without the settings of a session.
    :param is_julian: whether days and times are counted by the Julian calendar before 1582-10-15.
    :param is_int96_julian: the same for times of the type INT96.
    :param zone: the writer's time zone, which such times depend on; None if the file does not say.
    """

    is_named: bool
    is_julian: bool
    is_int96_julian: bool
    zone: str | None

    @staticmethod
    def of(footer: pq.FileMetaData) -> FileCalendar:
        said: Mapping[bytes, bytes] = footer.metadata or {}
        version = said.get(_VERSION)

        def is_julian(mark: bytes, first: bytes) -> bool:
            return version is not None and (mark in said or version < first)

        zone = said.get(_ZONE, b"").decode(errors="replace") or None
        return FileCalendar(version is not None, is_julian(*_DAYS_AND_TIMES), is_julian(*_INT96), zone)

    def is_exact(self, least: int, first: int) -> bool:
        """Whether days or times are those that Spark reads.

        :param least: the least of them.
        :param first: since when the calendars agree on such values.
        """
        return (self.is_named and not self.is_julian) or least >= first

    def rebased(self, values: pa.Array, wanted: pa.DataType) -> pa.Array:
        """Values of a primitive column as Spark reads them into a type."""
        kind = values.type
        if pa.types.is_date32(kind):
            if not self.is_julian:
                return values
            return _mapped(values, pa.int32(), days_from_julian)
        if not (pa.types.is_timestamp(kind) and pa.types.is_timestamp(wanted) and wanted.tz is not None):
            return values
        # Arrow gives INT96 no time zone.
        if not (self.is_int96_julian if kind.tz is None else self.is_julian):
            return values
        zone = _zone(self.zone)
        microseconds = values.cast(pa.timestamp("us", kind.tz), safe=False)
        return _mapped(microseconds, pa.int64(), lambda times: microseconds_from_julian(times, zone))

    def certain(self, bounds: pa.ChunkedArray) -> pa.ChunkedArray:
        """Bounds without those that may lie before or after the values that they bound: several days and times of
        Spark's calendar have the same count in the other one, and a data file has a calendar of its own.
        """
        kind = bounds.type
        if not (self.is_julian or self.is_int96_julian):
            return bounds
        if pa.types.is_date32(kind):
            first = pa.scalar(FIRST_DAY + 1, pa.int32()).cast(kind)
        elif pa.types.is_timestamp(kind):
            first = pa.scalar(FIRST_MICROSECOND + MICROSECONDS_OF_DAY, pa.int64())
            first = first.cast(pa.timestamp("us", kind.tz)).cast(kind)
        else:
            return bounds
        return pc.if_else(pc.less(bounds, first), pa.scalar(None, kind), bounds)


def _mapped(values: pa.Array, integers: pa.DataType, change: Callable[[np.ndarray], np.ndarray]) -> pa.Array:
    counts = values.cast(integers)
    changed = change(pc.fill_null(counts, 0).to_numpy(zero_copy_only=False).astype(np.int64))
    mask = values.is_null().to_numpy(zero_copy_only=False)
    return pa.array(changed, integers, mask=mask).cast(values.type)


def _zone(name: str | None) -> tzinfo:
    """A file's time zone: this machine's if the file names none, UTC if the name is unknown, both as in Java."""
    name = name or os.environ.get("TZ", "").lstrip(":")
    with suppress(OSError, ValueError):
        if name:
            return time_zone_of(name)
        with open("/etc/localtime", "rb") as file:
            return ZoneInfo.from_file(file)
    return timezone.utc
