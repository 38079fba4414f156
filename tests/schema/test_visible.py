"""When a query analysed against an older schema can still be run."""

from dataclasses import replace

import pytest

from headwater.protocol.types import ArrayType, MapType, PrimitiveType, StructField, StructType
from headwater.schema import visible

INT, LONG = PrimitiveType("integer"), PrimitiveType("long")


def struct(*fields):
    return StructType(tuple(fields))


A = StructField("a", INT)
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
    ],
)
def test_later_columns_are_in_nobodys_way(now):
    assert not visible.changed(THEN, now)


@pytest.mark.parametrize(
    ("then", "now"),
    [
        (THEN, struct(*THEN.fields[1:])),
        (struct(A), struct(StructField("a", LONG))),
        (struct(A), struct(StructField("A", INT))),
        (struct(replace(A, nullable=False)), struct(A)),
        (struct(A), struct(replace(A, metadata={"delta.columnMapping.physicalName": "col-1"}))),
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
