"""Partition values as text, and paths. Texts marked as seen were written by Delta Lake 4.4."""

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import HeadwaterError
from headwater.schema.partition_paths import (
    decode_path,
    encode_path,
    escape_name,
    parse_directory,
    partition_directory,
    unescape_name,
)
from headwater.schema.partition_values import parse, parse_array, serialize
from headwater.schema.types import ArrayType, DecimalType, PrimitiveType

UTC = timezone.utc


def kind(name):
    return PrimitiveType(name)


@pytest.mark.parametrize(
    ("value", "type_name", "text"),
    [
        (0.10000000149011612, "float", "0.1"),
        (1e7, "float", "1.0E7"),
        (16777216.0, "float", "1.6777216E7"),
        (3.4028234663852886e38, "float", "3.4028235E38"),
        (9.999999747378752e-05, "float", "1.0E-4"),
        (float("inf"), "float", "Infinity"),
        (1.401298464324817e-45, "float", "1.4E-45"),
        (1e-3, "double", "0.001"),
        (1e7, "double", "1.0E7"),
        (9.999e6, "double", "9999000.0"),
        (4.9e-324, "double", "4.9E-324"),
        (2e-3, "double", "0.002"),
        (123456789.125, "double", "1.23456789125E8"),
        (1e20, "double", "1.0E20"),
        (-1.5, "double", "-1.5"),
        (-0.0, "double", "0.0"),
        (float("-inf"), "double", "-Infinity"),
        (date(1, 1, 2), "date", "0001-01-02"),
        (datetime(2020, 6, 1, 14, 11, 12, 500000, UTC), "timestamp", "2020-06-01T14:11:12.500000Z"),
        (datetime(2020, 1, 1, 5, tzinfo=UTC), "timestamp", "2020-01-01T05:00:00.000000Z"),
        (datetime(2020, 6, 1, 10, 11, 12), "timestamp_ntz", "2020-06-01 10:11:12"),
        (datetime(2020, 1, 1, 0, 0, 0, 500000), "timestamp_ntz", "2020-01-01 00:00:00.5"),
        (datetime(2020, 6, 1, 10, 11, 12, 1), "timestamp_ntz", "2020-06-01 10:11:12.000001"),
        (True, "boolean", "true"),
        (-5, "byte", "-5"),
        ('a b/c%d=é:"x', "string", 'a b/c%d=é:"x'),
        (b"\x01\x02A", "binary", "\x01\x02A"),
    ],
)
def test_texts_as_seen_and_back(value, type_name, text):
    assert serialize(value, kind(type_name)) == text
    assert parse(text, kind(type_name)) == value
    assert parse_array(pa.array([text, None, "", text]), kind(type_name)).to_pylist() == [value, None, None, value]


def test_decimals_keep_their_scale():
    decimal = DecimalType(20, 8)
    assert serialize(Decimal("1E-8"), decimal) == "0.00000001"
    assert serialize(Decimal(0), decimal) == "0.00000000"
    assert parse("12.3", DecimalType(10, 2)) == Decimal("12.30")
    assert parse_array(pa.array(["12.3", "-0.01"]), DecimalType(10, 2)).to_pylist() == [
        Decimal("12.30"),
        Decimal("-0.01"),
    ]


def test_null_and_empty_are_null():
    for name in ("string", "integer", "timestamp", "binary"):
        assert parse("", kind(name)) is None
        assert parse(None, kind(name)) is None
        assert serialize(None, kind(name)) is None
    assert serialize("", kind("string")) is None
    assert serialize(b"", kind("binary")) is None
    assert parse_array(pa.array([None, None], pa.string()), kind("date")).to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("1800-06-01 10:11:12.123456", "America/New_York", "1800-06-01T15:07:14.123456Z"),
        ("2021-03-14 02:30:00", "America/New_York", "2021-03-14T07:30:00.000000Z"),
        ("2021-11-07 01:30:00", "America/New_York", "2021-11-07T05:30:00.000000Z"),
        ("2020-01-01 00:00:00", "GMT+8", "2019-12-31T16:00:00.000000Z"),
        ("2020-01-01T00:00:00.5+01:00", "America/New_York", "2019-12-31T23:00:00.500000Z"),
        ("2020-01-01T00:00:00.123456Z", "America/New_York", "2020-01-01T00:00:00.123456Z"),
        ("2020-01-01 00:00:00 Europe/Berlin", "UTC", "2019-12-31T23:00:00.000000Z"),
        ("2020-01-01", "UTC", "2020-01-01T00:00:00.000000Z"),
    ],
)
def test_timestamps_and_zones(text, zone, expected):
    assert serialize(parse(text, kind("timestamp"), zone), kind("timestamp")) == expected


def test_dates_beyond_pythons_calendar_are_values_in_arrow():
    texts = pa.array(["-0001-01-01", "+12000-01-01", "0000-03-01"])
    days = parse_array(texts, kind("date")).cast(pa.int32()).to_pylist()
    assert days == [-719_893, 3_663_382, -719_468]
    micros = parse_array(pa.array(["+12000-01-01 00:00:01"]), kind("timestamp")).cast(pa.int64()).to_pylist()
    assert micros == [(3_663_382 * 86_400 + 1) * 1_000_000]
    with pytest.raises(HeadwaterError, match="DELTA_FAILED_CAST_PARTITION_VALUE"):
        parse("-0001-01-01", kind("date"))


def test_whole_numbers_that_were_written_as_floating():
    assert parse("2021.0", kind("integer")) == 2021


@pytest.mark.parametrize(
    ("text", "type_name"),
    [
        ("x", "integer"),
        ("1.5", "integer"),
        ("128", "byte"),
        ("NaN", "long"),
        ("maybe", "boolean"),
        ("2020-13-01", "date"),
        ("2020-01-01 25:00:00", "timestamp"),
        ("2020-01-01 00:00:00 Nowhere/Else", "timestamp"),
        ("2020-01-01T00:00:00Z", "timestamp_ntz"),
        ("abc", "double"),
    ],
)
def test_no_values(text, type_name):
    with pytest.raises(HeadwaterError, match="DELTA_FAILED_CAST_PARTITION_VALUE"):
        parse(text, kind(type_name))
    with pytest.raises(HeadwaterError, match="DELTA_FAILED_CAST_PARTITION_VALUE"):
        parse_array(pa.array([text]), kind(type_name))


def test_no_partition_types_and_lossy_bytes():
    with pytest.raises(HeadwaterError, match="DELTA_INVALID_PARTITION_COLUMN_TYPE"):
        parse("1", ArrayType(kind("integer")))
    with pytest.raises(HeadwaterError, match="DELTA_FAILED_CAST_PARTITION_VALUE"):
        serialize(b"\xff\xfe", kind("binary"))
    with pytest.raises(HeadwaterError, match="DELTA_FAILED_CAST_PARTITION_VALUE"):
        parse("12345.6", DecimalType(3, 1))


VALUES = st.one_of(
    st.tuples(st.just("double"), st.floats(allow_nan=False)),
    st.tuples(st.just("float"), st.floats(allow_nan=False, width=32)),
    st.tuples(st.just("long"), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("date"), st.dates()),
    st.tuples(st.just("timestamp"), st.datetimes(timezones=st.just(UTC))),
    st.tuples(st.just("timestamp_ntz"), st.datetimes()),
    st.tuples(st.just("string"), st.text(min_size=1)),
)


@given(VALUES, st.sampled_from(["UTC", "America/New_York", "+05:30"]))
def test_every_value_comes_back_whatever_the_session_zone(case, zone):
    name, value = case
    text = serialize(value, kind(name))
    assert parse(text, kind(name), zone) == value


@given(st.dates(), st.integers(-5, 20))
def test_days_of_any_year(day, cycles):
    year = day.year + 400 * cycles
    text = f"{'-' if year < 0 else ''}{abs(year):04d}-{day.month:02d}-{day.day:02d}"
    (days,) = parse_array(pa.array([text]), kind("date")).cast(pa.int32()).to_pylist()
    assert days == (day - date(1970, 1, 1)) // timedelta(days=1) + cycles * 146_097


def test_paths_as_seen():
    value = "\x01\x7f \"#%'*/:=?\\{[]^|<>~!@$&()+,;`é😀"
    assert encode_path(partition_directory({"t": value})) == (
        "t=%2501%257F%20%2522%2523%2525%2527%252A%252F%253A%253D%253F%255C%257B%255B%255D%255E%7C%3C%3E~!@$&()+,;%60é😀"
    )
    assert encode_path(partition_directory({"c": "}", "t": None})) == "c=%7D/t=__HIVE_DEFAULT_PARTITION__"
    assert encode_path("t=1800-06-01 10%3A11/x.parquet") == "t=1800-06-01%2010%253A11/x.parquet"
    assert encode_path("s3://bucket/a b") == "s3://bucket/a%20b"


@given(st.text())
def test_escapes_come_back(text):
    assert unescape_name(escape_name(text)) == text
    assert not set(escape_name(text)) & set("/:=\\\0\n")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_encoded_paths_come_back(path):
    assert decode_path(encode_path(path)) == path


@given(st.dictionaries(st.text(min_size=1), st.one_of(st.none(), st.text(min_size=1)), max_size=3))
def test_directories_come_back(values):
    assert parse_directory(partition_directory(values) + "/part-0.parquet") == values
