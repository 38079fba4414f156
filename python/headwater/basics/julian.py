"""Days and times counted by the calendar of ``java.util`` and of Spark 2: Julian before 1582-10-15.

Owns the step from such a count to Spark's calendar, proleptic Gregorian as in :mod:`headwater.basics.times`. Like
Spark's readers, it keeps the date and the local time; a day that only the Julian calendar has, like 1500-02-29, becomes
the next one. Promise: the same days as Spark, and the same times if the system's time zones before 1900 are those that
Spark knows (regions that the time zone database has merged since are minutes off).
"""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo

import numpy as np

from headwater.basics.times import MICROSECONDS_OF_DAY, days_of, utc_offset

#: Since 1582-10-15 the calendars have the same days, and since 1900 Java's old and new time zones have the same times.
FIRST_DAY = -141_427
FIRST_MICROSECOND = -2_208_988_800_000_000
#: In the last year of each of these centuries, only the Julian calendar has a 29th of February, counted from year 100.
_CENTURIES = [century for century in range(1, 16) if century % 4]
#: What is added to a day: before the first day of ``_SWITCHES``, and from each of these days on.
_DIFFERENCES = np.array([2, *(1 - i for i in range(len(_CENTURIES))), 0])
_SWITCHES = np.array([
    *(days_of(century * 100, 3, 1) - int(_DIFFERENCES[i + 1]) for i, century in enumerate(_CENTURIES)),
    FIRST_DAY,
])  # fmt: skip
#: Before 1900, ``java.util`` has a zone's standard time of today; Spark's rules are of this year.
_STANDARD_YEAR = 2020


def days_from_julian(days: np.ndarray) -> np.ndarray:
    """Days since the epoch, from a count of such days."""
    moved: np.ndarray = days + _DIFFERENCES[np.searchsorted(_SWITCHES, days, side="right")]
    return moved


def microseconds_from_julian(times: np.ndarray, zone: tzinfo) -> np.ndarray:
    """Microseconds since the epoch, from a count of such microseconds by a writer in a time zone."""
    is_old = times < FIRST_MICROSECOND
    if not is_old.any():
        return times
    distinct, places = np.unique(times[is_old], return_inverse=True)
    days, rest = np.divmod(distinct + _microseconds(_standard_offset(zone)), MICROSECONDS_OF_DAY)
    shown = days_from_julian(days) * MICROSECONDS_OF_DAY + rest
    offsets = [min(_microseconds(utc_offset(zone, int(time), fold)) for fold in (0, 1)) for time in shown]
    moved: np.ndarray = times.copy()
    moved[is_old] = (shown - np.array(offsets))[places]
    return moved


def _standard_offset(zone: tzinfo) -> timedelta:
    months = (datetime(_STANDARD_YEAR, month, 1, tzinfo=zone) for month in range(1, 13))
    return min(month.utcoffset() or timedelta() for month in months)


def _microseconds(offset: timedelta) -> int:
    return offset // timedelta(microseconds=1)
