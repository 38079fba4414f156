"""Paths of columns and the choice of indexed leaves."""

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.protocol.columns import find_path, format_name, leaves, parse_name, parse_name_list
from headwater.protocol.indexed_columns import check_statistics_columns, indexed_leaves
from headwater.protocol.types import ArrayType, MapType, PrimitiveType, StructField, StructType

INT, STRING, BOOLEAN = PrimitiveType("integer"), PrimitiveType("string"), PrimitiveType("boolean")


def struct(**fields):
    return StructType(tuple(StructField(name, kind) for name, kind in fields.items()))


SCHEMA = struct(
    i=INT,
    st=struct(
        a=INT, b=PrimitiveType("binary"), c=BOOLEAN, d=ArrayType(INT), e=struct(f=STRING), v=PrimitiveType("void")
    ),
    arr=ArrayType(struct(x=INT)),
    m=MapType(STRING, INT),
    d=PrimitiveType("date"),
)


def indexed(partitions=(), **configuration):
    options = {f"delta.{key}": value for key, value in configuration.items()}
    return [".".join(path) for path, _ in indexed_leaves(SCHEMA, partitions, options)]


def test_leaves_enter_structs_but_not_collections():
    assert [".".join(leaf.path) for leaf in leaves(SCHEMA)] == (
        ["i", "st.a", "st.b", "st.c", "st.d", "st.e.f", "st.v", "arr", "m", "d"]
    )


def test_leaves_carry_physical_paths():
    inner = StructField("x", INT, metadata={"delta.columnMapping.physicalName": "col-2"})
    outer = StructField("s", StructType((inner,)), metadata={"delta.columnMapping.physicalName": "col-1"})
    (leaf,) = leaves(StructType((outer,)))
    assert (leaf.path, leaf.physical_path) == (("s", "x"), ("col-1", "col-2"))
    assert indexed_leaves(StructType((outer,)), [], {}) == [(("col-1", "col-2"), INT)]


def test_arrays_count_for_the_limit_but_have_no_statistics():
    assert indexed(dataSkippingNumIndexedCols="5") == ["i", "st.a", "st.b", "st.c"]
    assert indexed(dataSkippingNumIndexedCols="6") == ["i", "st.a", "st.b", "st.c", "st.e.f"]
    assert indexed(dataSkippingNumIndexedCols="0") == []


def test_no_limit_and_the_default_of_32():
    assert indexed(dataSkippingNumIndexedCols="-1")[-1] == "d"
    wide = struct(**{f"c{n}": INT for n in range(40)})
    assert len(indexed_leaves(wide, [], {})) == 32


def test_partition_columns_are_no_data_columns():
    assert indexed(["I"], dataSkippingNumIndexedCols="1") == ["st.a"]


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("st", ["st.a", "st.b", "st.c", "st.e.f"]),
        ("ST.e, `d`", ["st.e.f", "d"]),
        ("d,gone", ["d"]),
        ("", []),
    ],
)
def test_named_columns_win_over_the_number(named, expected):
    assert indexed(dataSkippingStatsColumns=named, dataSkippingNumIndexedCols="1") == expected


def test_names_parse_with_quotes():
    assert parse_name_list("a.`b.c` , `d``e`,f g") == [("a", "b.c"), ("d`e",), ("f g",)]
    assert format_name(("a", "b.c", "d`e")) == "a.`b.c`.`d``e`"
    assert parse_name(format_name(("x y", "z`"))) == ("x y", "z`")


@pytest.mark.parametrize("text", ["a,,b", "`a", "a.", ",", "`a`b"])
def test_no_name_is_an_error(text):
    with pytest.raises(HeadwaterError) as error:
        parse_name_list(text)
    assert error.value.condition == "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA"


def test_find_path_goes_through_collections():
    assert find_path(SCHEMA, ("ARR", "element", "X")).name == "x"
    assert find_path(SCHEMA, ("arr", "element")) is None
    assert find_path(SCHEMA, ("i", "x")) is None


@pytest.mark.parametrize(
    ("named", "condition"),
    [
        ("nope", "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA"),
        ("st.nope", "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA"),
        ("i,I", "DELTA_DUPLICATE_DATA_SKIPPING_COLUMNS"),
        ("st.c", "DELTA_COLUMN_DATA_SKIPPING_NOT_SUPPORTED_TYPE"),
        ("arr", "DELTA_COLUMN_DATA_SKIPPING_NOT_SUPPORTED_TYPE"),
        ("d", "DELTA_COLUMN_DATA_SKIPPING_NOT_SUPPORTED_PARTITIONED_COLUMN"),
    ],
)
def test_statistics_columns_that_cannot_be(named, condition):
    with pytest.raises(HeadwaterError) as error:
        check_statistics_columns(SCHEMA, ["d"], {"delta.dataSkippingStatsColumns": named})
    assert error.value.condition == condition
    check_statistics_columns(SCHEMA, ["d"], {"delta.dataSkippingStatsColumns": "i, st.e"})
