"""Days and microseconds since the epoch, and their texts, for every year that Spark's types hold.

Owns the calendar: proleptic Gregorian, as Spark's. Python's ``datetime`` ends with the years 1 and 9999 and raises
beyond them; here a year is any whole number. The calendar repeats after 400 years, so other years are computed as the
year of ``datetime`` that is so many cycles away. Texts are ISO 8601's: a year of more than four digits, or before year
0, has a sign.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, tzinfo

MICROSECONDS_OF_DAY = 86_400_000_000
_EPOCH = date(1970, 1, 1).toordinal()
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
_FIRST_DAY, _LAST_DAY = date.min.toordinal() - _EPOCH, date.max.toordinal() - _EPOCH
#: The cycles for years before 1 and after 9999: there, zones have their first or last rules.
_EARLY, _LATE = 400, 9_600


def days_of(year: int, month: int, day: int) -> int:
    """Days since the epoch.

    :raises ValueError: no such day.
    """
    if 1 <= year <= 9999:
        return date(year, month, day).toordinal() - _EPOCH
    cycles, rest = divmod(year, _CYCLE_YEARS)
    return date(_CYCLE_YEARS + rest, month, day).toordinal() - _EPOCH + (cycles - 1) * _CYCLE_DAYS


def date_text(days: int) -> str:
    """A date, given in days since the epoch: ``2024-05-01``, ``+10000-01-01``, ``-0044-03-15``."""
    cycles = 0 if _FIRST_DAY <= days <= _LAST_DAY else days // _CYCLE_DAYS
    near = date.fromordinal(days - cycles * _CYCLE_DAYS + _EPOCH)
    year = near.year + cycles * _CYCLE_YEARS
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{near.month:02d}-{near.day:02d}"


def timestamp_text(microseconds: int, *, digits: int = 6, separator: str = " ") -> str:
    """A time, given in microseconds since the epoch, as a wall clock in UTC shows it: ``2024-05-01 12:00:00.000000``.

    :param digits: of the fraction of a second, 1 to 6; further ones are cut off.
    """
    days, rest = divmod(microseconds, MICROSECONDS_OF_DAY)
    seconds, fraction = divmod(rest, 1_000_000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{date_text(days)}{separator}{clock}.{f'{fraction:06d}'[:digits]}"


def microseconds_of(days: int, hour: int, minute: int, second: int, fraction: int = 0) -> int:
    """Microseconds since the epoch of a day and a time of day, ``fraction`` in microseconds.

    :raises ValueError: no such time of day.
    """
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60 and 0 <= fraction < 1_000_000):
        raise ValueError(f"not a time of day: {hour}:{minute}:{second}")
    return days * MICROSECONDS_OF_DAY + (hour * 3600 + minute * 60 + second) * 1_000_000 + fraction


def utc_offset(zone: tzinfo, microseconds: int, fold: int = 0) -> timedelta:
    """A zone's offset when its clocks show a time; in a gap or an overlap the earlier one, as Java resolves them.

    :param fold: 1 for the later one.
    """
    days, rest = divmod(microseconds, MICROSECONDS_OF_DAY)
    if not _FIRST_DAY <= days <= _LAST_DAY:
        # The same day of the calendar, in a year that ``datetime`` has.
        start = days_of(_EARLY if days < 0 else _LATE, 1, 1)
        days = start + (days - start) % _CYCLE_DAYS
    local = datetime.fromordinal(days + _EPOCH) + timedelta(microseconds=rest)
    return local.replace(tzinfo=zone, fold=fold).utcoffset() or timedelta()
