from __future__ import annotations

import json
import math
from datetime import date, datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.log.files import FileBlock
from headwater.log.statistics import json_values
from headwater.log.statistics.columns import Leaf, block_statistics, leaf_of
from headwater.log.statistics.json_values import values_of
from headwater.protocol.types import DecimalType, PrimitiveType, parse_schema
from support.log_writer import CHECKPOINT

UTC = timezone.utc


@pytest.fixture(autouse=True, params=["dictionaries", "structs"])
def decoder(request, monkeypatch):
    """Both ways of reading JSON must give the same."""
    if request.param == "dictionaries":

        def refuse(texts):
            raise ValueError("as of a text that does not fit")

        monkeypatch.setattr(json_values, "_struct_reader", lambda wanted: refuse)


def block_of(texts):
    return FileBlock.of_actions([{"path": str(i), "size": 1, "stats": text} for i, text in enumerate(texts)])


def bounds(kind, minimum, maximum=None, nulls=None, was_float=False):
    """(min, max, nulls) of a file whose statistics have these JSON texts as values."""
    data_type = kind if isinstance(kind, DecimalType) else PrimitiveType(kind)
    parts = {"minValues": minimum, "maxValues": minimum if maximum is None else maximum, "nullCount": nulls}
    text = ",".join(f'"{name}":{{"c":{value}}}' for name, value in parts.items() if value is not None)
    result = block_statistics(block_of(["{" + text + "}"]), [Leaf(("c",), data_type, was_float)])
    return tuple(result[name][0].as_py() for name in ("min.0", "max.0", "nulls.0"))


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("integer", "7", 7),
        ("long", str(2**63 - 1), 2**63 - 1),
        ("byte", "-128", -128),
        ("double", "1.5", 1.5),
        ("double", "3", 3.0),
        ("double", "1.0E300", 1e300),
        ("double", '"Infinity"', math.inf),
        ("double", '"-Infinity"', -math.inf),
        ("float", "0.1", pa.scalar(0.1, pa.float32()).as_py()),
        ("string", '"a\\u00e9\\n\\"b"', 'aé\n"b'),
        ("boolean", "true", True),
        ("date", '"2024-02-29"', date(2024, 2, 29)),
        ("date", '"1582-10-15"', date(1582, 10, 15)),
        (DecimalType(5, 2), "12.34", Decimal("12.34")),
        (DecimalType(5, 2), "12", Decimal("12.00")),
        (DecimalType(15, 3), "-999999999999.999", Decimal("-999999999999.999")),
        (
            DecimalType(38, 10),
            "1234567890123456789012345678.0123456789",
            Decimal("1234567890123456789012345678.0123456789"),
        ),
        (
            DecimalType(38, 0),
            "12345678901234567890123456789012345678",
            Decimal("12345678901234567890123456789012345678"),
        ),
    ],
)
def test_a_value_of_the_type_is_the_bound(kind, text, expected):
    assert bounds(kind, text, nulls=3) == (expected, expected, 3)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("integer", '"7"'),
        ("integer", "7.5"),
        ("integer", str(2**31)),
        ("long", str(2**63)),
        ("long", "true"),
        ("byte", "128"),
        ("double", '"NaN"'),
        ("double", '"1.5"'),
        ("double", "true"),
        ("double", "NaN"),
        ("float", '"NaN"'),
        ("string", "5"),
        ("string", '"\\ud83d"'),
        ("boolean", '"true"'),
        ("boolean", "1"),
        ("date", '"soon"'),
        ("date", '"2023-02-29"'),
        ("date", "19000"),
        ("timestamp", '"2024-01-01T00:00:00"'),
        ("timestamp", "17"),
        ("timestamp_ntz", '"2024-01-01T00:00:00Z"'),
        (DecimalType(5, 2), "12.345"),
        (DecimalType(5, 2), "12345"),
        (DecimalType(5, 2), '"12.34"'),
        (DecimalType(20, 2), "12.345"),
        (DecimalType(20, 2), '"NaN"'),
        ("binary", '"abc"'),
        ("interval day", '"abc"'),
        ("integer", "null"),
        ("integer", "{}"),
    ],
)
def test_any_other_value_is_no_bound(kind, text):
    assert bounds(kind, text)[:2] == (None, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-01-01T00:00:00.123Z", datetime(2024, 1, 1, 0, 0, 0, 123000, UTC)),
        ("2024-01-01T00:00:00Z", datetime(2024, 1, 1, tzinfo=UTC)),
        ("2024-01-01T02:00:00.000+02:00", datetime(2024, 1, 1, tzinfo=UTC)),
        ("2023-12-31T16:30:00.000-07:30", datetime(2024, 1, 1, tzinfo=UTC)),
        ("2024-01-01 00:00:00.000001Z", datetime(2024, 1, 1, 0, 0, 0, 1, UTC)),
        ("1972-02-01T00:00:00.999Z", datetime(1972, 2, 1, 0, 0, 0, 999000, UTC)),
    ],
)
def test_timestamps_bound_what_was_truncated_to_milliseconds(text, expected):
    low, high, _ = bounds("timestamp", f'"{text}"')
    assert low == expected
    assert high - expected == (datetime(1, 1, 1, 0, 0, 0, 999) - datetime(1, 1, 1))


def test_wall_clock_timestamps():
    low, high, _ = bounds("timestamp_ntz", '"2024-01-01T00:00:00.123"')
    assert (low, high) == (datetime(2024, 1, 1, 0, 0, 0, 123000), datetime(2024, 1, 1, 0, 0, 0, 123999))


def test_a_column_that_was_float_is_bounded_for_values_of_both_types():
    low, high, _ = bounds("double", "0.1", was_float=True)
    assert low == 0.1
    assert high == pa.scalar(0.1, pa.float32()).as_py() > 0.1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        "5",
        '{"numRecords":"many"}',
        '{"numRecords":-1}',
        "{}{}",
        '{"minValues":5}',
        "\n",
        '"x"',
        "[" * 100_000,
    ],
)
def test_damaged_texts_tell_nothing_and_do_no_harm_to_others(text):
    good = '{"numRecords":5,"minValues":{"c":1},"maxValues":{"c":2},"nullCount":{"c":0}}'
    result = block_statistics(block_of([good, text, None, good]), [Leaf(("c",), PrimitiveType("long"))])
    assert result["num_records"].to_pylist() == [5, None, None, 5]
    assert result["min.0"].to_pylist() == [1, None, None, 1]
    assert result["max.0"].to_pylist() == [2, None, None, 2]
    assert result["nulls.0"].to_pylist() == [0, None, None, 0]


def test_nested_leaves_and_names_that_are_no_identifiers():
    stats = {
        "numRecords": 3,
        "tightBounds": False,
        "minValues": {"a.b": 1, "s": {"a.b": "x", "class": 5}},
        "maxValues": {"s": {"a.b": "y"}, "a.b": {"not": "a number"}},
        "nullCount": {"s": {"class": 2}, "a.b": 9},
    }
    leaves = [
        Leaf(("a.b",), PrimitiveType("long")),
        Leaf(("s", "a.b"), PrimitiveType("string")),
        Leaf(("s", "class"), PrimitiveType("integer")),
        Leaf(("s", "none", "deeper"), PrimitiveType("integer")),
        Leaf(("unknown",), None),
    ]
    result = block_statistics(block_of([json.dumps(stats)]), leaves)
    rows = [[result[f"{bound}.{i}"][0].as_py() for bound in ("min", "max", "nulls")] for i in range(5)]
    assert rows == [[1, None, 9], ["x", "y", None], [5, None, 2], [None] * 3, [None] * 3]
    assert result["tight_bounds"].to_pylist() == [False]


def test_types_are_the_leafs_even_where_nothing_is_known():
    leaves = [Leaf(("c",), PrimitiveType(name)) for name in ("timestamp", "binary", "date")]
    result = block_statistics(block_of([None]), leaves)
    assert [result[f"max.{i}"].type for i in range(3)] == [pa.timestamp("us", "UTC"), pa.binary(), pa.date32()]


def test_each_leaf_is_parsed_once(monkeypatch):
    block = block_of(['{"numRecords":1,"minValues":{"a":1,"b":2}}'])
    a, b = (Leaf((name,), PrimitiveType("long")) for name in "ab")
    block_statistics(block, [a])
    block_statistics(block, [b, a])
    monkeypatch.setattr(block, "statistics", None)
    assert block_statistics(block, [a, b])["min.1"].to_pylist() == [2]


def test_leaves_are_found_by_physical_name():
    field = {
        "name": "new",
        "type": "double",
        "nullable": True,
        "metadata": {
            "delta.columnMapping.physicalName": "col-1",
            "delta.typeChanges": [{"fromType": "float", "toType": "double"}],
        },
    }
    outer = {"name": "s", "type": {"type": "struct", "fields": [field]}, "nullable": True, "metadata": {}}
    schema = parse_schema(json.dumps({"type": "struct", "fields": [outer]}))
    assert leaf_of(schema, ("s", "col-1")) == Leaf(("s", "col-1"), PrimitiveType("double"), True)
    assert leaf_of(schema, ("s", "new")).type is None
    assert leaf_of(schema, ("s", "col-1", "x")).type is None


PARSED = pa.struct(
    [
        ("numRecords", pa.int64()),
        (
            "minValues",
            pa.struct([("i", pa.int32()), ("d", pa.float64()), ("t", pa.timestamp("us")), ("x", pa.string())]),
        ),
        (
            "maxValues",
            pa.struct([("i", pa.int32()), ("d", pa.float64()), ("t", pa.timestamp("us")), ("x", pa.string())]),
        ),
        ("nullCount", pa.struct([("i", pa.int64())])),
    ]
)
COLUMNS = {"i": "long", "d": "double", "t": "timestamp", "x": "integer", "z": "integer"}


def test_parsed_statistics_of_checkpoints_are_used(log):
    moment = datetime(2024, 1, 1)
    parsed = {
        "numRecords": 4,
        "minValues": {"i": 1, "d": 0.5, "t": moment, "x": "1"},
        "maxValues": {"i": 2, "d": math.nan, "t": moment, "x": "2"},
        "nullCount": {"i": 0},
    }
    add = pa.struct([("path", pa.string()), ("size", pa.int64()), ("stats", pa.string()), ("stats_parsed", PARSED)])
    schema = CHECKPOINT.set(CHECKPOINT.get_field_index("add"), pa.field("add", add))
    text = '{"numRecords":9,"minValues":{"i":7}}'
    rows = [action.to_json() for action in log.header(COLUMNS)]
    rows += [
        {"add": {"path": "parsed", "size": 1, "stats_parsed": parsed}},
        {"add": {"path": "text", "size": 1, "stats": text}},
        {"add": {"path": "none", "size": 1}},
    ]
    log.parquet("00000000000000000001.checkpoint.parquet", rows, schema)
    result = log.load().statistics([(name,) for name in COLUMNS])
    assert result["num_records"].to_pylist() == [4, 9, None]
    assert result["min.0"].to_pylist() == [1, 7, None]
    assert result["max.0"].to_pylist() == [2, None, None]
    assert result["nulls.0"].to_pylist() == [0, None, None]
    assert result["min.1"].to_pylist() == [0.5, None, None]
    assert result["max.1"].to_pylist() == [None] * 3
    assert result["min.2"][0].as_py() == moment.replace(tzinfo=UTC)
    assert result["max.2"][0].as_py() == datetime(2024, 1, 1, 0, 0, 0, 999, UTC)
    assert result["min.3"].to_pylist() == [None] * 3  # text is no number
    assert result["min.4"].type == pa.int32()


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["c", "d", "x"]), inner, max_size=3),
    max_leaves=6,
)
_KINDS = [PrimitiveType(n) for n in ("long", "double", "string", "boolean", "date", "timestamp")] + [
    DecimalType(9, 2),
    DecimalType(20, 2),
]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.none() | st.dictionaries(st.sampled_from(["numRecords", "minValues", "maxValues", "nullCount"]), _json),
        max_size=5,
    ),
    st.sampled_from(_KINDS),
)
def test_any_json_gives_a_column_of_the_type(documents, kind):
    texts = [None if document is None else json.dumps(document) for document in documents]
    result = block_statistics(block_of(texts), [Leaf(("c",), kind), Leaf(("d", "x"), kind)])
    for name, column in result.items():
        assert len(column) == len(texts), name
        if name.startswith("min"):
            assert column.type == kind.to_arrow()
    for i, document in enumerate(documents):
        section = (document or {}).get("minValues")
        value = section.get("c") if isinstance(section, dict) else None
        if kind == PrimitiveType("long") and type(value) is int and abs(value) < 2**63:
            assert result["min.0"][i].as_py() == value


def test_values_keep_their_order_over_many_texts():
    texts = [f'{{"a":{{"b":{i}}}}}' if i % 7 else None if i % 2 else "{" for i in range(1000)]
    found = values_of(texts, {("a", "b"): int | None})
    assert found["a", "b"] == [i if i % 7 else None for i in range(1000)]


def test_values_of_columns_with_any_name():
    """Also of those whose names a JSON text has to escape."""
    names = [chr(code) for code in (*range(0x100), 0x2028, 0x1F30A)] + ['a"b', "a\\b", "$ref", "class", ""]
    for name in names:
        text = json.dumps({"minValues": {name: 7, "other": 8}})
        wanted = {("minValues", name): int | None, ("minValues", "other"): int | None}
        assert values_of([text, "{}"], wanted) == {("minValues", name): [7, None], ("minValues", "other"): [8, None]}
