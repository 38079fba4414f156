"""Arrays and maps of two types, side by side."""

import pytest

from headwater.protocol.types import ArrayType, MapType, PrimitiveType, StructType
from headwater.schema.walk import Held, held, with_held

A, B, C, D = map(PrimitiveType, ("long", "integer", "string", "binary"))


def test_what_two_arrays_or_two_maps_hold():
    assert held(ArrayType(A, True), ArrayType(B, False)) == (Held("element", A, B, True, False),)
    assert held(MapType(A, B, False), MapType(C, D, True)) == (Held("key", A, C), Held("value", B, D, False, True))


@pytest.mark.parametrize(
    ("one", "two"), [(A, A), (A, ArrayType(A)), (ArrayType(A), MapType(A, A)), (StructType(), StructType())]
)
def test_other_types_hold_nothing_together(one, two):
    assert held(one, two) == ()
    assert with_held(one, two, lambda *_: A) is one


def test_what_is_held_is_changed_beside_the_other():
    asked = []

    def change(one, two, step):
        asked.append((one, two, step))
        return two

    assert with_held(ArrayType(A, False), ArrayType(B, True), change) == ArrayType(B, False)
    assert with_held(MapType(A, B, False), MapType(C, D, True), change) == MapType(C, D, False)
    assert asked == [(A, B, "element"), (A, C, "key"), (B, D, "value")]
