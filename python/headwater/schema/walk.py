"""Two types side by side: the elements and values of one beside those of the other.

Owns the step into both at once, for everything that compares or merges two schemas. Fields of structs are paired by
their caller: by name, ignoring case or not, or by the names in files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from headwater.protocol.columns import ELEMENT, KEY, VALUE, with_parts
from headwater.protocol.types import ArrayType, DataType, MapType


class Held(NamedTuple):
    """What two arrays or two maps hold: their elements, keys or values, as ``step`` says; and whether these may be
    null.
    """

    step: str
    one: DataType
    two: DataType
    one_nulls: bool = False
    two_nulls: bool = False


def held(one: DataType, two: DataType) -> tuple[Held, ...]:
    """What both hold, if both are arrays or both are maps; else nothing."""
    match one, two:
        case ArrayType(), ArrayType():
            return (Held(ELEMENT, one.element, two.element, one.contains_null, two.contains_null),)
        case MapType(), MapType():
            values = Held(VALUE, one.value, two.value, one.value_contains_null, two.value_contains_null)
            return Held(KEY, one.key, two.key), values
    return ()


def with_held(one: DataType, two: DataType, change: Callable[[DataType, DataType, str], DataType]) -> DataType:
    """The first type, with what it holds changed beside what the other holds, if :func:`held` has something."""
    both = {each.step: each for each in held(one, two)}
    return with_parts(one, lambda kind, step: change(kind, both[step].two, step)) if both else one
