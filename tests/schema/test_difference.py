"""Differences of schemas in words."""

from dataclasses import replace

from headwater.protocol.types import ArrayType, MapType, PrimitiveType, StructField, StructType
from headwater.schema.difference import describe_difference

INT, STRING = PrimitiveType("integer"), PrimitiveType("string")
NESTED = StructType((StructField("x", INT), StructField("y", ArrayType(INT))))
TABLE = StructType(
    (StructField("a", INT, metadata={"comment": "c"}), StructField("s", NESTED), StructField("m", MapType(STRING, INT)))
)


def test_no_difference_ignores_comments_and_case():
    declared = StructType((StructField("A", INT), *TABLE.fields[1:]))
    assert describe_difference(declared, TABLE) == []


def test_each_kind_of_difference_is_one_line():
    changed = StructType(
        (
            StructField("a", INT, nullable=False),
            StructField("s", StructType((StructField("x", STRING), StructField("y", ArrayType(INT, False))))),
            StructField("n", INT),
        )
    )
    assert describe_difference(changed, TABLE) == [
        "Column a is NOT NULL; in the table it is nullable.",
        "Column s.x is string; in the table it is int.",
        "The elements of s.y are NOT NULL; in the table they are nullable.",
        "Column m (map<string,int>) of the table is missing.",
        "Column n (int) is not in the table.",
    ]


def test_order_alone_is_a_difference():
    (line,) = describe_difference(replace(TABLE, fields=TABLE.fields[::-1]), TABLE)
    assert "order" in line
