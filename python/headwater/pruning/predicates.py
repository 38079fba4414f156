"""Predicates over one row of a table, as a small typed tree.

Owns the nodes that parsing makes of a predicate's text and that evaluation asks about. Promise: a node says what it
means for one row under SQL's three-valued logic and nothing of how it is checked; nodes are immutable and compare by
content.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headwater.protocol.types import DataType, PrimitiveType

BOOLEAN = PrimitiveType("boolean")
INTEGER = PrimitiveType("integer")
DOUBLE = PrimitiveType("double")
STRING = PrimitiveType("string")
TIMESTAMP = PrimitiveType("timestamp")
INTEGRAL_RANGES = {"byte": 2**7, "short": 2**15, "integer": 2**31, "long": 2**63}


@dataclass(frozen=True)
class Column:
    """A column by its logical name, or a field inside structs by the names that lead to it."""

    path: tuple[str, ...]


@dataclass(frozen=True)
class Literal:
    """A value of a type, ``None`` for null. Dates are days, timestamps microseconds since the epoch."""

    type: DataType
    value: Any


@dataclass(frozen=True)
class Cast:
    """An operand turned into another type."""

    child: Operand
    type: DataType


@dataclass(frozen=True)
class Year:
    """The calendar year of a date."""

    child: Operand


@dataclass(frozen=True)
class Unknown:
    """A predicate that may be anything for any row."""


@dataclass(frozen=True)
class Constant:
    """A predicate that is the same for every row: true, false, or ``None`` for null."""

    value: bool | None


@dataclass(frozen=True)
class Comparison:
    """``left operator right`` with ``=``, ``<=>``, ``<`` or ``<=``; the others are written with these."""

    operator: str
    left: Operand
    right: Operand


@dataclass(frozen=True)
class IsNull:
    """``child IS NULL``."""

    child: Operand


@dataclass(frozen=True)
class In:
    """``child IN (values)``; ``with_null`` where one of the listed values was null."""

    child: Operand
    values: tuple[Literal, ...]
    with_null: bool


@dataclass(frozen=True)
class StartsWith:
    """``child`` starts with ``prefix``; where not ``exact``, more is asked of it than that."""

    child: Operand
    prefix: str
    exact: bool


@dataclass(frozen=True)
class Not:
    child: Predicate


@dataclass(frozen=True)
class And:
    children: tuple[Predicate, ...]


@dataclass(frozen=True)
class Or:
    children: tuple[Predicate, ...]


Operand = Column | Literal | Cast | Year
Predicate = Unknown | Constant | Comparison | IsNull | In | StartsWith | Not | And | Or

UNKNOWN = Unknown()


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
            case IsNull(child) | In(child) | StartsWith(child):
                yield child


def columns(predicate: Predicate) -> set[tuple[str, ...]]:
    """The path of every column a predicate looks at, as it spells them."""
    found = set()
    for operand in operands(predicate):
        while isinstance(operand, Cast | Year):
            operand = operand.child
        if isinstance(operand, Column):
            found.add(operand.path)
    return found
