"""Constraints, defaults, generated and identity columns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.basics.errors import HeadwaterError
from headwater.protocol.types import ArrayType, PrimitiveType, StructField, StructType
from headwater.schema.constraints import (
    Check,
    add_constraint,
    checks,
    defaults,
    drop_constraint,
    set_default,
    without_exists_defaults,
)
from headwater.schema.generated import generated_checks, generated_columns
from headwater.schema.identity import (
    IdentityColumn,
    check_identity_columns,
    identity_columns,
    identity_metadata,
    with_high_water_marks,
)

INT, LONG = PrimitiveType("integer"), PrimitiveType("long")
INVARIANT = '{"expression": { "expression": "x > 3"} }'


def test_every_kind_of_check():
    schema = StructType(
        (
            StructField("x", INT, metadata={"delta.invariants": INVARIANT}),
            StructField("s", StructType((StructField("n o", INT, False),)), False),
            StructField("arr", ArrayType(StructType((StructField("e", INT, False),)))),
        )
    )
    configuration = {"delta.constraints.positive": "x > 0", "delta.appendOnly": "true"}
    assert checks(schema, configuration) == [
        Check("s", "`s` IS NOT NULL", "not_null"),
        Check("s.`n o`", "`s`.`n o` IS NOT NULL", "not_null"),
        Check("x", "x > 3", "invariant"),
        Check("positive", "x > 0", "check"),
    ]


@pytest.mark.parametrize("value", ["x > 3", "{}", '{"expression": 3}', '{"expression":{"expression":3}}', "[]"])
def test_an_invariant_that_cannot_be_read_stops_the_write(value):
    with pytest.raises(HeadwaterError, match="DELTA_UNRECOGNIZED_INVARIANT"):
        checks(StructType((StructField("x", INT, metadata={"delta.invariants": value}),)), {})


def test_an_invariant_inside_an_array_stops_the_write():
    inner = StructType((StructField("x", INT, metadata={"delta.invariants": INVARIANT}),))
    with pytest.raises(HeadwaterError, match="DELTA_UNSUPPORTED_INVARIANT_NON_STRUCT"):
        checks(StructType((StructField("a", ArrayType(inner)),)), {})


def test_constraints_come_and_go_by_name_ignoring_case():
    configuration = add_constraint({"delta.appendOnly": "true"}, "Positive", "x > 0")
    assert configuration["delta.constraints.positive"] == "x > 0"
    with pytest.raises(HeadwaterError, match="DELTA_CONSTRAINT_ALREADY_EXISTS"):
        add_constraint(configuration, "POSITIVE", "x > 1")
    assert drop_constraint(configuration, "pOsitive") == {"delta.appendOnly": "true"}
    assert drop_constraint({}, "x", if_exists=True) == {}
    with pytest.raises(HeadwaterError, match="DELTA_CONSTRAINT_DOES_NOT_EXIST"):
        drop_constraint({}, "x")


def test_defaults():
    schema = StructType((StructField("a", INT, metadata={"CURRENT_DEFAULT": "3", "EXISTS_DEFAULT": "3"}),))
    assert defaults(schema) == {"a": "3"}
    assert without_exists_defaults(schema).fields[0].metadata == {"CURRENT_DEFAULT": "3"}
    assert defaults(set_default(schema, ("A",), "4")) == {"a": "4"}
    assert defaults(set_default(schema, ("a",), None)) == {}


def test_generated_columns():
    schema = StructType(
        (StructField("a", INT), StructField("b", LONG, metadata={"delta.generationExpression": "a + 1"}))
    )
    (column,) = generated_columns(schema)
    assert column == ("b", LONG, "a + 1")
    (check,) = generated_checks(schema, ["B"])
    assert (check.name, check.text, check.kind) == ("b", "`b` <=> CAST((a + 1) AS bigint)", "generated")
    assert generated_checks(schema, ["a"]) == []


def test_identity_numbers_go_on_after_the_mark():
    schema = StructType((StructField("id", LONG, metadata=identity_metadata(10, -5, allow_explicit_insert=True)),))
    (column,) = identity_columns(schema)
    assert column == IdentityColumn("id", 10, -5, None, True)
    assert [column.value(n) for n in range(3)] == [10, 5, 0]
    schema = with_high_water_marks(schema, {"ID": 0})
    (column,) = identity_columns(schema)
    assert column.high_water_mark == 0
    assert column.next_value == -5
    assert with_high_water_marks(schema, {"id": 5}) == schema


@given(st.integers(-100, 100), st.integers(-9, 9).filter(bool), st.integers(-1000, 1000), st.integers(0, 50))
def test_identity_values_are_on_the_grid_beyond_the_mark_and_the_first_such(start, step, mark, index):
    column = IdentityColumn("id", start, step, mark, False)
    value = column.value(index)
    assert (value - start) % step == 0
    assert (value - start) // step >= 0
    assert column.further(value)
    before = column.next_value - step
    assert (before - start) // step < 0 or not column.further(before)


def test_identity_overflow_is_an_error():
    column = IdentityColumn("id", 1, 1, 2**63 - 2, False)
    assert column.next_value == 2**63 - 1
    with pytest.raises(HeadwaterError, match="DELTA_IDENTITY_COLUMN_OVERFLOW"):
        column.value(1)


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from([1, -1, 7, -(2**40), 2**62]))
def test_as_many_identity_values_are_left_as_there_are(start, step):
    column = IdentityColumn("id", start, step, None, False)
    assert column.value(column.values_left - 1) in range(-(2**63), 2**63)
    with pytest.raises(HeadwaterError, match="DELTA_IDENTITY_COLUMN_OVERFLOW"):
        column.value(column.values_left)


@pytest.mark.parametrize(
    ("field", "partitions", "condition"),
    [
        (StructField("i", INT, metadata=identity_metadata()), [], "UNSUPPORTED_DATA_TYPE"),
        (StructField("i", LONG, metadata=identity_metadata()), ["I"], "PARTITION_NOT_SUPPORTED"),
        (
            StructField("i", LONG, metadata={**identity_metadata(), "delta.generationExpression": "1"}),
            [],
            "WITH_GENERATED_EXPRESSION",
        ),
        (StructField("i", LONG, metadata={"delta.identity.start": 1}), [], "INCONSISTENT_METADATA"),
        (StructField("i", LONG, metadata={**identity_metadata(), "delta.identity.step": 0}), [], "INCONSISTENT"),
    ],
)
def test_identity_columns_that_cannot_be(field, partitions, condition):
    with pytest.raises(HeadwaterError, match=condition):
        check_identity_columns(StructType((field,)), partitions)


def test_a_step_of_zero():
    with pytest.raises(HeadwaterError, match="DELTA_IDENTITY_COLUMNS_ILLEGAL_STEP"):
        identity_metadata(1, 0)
