"""Schema evolution: merge, mismatch, ADD COLUMNS, type changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.basics.errors import HeadwaterError
from headwater.protocol.actions import Metadata, Protocol
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import (
    ArrayType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    schema_string,
)
from headwater.schema.evolution import (
    FIRST,
    After,
    NewColumn,
    add_columns,
    change_type,
    lacking_fields,
    merge_schemas,
    other_case_error,
    schema_mismatch,
    schema_mismatch_error,
    set_comment,
    widened_columns,
)
from headwater.schema.widening import can_widen, check_readable_types

BYTE, SHORT, INT, LONG = (PrimitiveType(name) for name in ("byte", "short", "integer", "long"))
FLOAT, DOUBLE, STRING, VOID = (PrimitiveType(name) for name in ("float", "double", "string", "void"))
DATE, NTZ = PrimitiveType("date"), PrimitiveType("timestamp_ntz")


def schema(**fields):
    return StructType(tuple(StructField(name, kind) for name, kind in fields.items()))


def test_new_columns_are_appended_nullable_and_existing_ones_kept():
    table = StructType(
        (
            StructField("A", INT, False, {"comment": "kept"}),
            StructField("st", schema(X=INT)),
            StructField("m", MapType(STRING, schema(q=INT))),
        )
    )
    data = StructType(
        (
            StructField("new", STRING, False, {"comment": "n", "delta.columnMapping.id": 3, "CURRENT_DEFAULT": "1"}),
            StructField("a", INT),
            StructField("st", schema(y=INT, x=INT)),
            StructField("M", MapType(STRING, schema(z=ArrayType(INT, False)))),
        )
    )
    merged = merge_schemas(table, data)
    assert merged.sql() == ("struct<A:int,st:struct<X:int,y:int>,m:map<string,struct<q:int,z:array<int>>>,new:string>")
    assert merged.fields[0] == table.fields[0]
    assert merged.fields[3] == StructField("new", STRING, True, {"comment": "n"})
    assert merged.fields[2].type.value.fields[1].type == ArrayType(INT, True)


def test_data_that_fits_leaves_the_type():
    table = schema(l=LONG, d=DOUBLE, e=DecimalType(20, 0), v=INT)
    assert merge_schemas(table, schema(l=INT, d=FLOAT, e=LONG, v=VOID)) == table


def test_a_void_column_takes_the_type_of_the_data_without_record():
    merged = merge_schemas(schema(v=VOID), schema(v=ArrayType(INT, False)))
    assert merged == schema(v=ArrayType(INT, True))


@pytest.mark.parametrize("data", [LONG, STRING, ArrayType(INT), schema(x=INT)])
def test_types_that_do_not_meet_are_refused(data):
    with pytest.raises(HeadwaterError) as error:
        merge_schemas(schema(s=schema(c=INT)), schema(s=schema(C=data)))
    assert error.value.condition == "DELTA_FAILED_TO_MERGE_FIELDS"
    assert "s.c" in error.value.text


def test_keep_existing_type_keeps_primitives_only():
    assert merge_schemas(schema(c=INT), schema(c=STRING), keep_existing_type=True) == schema(c=INT)
    with pytest.raises(HeadwaterError, match="DELTA_FAILED_TO_MERGE_FIELDS"):
        merge_schemas(schema(c=INT), schema(c=ArrayType(INT)), keep_existing_type=True)


def test_widening_records_each_change_at_its_struct_field():
    table = schema(a=SHORT, m=MapType(STRING, ArrayType(BYTE)), arr=ArrayType(schema(x=FLOAT)), d=DATE)
    data = schema(a=INT, m=MapType(STRING, ArrayType(LONG)), arr=ArrayType(schema(x=DOUBLE)), d=NTZ)
    merged = merge_schemas(table, data, allow_widening=True)
    assert merged.sql() == data.sql()
    again = merge_schemas(merged, schema(a=LONG), allow_widening=True)
    assert again.find("a").metadata == {
        "delta.typeChanges": [
            {"fromType": "short", "toType": "integer"},
            {"fromType": "integer", "toType": "long"},
        ]
    }
    assert again.find("m").metadata["delta.typeChanges"] == [
        {"fromType": "byte", "toType": "long", "fieldPath": "value.element"}
    ]
    assert again.find("arr").metadata == {}
    inner = again.find("arr").type.element.fields[0]
    assert inner.metadata["delta.typeChanges"] == [{"fromType": "float", "toType": "double"}]


@pytest.mark.parametrize(
    ("old", "new", "allowed"),
    [
        (BYTE, LONG, True),
        (LONG, INT, False),
        (INT, DOUBLE, True),
        (LONG, DOUBLE, False),
        (INT, FLOAT, False),
        (FLOAT, DOUBLE, True),
        (DATE, NTZ, True),
        (DATE, PrimitiveType("timestamp"), False),
        (INT, DecimalType(10, 0), True),
        (INT, DecimalType(11, 2), False),
        (BYTE, DecimalType(9, 0), False),
        (LONG, DecimalType(20, 0), True),
        (LONG, DecimalType(22, 3), False),
        (DecimalType(10, 2), DecimalType(12, 4), True),
        (DecimalType(10, 2), DecimalType(11, 4), False),
        (DecimalType(10, 2), DecimalType(12, 1), False),
        (DecimalType(10, 2), DecimalType(10, 2), False),
        (INT, STRING, False),
    ],
)
def test_the_protocols_widenings(old, new, allowed):
    assert can_widen(old, new) is allowed


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({"fromType": "integer", "toType": "long"}, None),
        ({"fromType": "integer", "toType": "string"}, ("a.b", "INT", "STRING")),
        (
            {"fromType": "integer", "toType": "string", "fieldPath": "element.value"},
            ("a.b.element.value", "INT", "STRING"),
        ),
        ({"fromType": "long", "toType": "integer"}, ("a.b", "BIGINT", "INT")),
        ({"fromType": "varchar(10)", "toType": "string"}, None),
        ({"fromType": "char(5)", "toType": "varchar(10)"}, None),
    ],
)
def test_a_recorded_change_that_is_no_widening_is_refused(change, refused):
    known = {"fromType": "short", "toType": "integer"}
    changed = StructField("b", LONG, True, {"delta.typeChanges": [known, change]})
    metadata = Metadata("id", schema_string(StructType((StructField("a", StructType((changed,))),))), ())
    with_feature = Protocol(3, 7, frozenset({"typeWidening"}), frozenset({"typeWidening"}))
    check_readable_types(TableDefinition(Protocol(1, 2), metadata))
    if refused is None:
        check_readable_types(TableDefinition(with_feature, metadata))
        return
    with pytest.raises(HeadwaterError) as caught:
        check_readable_types(TableDefinition(with_feature, metadata))
    assert caught.value.condition == "DELTA_UNSUPPORTED_TYPE_CHANGE_IN_SCHEMA"
    for text in refused:
        assert text.lower() in str(caught.value).lower()


def test_mismatch_says_which_and_what_to_do():
    table, data = schema(a=INT, s=schema(x=INT), l=LONG), schema(A=INT, s=schema(y=INT), l=STRING)
    assert schema_mismatch(table, data) == [
        "s.y (int) is not a column of the table",
        "l is string, the table's column is bigint",
    ]
    error = schema_mismatch_error(table, data)
    assert error.condition == "DELTA_METADATA_MISMATCH"
    assert "mergeSchema" in error.text
    assert schema_mismatch(table, schema(l=INT)) == []


NAMES = st.sampled_from(["a", "b", "c", "A"])
LEAVES = st.sampled_from([BYTE, INT, LONG, DOUBLE, STRING, DATE])


def unique(fields):
    return StructType(tuple(StructField(n, k) for n, k in {n.lower(): (n, k) for n, k in fields}.values()))


SCHEMAS = st.lists(
    st.tuples(
        NAMES,
        st.recursive(
            LEAVES,
            lambda inner: st.one_of(
                st.builds(ArrayType, inner),
                st.builds(MapType, st.just(STRING), inner),
                st.lists(st.tuples(NAMES, inner), min_size=1, max_size=3).map(unique),
            ),
            max_leaves=5,
        ),
    ),
    min_size=1,
    max_size=3,
).map(unique)


@given(SCHEMAS, SCHEMAS, st.booleans())
def test_whatever_merges_then_fits_and_merging_again_changes_nothing(table, data, widening):
    try:
        merged = merge_schemas(table, data, allow_widening=widening)
    except HeadwaterError:
        return
    assert schema_mismatch(merged, data) == []
    assert merge_schemas(merged, data, allow_widening=widening) == merged
    assert [f.name for f in merged][: len(table)] == table.names


def renamed(kind, change):
    match kind:
        case StructType():
            return StructType(tuple(StructField(change(f.name), renamed(f.type, change)) for f in kind))
        case ArrayType():
            return ArrayType(renamed(kind.element, change))
        case MapType():
            return MapType(renamed(kind.key, change), renamed(kind.value, change))
    return kind


@given(SCHEMAS, SCHEMAS)
def test_names_in_another_case_are_found_at_any_depth(table, data):
    """A table that has grown has all columns of the data; what is left is their case."""
    try:
        merged = merge_schemas(table, data)
    except HeadwaterError:
        return
    assert other_case_error(merged, merged) is None
    assert other_case_error(renamed(merged, str.lower), renamed(data, str.lower)) is None
    error = other_case_error(renamed(merged, str.lower), renamed(data, str.upper))
    assert error.condition == "DELTA_METADATA_MISMATCH"
    for field in data:
        assert f"The data has {field.name.upper()}, the table has {field.name.lower()}" in error.text
    nested = other_case_error(schema(s=renamed(merged, str.lower)), schema(s=renamed(data, str.upper)))
    assert f"The data has s.{data.fields[0].name.upper()}, the table has s.{data.fields[0].name.lower()}" in nested.text


def test_add_columns_in_places():
    table = schema(A=INT, st=schema(X=INT), m=MapType(STRING, schema(q=INT)), arr=ArrayType(schema(e=INT)))
    grown = add_columns(
        table,
        [
            NewColumn(("st", "y"), INT, comment="c", position=FIRST),
            (("M", "value", "z"), STRING, True, None, ("after", "q")),
            NewColumn(("c",), LONG, position=After("a")),
            NewColumn(("d",), schema(n=INT), position=After("c")),
            NewColumn(("d", "o"), INT),
            NewColumn(("arr", "element", "f"), INT),
        ],
    )
    assert grown.sql() == (
        "struct<A:int,c:bigint,d:struct<n:int,o:int>,st:struct<y:int,X:int>,"
        "m:map<string,struct<q:int,z:string>>,arr:array<struct<e:int,f:int>>>"
    )
    assert grown.find("st").type.find("y").comment == "c"


@pytest.mark.parametrize(
    ("column", "condition"),
    [
        (NewColumn(("a",), INT), "DELTA_ADD_COLUMN_EXISTS"),
        (NewColumn(("st", "x"), INT), "DELTA_ADD_COLUMN_EXISTS"),
        (NewColumn(("nope", "y"), INT), "DELTA_ADD_COLUMN_STRUCT_NOT_FOUND"),
        (NewColumn(("a", "y"), INT), "DELTA_ADD_COLUMN_PARENT_NOT_STRUCT"),
        (NewColumn(("a", "b", "y"), INT), "DELTA_ADD_COLUMN_PARENT_NOT_STRUCT"),
        (NewColumn(("m", "y"), INT), "DELTA_ADD_COLUMN_PARENT_NOT_STRUCT"),
        (NewColumn(("m", "value", "y"), INT), "DELTA_ADD_COLUMN_PARENT_NOT_STRUCT"),
        (NewColumn(("k",), INT, position=After("nope")), "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA"),
        (NewColumn(("k",), INT, nullable=False), "DELTA_OPERATION_NOT_ALLOWED"),
    ],
)
def test_add_column_errors(column, condition):
    with pytest.raises(HeadwaterError) as error:
        add_columns(schema(a=INT, st=schema(X=INT), m=MapType(STRING, INT)), [column])
    assert error.value.condition == condition


def test_comments_and_types_change_in_place():
    table = StructType(
        (StructField("s", schema(x=INT)), StructField("m", MapType(STRING, SHORT)), StructField("v", VOID))
    )
    commented = set_comment(table, ("S", "X"), "hello")
    assert commented.find("s").type.find("x").comment == "hello"
    assert set_comment(commented, ("s", "x"), None) == table
    with pytest.raises(HeadwaterError, match="DELTA_COLUMN_NOT_FOUND_IN_SCHEMA"):
        set_comment(table, ("s", "nope"), "x")
    wide = change_type(table, ("m", "value"), LONG, allow_widening=True)
    assert wide.find("m").metadata["delta.typeChanges"] == [
        {"fromType": "short", "toType": "long", "fieldPath": "value"}
    ]
    assert change_type(table, ("v",), STRING, allow_widening=False).find("v") == StructField("v", STRING)
    with pytest.raises(HeadwaterError, match="DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP"):
        change_type(table, ("s", "x"), LONG, allow_widening=False)


def test_text_columns_keep_their_type_whatever_the_data_is():
    assert merge_schemas(schema(c=STRING), schema(c=ArrayType(INT)), keep_existing_type=True) == schema(c=STRING)


def test_columns_that_are_wider():
    table = schema(a=INT, v=VOID, s=schema(x=INT, y=INT), l=ArrayType(schema(z=INT)), m=MapType(STRING, INT))
    grown = schema(
        a=LONG, v=INT, s=schema(x=INT, y=LONG, n=INT), l=ArrayType(schema(z=INT, n=INT)), m=MapType(STRING, LONG), n=INT
    )
    assert widened_columns(table, grown) == [("a",), ("s", "y"), ("m",)]
    assert widened_columns(table, table) == []


def test_fields_that_the_data_lacks():
    table = schema(a=INT, s=schema(x=INT, y=schema(z=INT)), l=ArrayType(schema(p=INT, q=INT)))
    data = schema(S=schema(Y=schema()), l=ArrayType(schema(q=INT)))
    assert lacking_fields(table, data) == [("s", "x"), ("s", "y", "z"), ("l", "element", "p")]
    assert lacking_fields(table, schema()) == []


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [(INT, LONG, "enableTypeWidening"), (LONG, INT, "overwriteSchema"), (INT, STRING, "overwrite")],
)
def test_a_refused_change_advises_widening_only_where_it_helps(old, new, hint):
    for may_widen in (False, True):
        if may_widen and can_widen(old, new):
            continue
        with pytest.raises(HeadwaterError, match=hint) as error:
            change_type(schema(c=old), ["c"], new, allow_widening=may_widen)
        assert ("enableTypeWidening" in error.value.text) == can_widen(old, new)


@pytest.mark.parametrize("data", [ArrayType(INT), schema(x=INT)])
def test_types_that_no_cast_joins_do_not_advise_widening(data):
    with pytest.raises(HeadwaterError, match="No cast") as error:
        merge_schemas(schema(c=INT), schema(c=data), allow_widening=True, keep_existing_type=True)
    assert "Widening" not in error.value.text
