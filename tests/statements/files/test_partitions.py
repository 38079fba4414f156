"""Values of partition columns: which texts are one value, and which values a write stores as null."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.protocol.partition_values import key_of, text_of, texts_of
from headwater.protocol.types import StructField, parse_type
from headwater.statements.files.partitions import in_partitions
from support.recording_statement import RecordingStatement

#: For each type, texts in groups of one value each.
EQUAL_TEXTS = {
    "double": [["1", "1.0", "1.00", "1E0"], ["0.0", "-0.0", "0"], ["NaN"], ["Infinity"], ["-Infinity"], ["0.1"]],
    "decimal(12,4)": [["1", "1.0", "1.0000", "+1.0"], ["-0.5", "-0.5000", "-.5"], ["0", "0.0", "-0.0"]],
    "long": [["1", "+1", "01"], ["-1"], ["0", "-0"]],
    "date": [["2024-01-02", "2024-1-2", "2024-01-02 00:00:00"], ["2024-01-03"]],
    "timestamp": [
        ["2024-01-02T05:00:00.000000Z", "2024-01-02 00:00:00", "2024-01-02T00:00:00-05:00", "2024-01-02 00:00:00.0"],
        ["2024-01-02T00:00:00.000000Z", "2024-01-01 19:00:00"],
    ],
    "timestamp_ntz": [["2024-01-02 00:00:00", "2024-01-02T00:00:00.000"], ["2024-01-02 05:00:00"]],
    "boolean": [["true", "TRUE"], ["false", "False"]],
    "string": [["a"], ["A"], ["a "], ["1"], ["1.0"]],
    "binary": [["a"], ["A"]],
}
ZONE = "America/New_York"


def partitions(*columns: str) -> st.SearchStrategy[tuple[tuple[str | None, int | None], ...]]:
    """A text of each column, with the number of its value; null is its own value, and so is an empty text."""
    of_each = []
    for kind in columns:
        texts = [(text, number) for number, group in enumerate(EQUAL_TEXTS[kind]) for text in group]
        of_each.append(st.sampled_from([*texts, (None, None), ("", None)]))
    return st.tuples(*of_each)


@given(st.data(), st.lists(st.sampled_from(sorted(EQUAL_TEXTS)), min_size=1, max_size=3))
def test_files_lie_in_one_partition_if_their_values_are_equal(data, kinds):
    drawn = st.lists(partitions(*kinds), max_size=8)
    files, written = data.draw(drawn), data.draw(drawn)
    columns = [StructField(f"p{i}", parse_type(kind)) for i, kind in enumerate(kinds)]
    names = [column.name for column in columns]
    statement = RecordingStatement()
    statement.time_zone = ZONE
    maps = [[(name, text) for name, (text, _) in zip(names, file, strict=True)] for file in files]
    found = in_partitions(
        statement,
        pa.chunked_array([pa.array(maps, pa.map_(pa.string(), pa.string()))]),
        columns,
        [{name: text for name, (text, _) in zip(names, partition, strict=True)} for partition in written],
    )
    wanted = {tuple(number for _, number in partition) for partition in written}
    assert found.to_pylist() == [tuple(number for _, number in file) in wanted for file in files]


def test_padded_values_are_equal():
    column = StructField("p", parse_type("string"), metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(3)"})
    maps = pa.chunked_array(
        [pa.array([[("p", "a")], [("p", "a  ")], [("p", "b  ")]], pa.map_(pa.string(), pa.string()))]
    )
    assert in_partitions(RecordingStatement(), maps, [column], [{"p": "a  "}]).to_pylist() == [True, True, False]


def test_a_text_that_is_no_value_of_its_type_is_equal_to_itself():
    assert key_of("x", parse_type("long")) == key_of("x", parse_type("long")) != key_of("1", parse_type("long"))
    assert key_of("1.23456", parse_type("decimal(3,1)")) != key_of("1.2", parse_type("decimal(3,1)"))
    assert key_of("1.2", parse_type("decimal(3,1)")) == Decimal("1.2")


NAMES = st.sampled_from(["p", "P", "q", "r"])
VALUES = st.sampled_from(["", "a", "b", None])


@given(
    st.one_of(
        st.lists(st.dictionaries(NAMES, VALUES, max_size=3), max_size=5),
        st.tuples(st.permutations(["P", "q", "r"]), st.lists(st.tuples(VALUES, VALUES, VALUES), max_size=5)).map(
            lambda drawn: [dict(zip(drawn[0], values, strict=True)) for values in drawn[1]]
        ),
    ),
    st.integers(0, 3),
)
def test_the_text_of_a_value(files, cut):
    """By the exact name first, then by another spelling; an empty text is null."""

    def model(values: dict[str, str | None]) -> str | None:
        return (values["p"] if "p" in values else values.get("P")) or None

    kind = pa.map_(pa.string(), pa.string())
    whole = pa.array([list(values.items()) for values in files], kind)
    chunked = pa.chunked_array([whole.slice(0, cut), whole.slice(cut)], kind)
    assert texts_of(chunked, "p").to_pylist() == [model(values) for values in files]
    assert [text_of(values, "p") for values in files] == [model(values) for values in files]


@pytest.mark.parametrize("values", [None, {}])
def test_no_values(values):
    assert text_of(values, "p") is None


def test_many_columns_of_many_values():
    columns = [StructField(f"c{i}", parse_type("string")) for i in range(7)]
    values = [{f"c{i}": str(number) for i in range(7)} for number in range(1024)]
    values += [{**values[0], "c0": str(number)} for number in range(1, 1024)]
    maps = pa.chunked_array([pa.array([list(each.items()) for each in values], pa.map_(pa.string(), pa.string()))])
    found = in_partitions(RecordingStatement(), maps, columns, [values[0]])
    assert found.to_pylist() == [number == 0 for number in range(len(values))]
