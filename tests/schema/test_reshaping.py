"""Columns that are renamed, dropped, moved and replaced: against a plain model of ids and paths."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.basics.errors import HeadwaterError
from headwater.protocol.column_metadata import COLUMN_ID, DECLARED_TYPE, PHYSICAL_NAME, TYPE_CHANGES
from headwater.protocol.columns import all_fields, find_path
from headwater.protocol.types import ArrayType, MapType, PrimitiveType, StructField, StructType
from headwater.schema import mapping
from headwater.schema.declared import as_stored, can_relax, declared_type, with_declared
from headwater.schema.evolution import After, NewColumn, add_columns, change_type, set_comment
from headwater.schema.reshaping import (
    drop_column,
    follow_rename,
    move_column,
    rename_column,
    replace_columns,
    set_nullable,
    without,
)

INT, LONG, STRING = PrimitiveType("integer"), PrimitiveType("long"), PrimitiveType("string")
NAMES = "abcd"


def struct(**fields):
    return StructType(tuple(StructField(name, kind) for name, kind in fields.items()))


TABLE = struct(
    a=INT,
    s=struct(x=INT, y=struct(p=INT, q=STRING)),
    l=ArrayType(struct(e=INT, f=STRING)),
    m=MapType(struct(k=INT, n=INT), struct(v=INT, w=ArrayType(INT))),
)
STEPS = {"s": ("s",), "y": ("s", "y"), "l": ("l", "element"), "k": ("m", "key"), "v": ("m", "value"), "top": ()}


class Model:
    """A tree of columns: nested lists of [id, name, children]; a column that is not nested has None."""

    def __init__(self, schema):
        self.top = self.children(schema)

    def children(self, kind):
        match kind:
            case StructType():
                return [[f.metadata[COLUMN_ID], f.name, self.children(f.type)] for f in kind]
            case ArrayType():
                return {"element": self.children(kind.element)}
            case MapType():
                return {"key": self.children(kind.key), "value": self.children(kind.value)}
        return None

    def level(self, path):
        here = self.top
        for step in path:
            if isinstance(here, dict):
                here = here.get(step)
            elif isinstance(here, list):
                here = next((entry[2] for entry in here if entry[1].lower() == step.lower()), None)
            else:
                return None
        return here if isinstance(here, list) else None


@given(st.data())
def test_random_changes_keep_ids_and_places_as_a_plain_model_has_them(data):
    schema, highest = mapping.assign(TABLE, 0)
    model = Model(schema)
    used = {field.metadata[PHYSICAL_NAME]: field.metadata[COLUMN_ID] for _, field in all_fields(schema)}
    for _ in range(data.draw(st.integers(1, 8))):
        owners = [path for path in STEPS.values() if model.level(path) is not None]
        owner = data.draw(st.sampled_from(owners))
        level = model.level(owner)
        place = data.draw(st.integers(0, len(level) - 1))
        name = level[place][1]
        match data.draw(st.sampled_from(["rename", "drop", "move", "add"])):
            case "rename":
                new = data.draw(st.sampled_from([*NAMES, name.upper()]))
                if any(entry[1].lower() == new.lower() for entry in level if entry is not level[place]):
                    with pytest.raises(HeadwaterError, match="DELTA_ADD_COLUMN_EXISTS"):
                        rename_column(schema, (*owner, name), new)
                    continue
                schema = rename_column(schema, (*owner, name.swapcase()), new)
                level[place][1] = new
            case "drop" if len(level) == 1:
                with pytest.raises(HeadwaterError, match="DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA"):
                    drop_column(schema, (*owner, name))
            case "drop":
                schema = drop_column(schema, (*owner, name))
                del level[place]
            case "move":
                others = [entry[1] for entry in level if entry is not level[place]]
                after = data.draw(st.sampled_from([None, *others]))
                schema = move_column(schema, (*owner, name), None if after is None else After(after.upper()))
                entry = level.pop(place)
                level.insert(0 if after is None else [e[1] for e in level].index(after) + 1, entry)
            case "add":
                new = data.draw(st.sampled_from(NAMES))
                if any(entry[1].lower() == new for entry in level):
                    continue
                schema, highest = mapping.assign(add_columns(schema, [NewColumn((*owner, new), INT)]), highest)
                level.append([highest, new, None])
        assert Model(schema).top == model.top
    for _, field in all_fields(schema):
        # A physical name is that of the id it was given to first; none is given twice.
        assert used.setdefault(field.metadata[PHYSICAL_NAME], field.metadata[COLUMN_ID]) == field.metadata[COLUMN_ID]


@pytest.mark.parametrize(
    ("change", "condition"),
    [
        (lambda: rename_column(TABLE, ("nosuch",), "b"), "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA"),
        (lambda: rename_column(TABLE, ("l", "element"), "b"), "DELTA_UNSUPPORTED_FIELD_UPDATE_NON_STRUCT"),
        (lambda: drop_column(TABLE, ("a", "element")), "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA"),
        (lambda: drop_column(TABLE, ("m", "key")), "DELTA_UNSUPPORTED_FIELD_UPDATE_NON_STRUCT"),
        (lambda: move_column(TABLE, ("s", "x"), After("a")), "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA"),
        (lambda: set_comment(TABLE, ("l", "element"), "x"), "DELTA_UNSUPPORTED_COMMENT_MAP_ARRAY"),
        (lambda: set_comment(TABLE, ("m", "KEY"), "x"), "DELTA_UNSUPPORTED_COMMENT_MAP_ARRAY"),
        (lambda: set_comment(TABLE, ("l", "key"), "x"), "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA"),
        (lambda: set_comment(TABLE, ("element",), "x"), "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA"),
        (lambda: set_nullable(TABLE, ("l", "element"), False), "DELTA_UNSUPPORTED_FIELD_UPDATE_NON_STRUCT"),
        (
            lambda: replace_columns(TABLE, [NewColumn(("a",), INT)], may_drop=False, allow_widening=True),
            "DELTA_UNSUPPORTED_ALTER_TABLE_REPLACE_COL_OP",
        ),
        (
            lambda: replace_columns(TABLE, [NewColumn(("a",), STRING)], may_drop=True, allow_widening=True),
            "DELTA_UNSUPPORTED_ALTER_TABLE_REPLACE_COL_OP",
        ),
        (
            lambda: replace_columns(TABLE, [NewColumn(("s",), INT)], may_drop=True, allow_widening=True),
            "DELTA_UNSUPPORTED_ALTER_TABLE_REPLACE_COL_OP",
        ),
    ],
)
def test_what_cannot_be_is_refused(change, condition):
    with pytest.raises(HeadwaterError) as refused:
        change()
    assert refused.value.condition == condition


def test_replacing_columns_keeps_those_of_the_same_name_at_every_depth():
    schema, highest = mapping.assign(TABLE, 0)
    asked = [
        NewColumn(("M",), MapType(struct(k=INT, n=INT), struct(v=INT, w=ArrayType(LONG), new=INT)), comment="m"),
        NewColumn(("s",), struct(y=struct(q=STRING))),
        NewColumn(("a",), LONG, declared_type=None),
    ]
    replaced = replace_columns(schema, asked, may_drop=True, allow_widening=True)
    assert replaced.sql() == (
        "struct<m:map<struct<k:int,n:int>,struct<v:int,w:array<bigint>,new:int>>,s:struct<y:struct<q:string>>,a:bigint>"
    )
    for path, field in all_fields(replaced):
        old = find_path(schema, path)
        assert (old and old.metadata[COLUMN_ID]) == field.metadata.get(COLUMN_ID), path
    assert replaced.find("a").metadata[TYPE_CHANGES] == [{"fromType": "integer", "toType": "long"}]
    inner = find_path(replaced, ("m", "value", "w"))
    assert inner.metadata[TYPE_CHANGES] == [{"fromType": "integer", "toType": "long", "fieldPath": "element"}]
    with pytest.raises(HeadwaterError) as refused:
        replace_columns(TABLE, asked[:1], may_drop=True, allow_widening=False)
    assert "m.value.w.element" in refused.value.text


def test_an_expression_that_uses_no_such_column_resolves_without_it():
    assert without(TABLE, [("s", "y", "p")]).sql().startswith("struct<a:int,s:struct<x:int,y:struct<q:string>>")
    assert without(TABLE, [("l", "element", "e"), ("l", "element", "f")]).find("l") is None
    assert find_path(without(TABLE, [("m", "value", "w", "element")]), ("m", "value", "w")) is None
    assert without(struct(a=INT), [("a",)]) == StructType(())


def test_paths_follow_a_rename():
    assert follow_rename(("S", "y", "p"), ("s", "Y"), "z") == ("S", "z", "p")
    assert follow_rename(("t", "y"), ("s", "y"), "z") == ("t", "y")


def test_declared_texts_stay_with_what_is_renamed_added_and_dropped_beside_them():
    text = "struct<x:int,y:struct<p:char(2),q:varchar(7)>>"
    column = StructField("s", struct(x=INT, y=struct(p=STRING, q=STRING)), True, {DECLARED_TYPE: text})
    stored = StructType((column, StructField("v", STRING, True, {DECLARED_TYPE: "varchar(3)"})))
    schema = with_declared(stored)
    assert as_stored(schema) == stored
    schema = rename_column(schema, ("s", "y", "q"), "r")
    schema = drop_column(schema, ("s", "y", "p"))
    schema = add_columns(schema, [NewColumn(("s", "z"), declared_type(STRING, "varchar(9)"))])
    schema = change_type(schema, ("v",), STRING, allow_widening=False)
    schema = change_type(schema, ("s", "y", "r"), PrimitiveType("varchar(8)"), allow_widening=False)
    kept = as_stored(schema)
    assert kept.fields[0].metadata == {DECLARED_TYPE: "struct<x:int,y:struct<r:varchar(8)>,z:varchar(9)>"}
    assert kept.fields[1] == StructField("v", STRING)
    with pytest.raises(HeadwaterError, match="DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP"):
        change_type(schema, ("s", "y", "r"), PrimitiveType("varchar(7)"), allow_widening=True)


def test_declared_texts_that_do_not_fit_the_column_are_left_alone():
    stored = StructType((StructField("v", ArrayType(STRING), True, {DECLARED_TYPE: "array<int>"}),))
    assert with_declared(stored) == stored
    assert declared_type(MapType(STRING, INT), "map<char(3),int>") == MapType(PrimitiveType("char(3)"), INT)
    assert declared_type(struct(**{"a,b": STRING}), "struct<a,b:varchar(3)>").fields[0].type.sql() == "varchar(3)"


@pytest.mark.parametrize(
    ("old", "new", "may"),
    [
        ("varchar(3)", "varchar(3)", True),
        ("char(3)", "varchar(4)", True),
        ("char(3)", "char(4)", False),
        ("varchar(3)", "varchar(2)", False),
        ("varchar(3)", "string", True),
        ("string", "varchar(3)", False),
        ("varchar(3)", "long", False),
    ],
)
def test_only_longer_texts_may_follow(old, new, may):
    assert can_relax(PrimitiveType(old), PrimitiveType(new)) is may
