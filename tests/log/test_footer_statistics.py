"""Statistics from footers: exact, or left open."""

import datetime
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.log.statistics.from_footers import counts_nan, statistics_of
from headwater.protocol.columns import leaves
from headwater.protocol.types import parse_schema

UTC = datetime.timezone.utc


def schema(*columns):
    """(name, type) or (name, type, metadata) each."""
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": (more or [{}])[0]} for name, kind, *more in columns
    ]
    return {"type": "struct", "fields": fields}


def found(tmp_path, table, columns, *, by_id=False, **options):
    path = tmp_path / "f.parquet"
    pq.write_table(table, path, **options)
    asked = list(leaves(parse_schema(json.dumps(schema(*columns)))))
    return statistics_of(pq.read_metadata(path), asked, by_id=by_id)


@pytest.mark.parametrize("row_group_size", [1, 10])
def test_values_are_those_of_all_row_groups(tmp_path, row_group_size):
    days = [datetime.date(1960, 1, 1), None, datetime.date(2000, 1, 1)]
    times = [datetime.datetime(1960, 1, 1, 0, 0, 0, 5), None, datetime.datetime(2000, 1, 1)]
    table = pa.table(
        {
            "b": pa.array([3, None, -1], pa.int8()),
            "l": pa.array([3, None, 2**62], pa.int64()),
            "s": ["é", None, "a"],
            "d": days,
            "t": pa.array(times, pa.timestamp("ms" if row_group_size == 1 else "us", "UTC")),
            "n": pa.array(times, pa.timestamp("ns")),
            "de": pa.array([Decimal("12.50"), None, Decimal("-3")], pa.decimal128(30, 2)),
            "x": [b"x", None, b"y"],
            "st": [{"y": {"z": 1}}, None, {"y": None}],
            "nothing": pa.nulls(3, pa.int32()),
        }
    )
    columns = [
        ("b", "byte"), ("l", "long"), ("s", "string"), ("d", "date"), ("t", "timestamp"), ("n", "timestamp_ntz"),
        ("de", "decimal(30,2)"), ("x", "binary"), ("st", schema(("y", schema(("z", "long"))))), ("nothing", "integer"),
        ("later", "string"),
    ]  # fmt: skip
    known = found(tmp_path, table, columns, row_group_size=row_group_size, version="2.6")
    first = -315_619_200_000_000
    micros = 0 if row_group_size == 1 else 5
    last = 946_684_800_000_000
    assert known.rows == 3
    assert known.values == [
        (-1, 3, 1), (3, 2**62, 1), ("a", "é", 1), (-3653, 10957, 1), (first + micros, last, 1), (first + 5, last, 1),
        ("-3.00", "12.50", 1), (None, None, 1), (1, 1, 2), (None, None, 3), (None, None, 3),
    ]  # fmt: skip


INT96 = {"use_deprecated_int96_timestamps": True}


@pytest.mark.parametrize(
    ("array", "kind", "options"),
    [
        (pa.array([1.0, float("nan")]), "double", {}),  # this writer leaves NaN out
        (pa.array([datetime.datetime(2000, 1, 1)], pa.timestamp("us")), "timestamp", {}),
        (pa.array([datetime.datetime(2000, 1, 1)], pa.timestamp("us", "UTC")), "timestamp_ntz", {}),
        (pa.array([datetime.datetime(2000, 1, 1)], pa.timestamp("us")), "timestamp", INT96),
        (pa.array([datetime.date(1500, 1, 1)]), "date", {}),  # of which calendar?
        (pa.array([1], pa.int32()), "double", {}),
        (pa.array([1], pa.int32()), "decimal(12,0)", {}),
        (pa.array([1], pa.uint32()), "long", {}),
        (pa.array([b"\xff"]), "string", {}),
        (pa.array([1]), "long", {"write_statistics": False}),
        (pa.array([[1]]), "long", {}),
    ],
)  # fmt: skip
def test_what_is_not_sure_is_left_open(tmp_path, array, kind, options):
    assert found(tmp_path, pa.table({"c": array}), [("c", kind)], **options).values == [None]


SPARK, MARK = "org.apache.spark.version", "org.apache.spark.legacyDateTime"


@pytest.mark.parametrize(
    ("said", "is_exact"),
    [({}, False), ({MARK: ""}, False), ({SPARK: "2.4.8"}, False), ({SPARK: "4.0.0", MARK: ""}, False),
     ({SPARK: "3.0.0"}, True), ({SPARK: "4.2.0"}, True)],
)  # fmt: skip
@pytest.mark.parametrize("since", [datetime.date(1582, 10, 14), datetime.date(1582, 10, 15)])
def test_days_before_the_calendars_agree_are_left_open_unless_the_file_names_its_calendar(
    tmp_path, said, is_exact, since
):
    """Later ones are the same in both."""
    table = pa.table({"d": [since, datetime.date(2000, 1, 1)]}).replace_schema_metadata(said)
    low = (since - datetime.date(1970, 1, 1)).days
    expected = (low, 10957, 0) if is_exact or since.day == 15 else None
    assert found(tmp_path, table, [("d", "date")]).values == [expected]


def test_names_differ_in_case_and_may_be_ambiguous(tmp_path):
    assert found(tmp_path, pa.table({"Ab": [1]}), [("aB", "long")]).values == [(1, 1, 0)]
    assert found(tmp_path, pa.table([[1], [2]], ["a", "A"]), [("a", "long")]).values == [None]


def test_dots_in_names_are_no_steps_into_structs(tmp_path):
    inside = ("a", schema(("b", "long")))
    assert found(tmp_path, pa.table({"a.b": [1]}), [("a.b", "long"), inside]).values == [(1, 1, 0), (None, None, 1)]
    assert found(tmp_path, pa.table({"a": [{"b": 1}]}), [("a.b", "long"), inside]).values == [
        (None, None, 1),
        (1, 1, 0),
    ]
    both = pa.table({"a.b": [1], "a": [{"b": 2}], "l": [[{"b.c": 3}]]})
    assert found(tmp_path, both, [("a.b", "long"), inside, ("l", "long")]).values == [(1, 1, 0), (2, 2, 0), None]


def test_columns_by_id(tmp_path):
    def column(name, number, kind="long"):
        return (name, kind, {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": name})

    def field(name, kind, number):
        return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})

    inner = pa.struct([field("x", pa.int64(), 3)])
    lists = pa.list_(pa.struct([field("q", pa.int64(), 9)]))
    kinds = pa.schema([field("l", lists, 8), field("b", inner, 2), field("a", pa.int64(), 1)])
    table = pa.table([[[{"q": 7}]], [{"x": 5}], [4]], schema=kinds)
    columns = [column("b", 1), column("other", 2, schema(column("y", 3))), column("new", 4)]
    assert found(tmp_path, table, columns, by_id=True).values == [(4, 4, 0), (5, 5, 0), (None, None, 1)]
    without = pa.table({"b": [1]})
    assert found(tmp_path, without, columns[:1], by_id=True).values == [None]


@pytest.mark.parametrize(
    ("created_by", "counts"),
    [
        ("parquet-mr version 1.17.0 (build 4afbd0ad)", True),
        ("parquet-mr version 1.10.1", True),
        ("parquet-mr version 1.12.3-databricks-0001 (build abc)", True),
        ("parquet-mr version 2.0.0 (build x)", True),
        # It compared with `<` and `>`, which NaN never meets.
        ("parquet-mr version 1.8.1 (build x)", False),
        ("parquet-mr compatible Photon version 0.2 (build 11.3)", False),
        ("parquet-cpp-arrow version 21.0.0", False),
        ("parquet-mr", False),
        ("", False),
    ],
)
def test_which_writers_count_nan(created_by, counts):
    assert counts_nan(created_by) is counts
