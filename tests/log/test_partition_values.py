from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

from headwater.basics.errors import HeadwaterError
from headwater.protocol.partition_values import parse_timestamp, parse_value, typed_values
from headwater.protocol.types import DataType, DecimalType, PrimitiveType, StructType
from support.log_writer import add, remove

UTC = timezone.utc


def typed(kind: str | DataType, text: str | None, time_zone: str = "UTC"):
    data_type = PrimitiveType(kind) if isinstance(kind, str) else kind
    maps = pa.chunked_array([pa.array([[("p", text), ("q", "x")]], pa.map_(pa.string(), pa.string()))])
    column = typed_values(maps, "p", data_type, time_zone)
    assert column.type == data_type.to_arrow()
    return column[0].as_py()


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("string", "a b", "a b"),
        ("integer", "-5", -5),
        ("long", "9223372036854775807", 2**63 - 1),
        ("double", "1.5E3", 1500.0),
        ("double", "-Infinity", float("-inf")),
        ("boolean", "true", True),
        ("boolean", "False", False),
        ("binary", "\u0001\u0002", b"\x01\x02"),
        ("date", "2024-02-29", date(2024, 2, 29)),
        ("date", "2024-02-29 00:00:00", date(2024, 2, 29)),
        (DecimalType(6, 2), "12.3", Decimal("12.30")),
        ("timestamp", "2024-01-01 00:00:00", datetime(2024, 1, 1, tzinfo=UTC)),
        ("timestamp", "2024-01-01 00:00:00.123456", datetime(2024, 1, 1, 0, 0, 0, 123456, UTC)),
        ("timestamp", "2024-01-01T00:00:00.123456Z", datetime(2024, 1, 1, 0, 0, 0, 123456, UTC)),
        ("timestamp_ntz", "2024-01-01 00:00:00.1", datetime(2024, 1, 1, 0, 0, 0, 100000)),
        ("interval year to month", "INTERVAL '1-6' YEAR TO MONTH", 18),
        ("interval year to month", "INTERVAL '-178956970-8' YEAR TO MONTH", -(2**31)),
        ("interval year to month", "INTERVAL '-2' YEAR", -24),
        ("interval year to month", "interval -'14' month", -14),
        ("interval day to second", "INTERVAL '7 12:34:56.123456' DAY TO SECOND", 650_096_123_456),
        ("interval day to second", "INTERVAL '-106751991 04:00:54.775808' DAY TO SECOND", -(2**63)),
        ("interval day to second", "INTERVAL '100:05' HOUR TO MINUTE", 360_300_000_000),
        ("interval day to second", "INTERVAL '90.5' SECOND", 90_500_000),
        ("string", None, None),
        ("string", "", None),
        ("integer", "", None),
    ],
)
def test_values_of_each_type(kind, text, expected):
    assert typed(kind, text) == expected


@pytest.mark.parametrize(
    ("kind", "text", "number"),
    [
        ("date", "+10000-01-01", 2_932_897),
        ("date", "-0044-03-15", -735_525),
        ("date", "+5881580-07-11", 2**31 - 1),
        ("timestamp", "+294247-01-10T04:00:54.775807Z", 2**63 - 1),
        ("timestamp", "0000-12-31 23:59:59Z", -62_135_596_801_000_000),
        ("timestamp_ntz", "-290308-12-21 19:59:05.224192", -(2**63)),
    ],
)
def test_values_of_years_that_python_has_not(kind, text, number):
    assert parse_value(text, PrimitiveType(kind)) == number


def test_a_timestamp_without_zone_is_in_the_given_one():
    assert typed("timestamp", "2024-07-01 00:00:00", "Europe/Berlin") == datetime(2024, 6, 30, 22, tzinfo=UTC)
    assert typed("timestamp", "2024-07-01T00:00:00Z", "Europe/Berlin") == datetime(2024, 7, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("integer", "x"),
        ("date", "2023-02-29"),
        ("boolean", "yes"),
        (DecimalType(4, 2), "1.234"),
        (DecimalType(4, 2), "x"),
        ("byte", "128"),
        ("interval year to month", "INTERVAL '178956970-8' YEAR TO MONTH"),
        ("interval year to month", "INTERVAL '1-12' YEAR TO MONTH"),
        ("interval year to month", "INTERVAL '1' DAY"),
        ("interval day to second", "INTERVAL '1 24:00:00' DAY TO SECOND"),
        ("interval day to second", "INTERVAL '1:00' DAY TO SECOND"),
        ("interval day to second", "INTERVAL '1 00:00:00' SECOND TO DAY"),
        ("interval day to second", "86400"),
        ("long", "9223372036854775808"),
        ("integer", "1_000"),
        ("date", "9999999-01-01"),
        ("timestamp", "+294247-01-10 04:00:54.775808Z"),
    ],
)
def test_texts_that_are_none_of_the_type_are_errors(kind, text):
    with pytest.raises(HeadwaterError) as error:
        typed(kind, text)
    assert error.value.condition == "DELTA_INVALID_PARTITION_VALUE"
    assert error.value.parameters["value"] == text


def test_a_missing_key_is_null():
    maps = pa.chunked_array([pa.array([[], [("p", "1")]], pa.map_(pa.string(), pa.string()))])
    assert typed_values(maps, "p", PrimitiveType("integer")).to_pylist() == [None, 1]
    assert parse_value(None, PrimitiveType("integer")) is None


@pytest.mark.parametrize("name", ["p", "q", "r"])
def test_maps_of_one_shape_and_of_several_give_the_same(name):
    kind = pa.map_(pa.string(), pa.string())
    even = [[("p", str(i)), ("q", None if i % 3 else "7")] for i in range(20)]
    for maps in (even, [*even, []], [*even, [("q", "1"), ("p", "2")]], [[], *even], [*even, None]):
        array = pa.array(maps, kind)
        for piece in (array, array.slice(3), array.slice(2, 5), array.slice(0, 0)):
            expected = [dict(m or ()).get(name) for m in piece.to_pylist()]
            found = typed_values(pa.chunked_array([piece]), name, PrimitiveType("string"))
            assert found.to_pylist() == expected


def test_types_that_do_not_partition():
    with pytest.raises(HeadwaterError):
        parse_value("x", StructType())


def test_offsets_of_timestamps():
    noon = parse_timestamp("2024-01-01T12:00:00Z", UTC)
    assert parse_timestamp("2024-01-01T14:00:00+02:00", UTC) == noon
    assert parse_timestamp("2024-01-01T14:00:00+02", UTC) == noon
    assert parse_timestamp("2024-01-01T06:30:00-0530", UTC) == noon
    with pytest.raises(ValueError, match="wall clock"):
        parse_timestamp("2024-01-01T14:00:00+02:00", None)


def test_a_snapshots_partition_values_follow_its_files(log):
    files = [add(str(i), partition_values={"p": str(i)}) for i in range(5)]
    # What an earlier mapping left in the schema says nothing about a table that maps no columns.
    metadata = {"delta.columnMapping.physicalName": "phys"}
    column = {"name": "p", "type": "integer", "nullable": True, "metadata": metadata}
    log.create({"id": "long", "p": column}, ["p"], actions=files)
    log.checkpoint(0, *log.header({"id": "long", "p": column}, ["p"]), *files)
    log.commit(1, remove("2"), add("9", partition_values={"p": None}))
    snapshot = log.load()
    assert snapshot.partition_values("p").to_pylist() == [0, 1, 3, 4, None]
    assert snapshot.select(["path"])["path"].to_pylist() == ["0", "1", "3", "4", "9"]
    with pytest.raises(KeyError):
        snapshot.partition_values("id")
