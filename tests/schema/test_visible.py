"""When a query analysed against an older schema can still be run."""

from dataclasses import replace

import pytest

from headwater.protocol.types import ArrayType, MapType, PrimitiveType, StructField, StructType
from headwater.schema import visible

INT, LONG = PrimitiveType("integer"), PrimitiveType("long")


def struct(*fields):
    return StructType(tuple(fields))


def in_files(name, field):
    return replace(field, metadata={"delta.columnMapping.physicalName": name})


A = StructField("a", INT)
B = StructField("b", INT)
THEN = struct(A, StructField("s", struct(StructField("x", INT))), StructField("l", ArrayType(struct(A))))


@pytest.mark.parametrize(
    "now",
    [
        THEN,
        struct(StructField("first", INT), *THEN, StructField("last", INT)),
        struct(A, StructField("s", struct(StructField("y", INT), StructField("x", INT))), THEN.fields[2]),
        struct(A, THEN.fields[1], StructField("l", ArrayType(struct(A, StructField("b", LONG))))),
        struct(replace(A, nullable=False), *THEN.fields[1:]),
        struct(replace(A, metadata={"comment": "new"}), *THEN.fields[1:]),
        struct(in_files("col-1", A), *THEN.fields[1:]),
        struct(A, StructField("s", struct(in_files("col-2", StructField("x", INT)))), THEN.fields[2]),
    ],
)
def test_later_columns_and_others_in_the_place_of_the_same_ones_are_in_nobodys_way(now):
    assert not visible.changed(THEN, now)


@pytest.mark.parametrize(
    ("then", "now"),
    [
        (THEN, struct(*THEN.fields[1:])),
        (struct(A), struct(StructField("a", LONG))),
        (struct(A), struct(StructField("A", INT))),
        (struct(replace(A, nullable=False)), struct(A)),
        # a column that was renamed, and another that has its name now
        (struct(A), struct(in_files("a", B), in_files("col-1", A))),
        (struct(A, B), struct(in_files("b", A), in_files("a", B))),
        (THEN, struct(A, StructField("s", struct()), THEN.fields[2])),
        (
            struct(StructField("m", MapType(INT, INT, False))),
            struct(StructField("m", MapType(INT, INT, True))),
        ),
        (struct(StructField("l", ArrayType(INT))), struct(StructField("l", INT))),
    ],
)
def test_what_a_query_relies_on_must_be_there(then, now):
    assert visible.changed(then, now)
