"""What a new schema must satisfy."""

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.protocol.types import ArrayType, DecimalType, MapType, PrimitiveType, StructField, StructType
from headwater.schema.checks import check_reserved_names, check_schema, check_writable, without_void

INT, STRING, VOID = PrimitiveType("integer"), PrimitiveType("string"), PrimitiveType("void")


def schema(*fields):
    return StructType(tuple(StructField(name, kind) for name, kind in fields))


@pytest.mark.parametrize(
    ("table", "partitions", "configuration", "condition", "mentions"),
    [
        (schema(("a", INT), ("A", INT)), [], {}, "DELTA_DUPLICATE_COLUMNS_FOUND.METADATA_UPDATE", "a"),
        (schema(("s", schema(("x", INT), ("X", INT)))), [], {}, "DELTA_DUPLICATE_COLUMNS_FOUND.METADATA_UPDATE", "s.x"),
        (schema(("a b", INT)), [], {}, "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES", "columnMapping"),
        (
            schema(("m", MapType(STRING, schema(("x=", INT))))),
            [],
            {"delta.columnMapping.mode": "none"},
            "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES",
            "m.value.`x=`",
        ),
        (
            schema(("i", PrimitiveType("interval day to year"))),
            [],
            {},
            "DELTA_UNSUPPORTED_DATA_TYPES",
            "interval day to year",
        ),
        (schema(("i", DecimalType(39, 2))), [], {}, "DELTA_UNSUPPORTED_DATA_TYPES", "decimal(39,2)"),
        (schema(("a", INT)), ["b"], {}, "DELTA_PARTITION_COLUMN_NOT_FOUND", "b"),
        (schema(("a", INT)), ["a"], {}, "DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION", ""),
        (
            schema(("a", INT), ("b", INT)),
            ["a", "A"],
            {},
            "DELTA_DUPLICATE_COLUMNS_FOUND.PARTITION_COLUMNS",
            "partition",
        ),
        (
            schema(("a", INT), ("b", ArrayType(INT))),
            ["b"],
            {},
            "DELTA_INVALID_PARTITION_COLUMN_TYPE",
            "ARRAY<INT>",
        ),
        (
            schema(("a", INT), ("_Change_Type", STRING)),
            [],
            {"delta.enableChangeDataFeed": "TRUE"},
            "DELTA_TABLE_ALREADY_CONTAINS_CDC_COLUMNS",
            "_Change_Type",
        ),
    ],
)
def test_a_schema_that_no_file_can_hold_is_refused_by_its_condition(
    table, partitions, configuration, condition, mentions
):
    with pytest.raises(HeadwaterError) as error:
        check_schema(table, partitions, configuration)
    assert error.value.condition == condition
    assert mentions in str(error.value)


def test_not_null_inside_an_array_is_refused_and_inside_a_struct_is_not():
    field = StructField("x", INT, nullable=False)
    check_schema(schema(("s", StructType((field,)))), [], {})
    with pytest.raises(HeadwaterError, match="DELTA_NESTED_NOT_NULL_CONSTRAINT"):
        check_schema(schema(("a", ArrayType(StructType((field,))))), [], {})


def test_what_mapping_allows_and_what_can_partition_is_accepted():
    mapped = {"delta.columnMapping.mode": "name"}
    check_schema(schema(("a b", INT), ("v", VOID), ("_change_type", STRING)), [], mapped)
    check_schema(schema(("a", INT), ("b", PrimitiveType("binary")), ("d", DecimalType(38, 38))), ["B", "d"], {})


def test_change_columns_in_data_have_their_own_condition():
    with pytest.raises(HeadwaterError, match="RESERVED_CDC_COLUMNS_ON_WRITE"):
        check_reserved_names(schema(("_commit_version", INT)), {"delta.enableChangeDataFeed": "true"}, writing=True)


@pytest.mark.parametrize("bad", [schema(("v", VOID)), schema(("s", schema(("v", VOID))), ("a", INT)), schema()])
def test_nothing_to_put_into_a_file(bad):
    with pytest.raises(HeadwaterError, match="DELTA_CANNOT_WRITE_EMPTY_SCHEMA"):
        check_writable(bad)
    check_writable(schema(("a", INT), ("v", VOID), ("s", schema(("v", VOID), ("i", INT)))))


@pytest.mark.parametrize(
    ("column", "condition"),
    [
        (ArrayType(VOID), "DELTA_COMPLEX_TYPE_COLUMN_CONTAINS_NULL_TYPE"),
        (MapType(STRING, VOID), "DELTA_COMPLEX_TYPE_COLUMN_CONTAINS_NULL_TYPE"),
        (ArrayType(schema(("a", INT), ("v", VOID))), "DELTA_COMPLEX_TYPE_COLUMN_CONTAINS_NULL_TYPE"),
        (
            schema(("l", ArrayType(ArrayType(schema(("a", VOID), ("b", INT)))))),
            "DELTA_COMPLEX_TYPE_COLUMN_CONTAINS_NULL_TYPE",
        ),
        (schema(("v", VOID)), "DELTA_CANNOT_WRITE_EMPTY_SCHEMA"),
        (schema(("v", VOID), ("a", INT)), None),
    ],
)
def test_void_makes_a_table_and_may_keep_it_from_rows(column, condition):
    table = schema(("k", INT), ("c", column))
    check_schema(table, [], {})
    if condition is None:
        check_writable(table)
        assert without_void(table) == schema(("k", INT), ("c", schema(("a", INT))))
    else:
        with pytest.raises(HeadwaterError, match=condition):
            check_writable(table)
