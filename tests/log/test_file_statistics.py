import json
import time
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.log.files import FILE_SCHEMA, FileBlock, table_of
from headwater.log.statistics.columns import block_statistics, leaf_of
from headwater.log.statistics.writing import statistics_json
from headwater.protocol.types import DecimalType, PrimitiveType, StructField, StructType


def leaf(kind, *path):
    return (path or ("c",), PrimitiveType(kind) if isinstance(kind, str) else kind)


def bounds(kind, low, high):
    parsed = json.loads(statistics_json(3, [leaf(kind)], [[low, high, 1]]), parse_float=Decimal)
    return parsed["minValues"].get("c"), parsed["maxValues"].get("c")


@pytest.mark.parametrize(
    ("kind", "low", "high", "expected"),
    [
        ("long", -(2**63), 2**63 - 1, (-(2**63), 2**63 - 1)),
        ("byte", -1, 1, (-1, 1)),
        ("date", -1, 18262, ("1969-12-31", "2020-01-01")),
        ("timestamp", -1, 1577836800123999, ("1969-12-31T23:59:59.999Z", "2020-01-01T00:00:00.123Z")),
        ("timestamp_ntz", 0, 1999, ("1970-01-01T00:00:00.000", "1970-01-01T00:00:00.001")),
        ("timestamp", -(2**63), 2**63 - 1, (None, None)),
        ("date", -(2**31), 2**31 - 1, (None, None)),
        (DecimalType(38, 2), "-0.10", "123456789012345678901234567890123456.78",
         (Decimal("-0.10"), Decimal("123456789012345678901234567890123456.78"))),
        ("double", float("nan"), "NaN", (None, None)),
        ("double", "-Infinity", "Infinity", ("-Infinity", "Infinity")),
        ("double", float("-inf"), 1e300, ("-Infinity", Decimal("1e300"))),
        ("float", 0.1, 2, (Decimal("0.1"), Decimal("2.0"))),
        ("string", "a" * 32, "b" * 32, ("a" * 32, "b" * 32)),
        ("string", "a" * 33, "b" * 33, ("a" * 32, "b" * 32 + "\x7f")),
        ("string", "é" * 40, "é" * 40, ("é" * 32, "é" * 32 + "\U0010ffff")),
        ("string", "x", "b" * 32 + "\U0010ffff\x7f!", ("x", "b" * 32 + "\U0010ffff\U0010ffff")),
        ("string", "x", "\U0010ffff" * 65, ("x", None)),
        ("string", "ab\ufffdc", "ab\ufffdc", ("ab", None)),
        ("string", '"\\\n\u0001', '"\\\n\u0001', ('"\\\n\u0001', '"\\\n\u0001')),
        ("boolean", False, True, (None, None)),
        ("binary", None, None, (None, None)),
        ("long", None, None, (None, None)),
    ],
)  # fmt: skip
def test_bounds_are_spelled_as_readers_expect(kind, low, high, expected):
    assert bounds(kind, low, high) == expected


def test_structs_nest_and_unknown_counts_are_left_out():
    leaves = [leaf("long", "a", "b", "c"), leaf("string", "a", 'q"'), leaf("boolean", "d"), leaf("long", "e", "f")]
    text = statistics_json(7, leaves, [[1, 2, 0], ["x", "y", 3], [None, None, 2], [None, None, None]])
    assert json.loads(text) == {
        "numRecords": 7,
        "minValues": {"a": {"b": {"c": 1}, 'q"': "x"}},
        "maxValues": {"a": {"b": {"c": 2}, 'q"': "y"}},
        "nullCount": {"a": {"b": {"c": 0}, 'q"': 3}, "d": 2},
    }


def test_tight_bounds_are_said_only_when_asked():
    assert json.loads(statistics_json(0, [], [], tight_bounds=False)) == {
        "numRecords": 0, "minValues": {}, "maxValues": {}, "nullCount": {}, "tightBounds": False,
    }  # fmt: skip


def test_wrong_number_of_values_is_refused():
    with pytest.raises(ValueError, match="shorter"):
        statistics_json(1, [leaf("long")], [])


@given(st.text(max_size=100), st.integers(1, 40))
def test_text_bounds_bound(text, length):
    stats = json.loads(statistics_json(1, [leaf("string")], [[text, text, 0]], string_length=length))
    low, high = stats["minValues"].get("c"), stats["maxValues"].get("c")
    assert low is not None
    assert low.encode() <= text.encode()
    assert high is None or high.encode() >= text.encode()


@settings(deadline=None)
@given(st.integers(-(2**62), 2**62), st.integers(0, 10**7))
def test_readers_find_timestamps_within_the_bounds(low, extent):
    schema = StructType((StructField("c", PrimitiveType("timestamp")),))
    stats = statistics_json(1, [leaf("timestamp")], [[low, low + extent, 0]])
    action = {"path": "f", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True, "stats": stats}
    block = FileBlock.of_table(table_of([action], FILE_SCHEMA))
    columns = block_statistics(block, [leaf_of(schema, ("c",))])
    read_low, read_high = columns["min.0"][0].value, columns["max.0"][0].value
    assert read_low is None or read_low <= low
    assert read_high is None or read_high >= low + extent


@pytest.mark.alone
def test_a_thousand_files_take_little_time():
    leaves = [leaf(kind, f"c{i}") for i in range(8) for kind in ("long", "string", "double", "timestamp")]
    values = [v for _ in range(8) for v in ([1, 2, 0], ["a", "b" * 40, 0], [0.5, 1.5, 0], [0, 10**15, 0])]
    started = time.perf_counter()
    for _ in range(1000):
        statistics_json(5, leaves, values)
    assert time.perf_counter() - started < 5  # seconds; measured 0.4 on a busy machine of two cores
