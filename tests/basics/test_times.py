from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.basics.times import date_text, days_of, timestamp_text, utc_offset

EPOCH = date(1970, 1, 1)


@given(st.dates())
def test_days_are_those_of_datetime(day: date) -> None:
    days = (day - EPOCH).days
    assert days_of(day.year, day.month, day.day) == days
    assert date_text(days) == day.isoformat()


@given(st.integers(-(2**31), 2**31 - 1))
def test_every_day_has_a_text_that_names_it(days: int) -> None:
    text = date_text(days)
    sign = -1 if text[0] == "-" else 1
    year, month, day = (int(part) for part in text.lstrip("+-").split("-"))
    assert days_of(sign * year, month, day) == days


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (-719_163, "0000-12-31"), (-719_529, "-0001-12-31"), (2_932_897, "+10000-01-01"),
        (2**31 - 1, "+5881580-07-11"), (-(2**31), "-5877641-06-23"),
    ],
)  # fmt: skip
def test_days_of_years_that_datetime_has_not(days: int, text: str) -> None:
    assert date_text(days) == text


@given(st.datetimes())
def test_times_are_those_of_datetime(moment: datetime) -> None:
    micros = (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    assert timestamp_text(micros, separator="T") == moment.isoformat(timespec="microseconds")
    assert timestamp_text(micros, digits=3) == moment.isoformat(" ", "milliseconds")


def test_the_ends_of_64_bits() -> None:
    assert timestamp_text(2**63 - 1) == "+294247-01-10 04:00:54.775807"
    assert timestamp_text(-(2**63)) == "-290308-12-21 19:59:05.224192"


@given(st.integers(-(2**63), 2**63 - 1))
def test_zones_have_an_offset_at_every_time(micros: int) -> None:
    assert utc_offset(timezone.utc, micros) == timedelta()
    offset = utc_offset(ZoneInfo("America/Los_Angeles"), micros)
    first, last = datetime(1883, 11, 18), datetime(9999, 1, 1)
    if micros < (first - datetime(1970, 1, 1)) // timedelta(microseconds=1):
        assert offset == timedelta(hours=-7, minutes=-52, seconds=-58)
    elif micros > (last - datetime(1970, 1, 1)) // timedelta(microseconds=1):
        assert offset in (timedelta(hours=-8), timedelta(hours=-7))


@pytest.mark.parametrize("day", [(2023, 2, 29), (10_001, 2, 29), (-1, 13, 1)])
def test_days_that_are_none(day: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="day|month"):
        days_of(*day)
