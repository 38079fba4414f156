"""Bounds of writers that round: whatever way a writer spells a file's minimum and maximum, they bound its values."""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.log.files import FileBlock
from headwater.log.snapshot import load_snapshot
from headwater.log.statistics.columns import Leaf, block_statistics
from headwater.protocol.types import DataType, DecimalType, PrimitiveType
from headwater.stores import LocalStore

EXAMPLES = settings(max_examples=int(os.environ.get("HEADWATER_TEST_EXAMPLES", "200")), deadline=None)
#: With offsets that had seconds until 1893, 1912, 1928, 1937, 1946 and 1972; the last two never had.
ZONES = [
    ZoneInfo(name)
    for name in ("Europe/Berlin", "America/New_York", "Asia/Shanghai", "Europe/Amsterdam", "Africa/Monrovia", "UTC")
] + [timezone(timedelta(hours=-9, minutes=-30))]


def bounds(kind: DataType, low: str, high: str) -> tuple[Any, Any]:
    """What is read of a file with these JSON texts as minimum and maximum."""
    text = f'{{"numRecords":1,"minValues":{{"c":{low}}},"maxValues":{{"c":{high}}}}}'
    found = block_statistics(FileBlock.of_actions([{"path": "f", "size": 1, "stats": text}]), [Leaf(("c",), kind)])
    return found["min.0"][0].as_py(), found["max.0"][0].as_py()


def check(low: Any, value: Any, high: Any) -> None:
    assert low is None or low <= value, (low, value)
    assert high is None or high >= value, (value, high)


def quotient(unscaled: int, scale: int) -> float:
    """As a writer computes it that has the unscaled number: with two roundings."""
    return float(unscaled) / 10.0**scale


SPELLINGS = {
    "exact": lambda unscaled, scale: f"{Decimal(unscaled).scaleb(-scale):f}",
    "nearest double": lambda unscaled, scale: repr(float(Fraction(unscaled, 10**scale))),
    "quotient": lambda unscaled, scale: repr(quotient(unscaled, scale)),
    "all digits": lambda unscaled, scale: f"{Decimal(quotient(unscaled, scale)):f}",
    "17 digits": lambda unscaled, scale: f"{quotient(unscaled, scale):.17g}",
    "fixed": lambda unscaled, scale: f"{quotient(unscaled, scale):.{scale}f}",
}


@st.composite
def decimals(draw: st.DrawFn) -> tuple[int, int, int]:
    """An unscaled number, precision and scale."""
    precision = draw(st.integers(1, 38))
    digits = draw(st.integers(0, precision))
    unscaled = draw(st.integers(-(10**digits) + 1, 10**digits - 1))
    zeros = draw(st.integers(0, digits))
    return unscaled // 10**zeros * 10**zeros, precision, draw(st.integers(0, precision))


@pytest.mark.random
@EXAMPLES
@given(decimals(), st.sampled_from(sorted(SPELLINGS)))
def test_decimals_are_bounded_however_they_are_spelled(drawn, spelling):
    unscaled, precision, scale = drawn
    text = SPELLINGS[spelling](unscaled, scale)
    with_exact = Decimal(unscaled).scaleb(-scale)
    check(*_around(bounds(DecimalType(precision, scale), text, text), with_exact))


def _around(pair: tuple[Any, Any], value: Any) -> tuple[Any, Any, Any]:
    return pair[0], value, pair[1]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (DecimalType(20, 2), "12.34"),
        (DecimalType(38, 18), "1.000000000000000001"),
        (DecimalType(18, 0), "123456789012345678"),
        (DecimalType(38, 0), "12345678901234567890123456789012345678"),
    ],
)
def test_decimals_that_no_double_was_made_of_are_exact(kind, text):
    assert bounds(kind, text, text) == (Decimal(text), Decimal(text))


def test_decimals_near_the_limit_of_their_type():
    low, high = bounds(DecimalType(18, 0), "-1e17", "999999999999999900")
    assert -(10**17) - 65 <= low <= -(10**17) - 64
    assert high is None or high >= Decimal(10**18 - 1)


@pytest.mark.random
@EXAMPLES
@given(
    st.datetimes(datetime(1800, 1, 1), datetime(2030, 1, 1)),
    st.sampled_from(ZONES),
    st.booleans(),
    st.sampled_from(["Z", "minutes", "seconds"]),
)
def test_instants_are_bounded_however_their_offset_is_spelled(local, zone, fold, spelling):
    """Texts have milliseconds, cut off."""
    instant = local.replace(tzinfo=zone, fold=fold)
    moment = instant.astimezone(timezone.utc)
    offset = instant.utcoffset()
    assert offset is not None
    if spelling == "Z":
        text = f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"
    else:
        seconds = int(abs(offset).total_seconds())
        hours, minutes, rest = seconds // 3600, seconds // 60 % 60, seconds % 60
        sign = "-" if offset < timedelta() else "+"
        suffix = f"{sign}{hours:02}:{minutes:02}" + (f":{rest:02}" if rest and spelling == "seconds" else "")
        text = f"{local:%Y-%m-%dT%H:%M:%S}.{local.microsecond // 1000:03}{suffix}"
    check(*_around(bounds(PrimitiveType("timestamp"), f'"{text}"', f'"{text}"'), moment))


def test_a_table_of_delta_rs_with_long_decimals(tmp_path):
    """It writes their bounds as doubles."""
    values = [Decimal(123456789012345678), Decimal(123456789012345681), Decimal(-99999999999999999)]
    for value in values:
        write_deltalake(tmp_path / "t", pa.table({"c": pa.array([value], pa.decimal128(18, 0))}), mode="append")
    snapshot = load_snapshot(str(tmp_path / "t"), LocalStore())
    found = snapshot.statistics([("c",)])
    held = [pq.read_table(tmp_path / "t" / path)["c"][0].as_py() for path in snapshot.files["path"].to_pylist()]
    for low, value, high in zip(found["min.0"].to_pylist(), held, found["max.0"].to_pylist(), strict=True):
        check(low, value, high)
    assert sorted(held) == sorted(values)
