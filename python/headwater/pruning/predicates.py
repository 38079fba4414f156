"""Predicates over one row of a table: the expression tree that crosses the bridge.

Owns the nodes, their JSON and its decoding. Spark's side translates each resolved expression it knows to a node and
sends ``unknown`` for any other; handlers that need a predicate of their own build the nodes directly. No
statement's predicate is read from SQL text. Promises:

1. A node says what it means for one row under SQL's three-valued logic, and nothing of how it is checked.
2. Nodes are immutable, compare by content, and are their own wire form: encoding and decoding change nothing. Literals
   are values with a type, so no time zone or escaping rule takes part.
3. :func:`decode` never raises. A part it does not know for certain is ``Unknown``; the parts beside it stay.

An operand is a value (``Operand``), a predicate is true, false or null (``Predicate``). Types are named as in the
protocol's chapter "Schema Serialization Format": ``long``, ``decimal(10,2)``.
"""

from __future__ import annotations

import base64
import math
import typing
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache
from typing import Any

import msgspec

from headwater.protocol.types import DataType, PrimitiveType, parse_type

BOOLEAN = PrimitiveType("boolean")
INTEGRAL_RANGES = {"byte": 2**7, "short": 2**15, "integer": 2**31, "long": 2**63}

#: A value as JSON holds it. Dates are days and timestamps microseconds since the epoch. Decimals are texts, as are the
#: floating-point numbers ``NaN``, ``Infinity`` and ``-Infinity``; binary values are base64.
Value = bool | int | float | str | None


class _Node(msgspec.Struct, frozen=True, tag_field="op", forbid_unknown_fields=True):
    """A member that a node does not know may change its meaning: such a node is not decoded."""


class Column(_Node, frozen=True, tag="column"):
    """A column by its logical name, or a field inside structs by the names that lead to it."""

    path: tuple[str, ...]


class Literal(_Node, frozen=True, tag="literal"):
    """A value of a type, ``None`` for null."""

    type: str
    value: Value


class Cast(_Node, frozen=True, tag="cast"):
    """An operand converted to another type, by any of Spark's casts."""

    child: Operand
    type: str


class Year(_Node, frozen=True, tag="year"):
    """The calendar year of a date."""

    child: Operand


class Unknown(_Node, frozen=True, tag="unknown"):
    """A predicate that may be true, false or null for any row."""


class Constant(_Node, frozen=True, tag="constant"):
    """A predicate that is the same for every row: true, false, or ``None`` for null."""

    value: bool | None


ComparisonOperator = typing.Literal["=", "<=>", "<", "<="]


class Comparison(_Node, frozen=True, tag="compare"):
    """``left operator right``; ``a > b`` is ``b < a``, and ``a != b`` is the negation of ``a = b``."""

    operator: ComparisonOperator
    left: Operand
    right: Operand


class IsNull(_Node, frozen=True, tag="is_null"):
    """``child IS NULL``."""

    child: Operand


class In(_Node, frozen=True, tag="in"):
    """``child IN (values)``; the values are of one type, ``None`` for null."""

    child: Operand
    type: str
    values: tuple[Value, ...]


class StartsWith(_Node, frozen=True, tag="starts_with"):
    """``child`` starts with ``prefix``."""

    child: Operand
    prefix: str


class Like(_Node, frozen=True, tag="like"):
    """``child LIKE pattern ESCAPE escape``."""

    child: Operand
    pattern: str
    escape: str


class Not(_Node, frozen=True, tag="not"):
    """True where ``child`` is false, and false where it is true."""

    child: Predicate


class And(_Node, frozen=True, tag="and"):
    """All of one or more predicates."""

    children: tuple[Predicate, ...]


class Or(_Node, frozen=True, tag="or"):
    """At least one of one or more predicates."""

    children: tuple[Predicate, ...]


Operand = Column | Literal | Cast | Year
Leaf = Unknown | Constant | Comparison | IsNull | In | StartsWith | Like
Predicate = Unknown | Constant | Comparison | IsNull | In | StartsWith | Like | Not | And | Or

UNKNOWN = Unknown()

#: Levels of NOT, AND and OR that are decoded. Chains of ANDs and ORs are flat, so users' predicates have few.
_DEEPEST = 100
#: Nodes of a tree that are decoded, operands aside.
_MOST = 100_000


def encode(predicate: Predicate) -> bytes:
    """The JSON of a predicate."""
    return msgspec.json.encode(predicate)


def decode(value: Any) -> Predicate:
    """The predicate of a parsed JSON value.

    Parts that are no node, that lie too deep or that come after too many others are ``Unknown``.
    """
    return _decode(value, _DEEPEST, iter(range(_MOST)))


def _decode(value: Any, depth: int, budget: Iterator[int]) -> Predicate:
    if depth == 0 or next(budget, None) is None:
        return UNKNOWN
    match value:
        case {"op": "and" | "or" as op, "children": [_, *_] as children, **rest} if not rest:
            parts = tuple(_decode(child, depth - 1, budget) for child in children)
            return And(parts) if op == "and" else Or(parts)
        case {"op": "not", "child": child, **rest} if not rest:
            return Not(_decode(child, depth - 1, budget))
    try:
        leaf: Leaf = msgspec.convert(value, Leaf)
        return leaf
    except (msgspec.ValidationError, RecursionError):
        return UNKNOWN


def literal(kind: DataType, value: Any) -> Literal:
    """The literal of a Python value: days, microseconds, ``Decimal``, ``bytes`` and the like."""
    if isinstance(value, Decimal):
        value = format(value, "f")
    elif isinstance(value, bytes):
        value = base64.b64encode(value).decode()
    elif isinstance(value, float) and not math.isfinite(value):
        value = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return Literal(kind.to_json(), value)


@lru_cache(maxsize=256)
def type_of(name: str) -> DataType:
    """The type that a node names.

    :raises HeadwaterError: ``DELTA_INVALID_SCHEMA`` if there is no such type.
    """
    return parse_type(name)


def operands(predicate: Predicate) -> Iterator[Operand]:
    """Every operand in a predicate, without those inside them."""
    pending: list[Predicate] = [predicate]
    while pending:
        match pending.pop():
            case Not(child):
                pending.append(child)
            case And(children) | Or(children):
                pending.extend(children)
            case Comparison(_, left, right):
                yield left
                yield right
            case IsNull(child) | In(child) | StartsWith(child) | Like(child):
                yield child


def columns(predicate: Predicate) -> set[tuple[str, ...]]:
    """The path of every column that a predicate is known to refer to, as it spells them."""
    found = set()
    for operand in operands(predicate):
        while isinstance(operand, Cast | Year):
            operand = operand.child
        if isinstance(operand, Column):
            found.add(operand.path)
    return found
