"""Column mapping."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.basics.errors import HeadwaterError
from headwater.protocol.column_metadata import COLUMN_ID, NESTED_IDS, PHYSICAL_NAME
from headwater.protocol.columns import all_fields, map_fields
from headwater.protocol.types import ArrayType, MapType, PrimitiveType, StructField, StructType
from headwater.schema.evolution import NewColumn, add_columns
from headwater.schema.mapping import (
    assign,
    check_enabling,
    check_mode_change,
    keep,
    logical_path,
    max_column_id,
    physical_path,
    strip,
)

INT, STRING = PrimitiveType("integer"), PrimitiveType("string")
SCHEMA = StructType(
    (
        StructField("A", INT),
        StructField("st", StructType((StructField("X", INT),))),
        StructField("m", MapType(STRING, StructType((StructField("q", ArrayType(INT)),)))),
    )
)


def test_ids_are_given_parents_first_and_names_are_unique():
    mapped, highest = assign(SCHEMA, 0)
    ids = {".".join(path): field.metadata[COLUMN_ID] for path, field in all_fields(mapped)}
    assert ids == {"A": 1, "st": 2, "st.X": 3, "m": 4, "m.value.q": 5}
    assert highest == 5
    names = [field.physical_name for _, field in all_fields(mapped)]
    assert len(set(names)) == 5
    assert all(name.startswith("col-") for name in names)


def test_what_is_assigned_stays_and_dropped_ids_do_not_come_back():
    mapped, highest = assign(SCHEMA, 0)
    assert assign(mapped, highest) == (mapped, highest)
    fewer = StructType(mapped.fields[:2])
    grown, highest = assign(add_columns(fewer, [NewColumn(("b",), INT)]), 5)
    assert grown.find("b").metadata[COLUMN_ID] == 6 == highest
    assert grown.fields[:2] == mapped.fields[:2]
    assert max_column_id({}, mapped) == 5


def test_a_table_that_turns_mapping_on_keeps_its_names():
    mapped, _ = assign(SCHEMA, 0, keep_names=True)
    assert all(field.physical_name == field.name for _, field in all_fields(mapped))
    assert mapped.find("st").type.find("x").metadata[PHYSICAL_NAME] == "X"
    assert strip(mapped) == SCHEMA


@given(st.data())
def test_mapping_is_enabled_only_over_names_that_the_files_have(data):
    """Whatever an earlier mapping has left: it is refused, or each field has its own name and an id of its own."""

    def left(field, _):
        metadata = {}
        if data.draw(st.booleans()):
            metadata[COLUMN_ID] = data.draw(st.integers(1, 20))
        if data.draw(st.booleans()):
            metadata[PHYSICAL_NAME] = data.draw(st.sampled_from([field.name, field.name, "col-1"]))
        return replace(field, metadata=metadata)

    schema = map_fields(SCHEMA, left)
    mapped, _ = assign(schema, 0, keep_names=True)
    fields = [field for _, field in all_fields(mapped)]
    right = all(field.physical_name == field.name for field in fields)
    if right and len({field.metadata[COLUMN_ID] for field in fields}) == len(fields):
        check_enabling(schema, "/t")
    else:
        with pytest.raises(HeadwaterError, match="COLUMN_MAPPING_METADATA_ALREADY_EXISTS"):
            check_enabling(schema, "/t")


def test_paths_there_and_back():
    mapped, _ = assign(SCHEMA, 0)
    for path, _ in all_fields(mapped):
        physical = physical_path(mapped, tuple(part.upper() for part in path))
        assert logical_path(mapped, physical) == path
    assert physical_path(mapped, ("m", "value", "q", "element"))[-1] == "element"
    assert logical_path(mapped, ("gone",)) is None
    with pytest.raises(HeadwaterError, match="DELTA_COLUMN_NOT_FOUND_IN_SCHEMA"):
        physical_path(mapped, ("A", "x"))


def test_mode_changes():
    def change(old, new):
        check_mode_change({"delta.columnMapping.mode": old}, {"delta.columnMapping.mode": new})

    change("none", "name")
    change("id", "id")
    for old, new in [("none", "id"), ("name", "id"), ("name", "none"), ("id", "name")]:
        with pytest.raises(HeadwaterError, match="DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE"):
            change(old, new)


NAMES = ["a", "A", "b", "c"]
KEYS = [COLUMN_ID, PHYSICAL_NAME, NESTED_IDS]


def schemas(kinds):
    fields = st.builds(StructField, st.sampled_from(NAMES), kinds, st.booleans())
    several = st.lists(fields, min_size=1, max_size=4, unique_by=lambda field: field.name.lower())
    return several.map(lambda found: StructType(tuple(found)))


KINDS = st.recursive(
    st.sampled_from([INT, STRING]),
    lambda inner: st.one_of(
        st.builds(ArrayType, inner, st.booleans()),
        st.builds(MapType, inner, inner, st.booleans()),
        schemas(inner),
    ),
    max_leaves=6,
)


def types(schema):
    """All fields and their types, by path in lower case; what structs have and nullability are left out."""
    return {tuple(map(str.lower, path)): (shape(field.type), field) for path, field in all_fields(schema)}


def shape(kind):
    match kind:
        case StructType():
            return "struct"
        case ArrayType():
            return ("array", shape(kind.element))
        case MapType():
            return ("map", shape(kind.key), shape(kind.value))
    return kind


@given(schemas(KINDS), schemas(KINDS), st.booleans())
def test_columns_that_stay_the_same_keep_their_ids(old, new, nested):
    """Rows that replace a table's bring the same column if its name and type are the same, and so is what it is in."""
    before, highest = assign(old, 0, nested=nested)
    after, last = assign(keep(new, before), highest, nested=nested)
    assert strip(after) == strip(new)
    had, has = types(before), types(after)
    numbers = []
    for path, (_, field) in has.items():
        above = [path[:length] for length in range(1, len(path) + 1) if path[:length] in has]
        stays = all(each in had and had[each][0] == has[each][0] for each in above)
        ids = [field.metadata[COLUMN_ID], *field.metadata.get(NESTED_IDS, {}).values()]
        if stays:
            assert [field.metadata.get(key) for key in KEYS] == [had[path][1].metadata.get(key) for key in KEYS]
        else:
            assert min(ids) > highest
        numbers += ids
    assert len(set(numbers)) == len(numbers)
    assert last == max(highest, *numbers)
