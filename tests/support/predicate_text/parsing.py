"""From a predicate's Spark SQL text to its tree.

Owns the reading of what Catalyst prints of an analysed predicate: attributes by name without a qualifier, literals
that carry their type, every cast written out. Promise: a tree means what the text means, three-valued logic included,
or the part that cannot be read for certain is ``Unknown``. Nothing here raises on a predicate, however odd; parsed
texts are cached.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from headwater.protocol.types import DataType, DecimalType, PrimitiveType
from headwater.pruning.predicates import (
    BOOLEAN,
    INTEGRAL_RANGES,
    UNKNOWN,
    And,
    Cast,
    Column,
    Comparison,
    Constant,
    In,
    IsNull,
    Like,
    Not,
    Operand,
    Or,
    Predicate,
    StartsWith,
    Year,
    literal,
)
from support.predicate_text.literals import (
    NUMBER,
    WHOLE_NUMBER,
    Typed,
    cast_literal,
    decimal_literal,
    floating_literal,
    parse_date,
    timestamp_micros,
)
from support.predicate_text.text import BETWEEN, Lifted, Unreadable, lift, split

INTEGER = PrimitiveType("integer")
DOUBLE = PrimitiveType("double")
STRING = PrimitiveType("string")
TIMESTAMP = PrimitiveType("timestamp")
_Operand = Column | Cast | Year | Typed


def _node(operand: _Operand) -> Operand:
    return literal(operand.type, operand.value) if isinstance(operand, Typed) else operand


#: A node of sqlglot's tree; the name of their common type is not the same in all its versions.
Node = Any


@lru_cache(maxsize=256)
def parse_predicate(sql: str, time_zone: str = "UTC") -> Predicate:
    """The tree of a predicate's text.

    :param time_zone: the zone the text was printed with: that of ``TIMESTAMP '…'`` literals without one of their own.
    """
    try:
        text, strings = lift(sql)
        translator = _Translator(strings, time_zone)
        return split(
            text,
            translator.atom,
            lambda child: Not(child),
            lambda operator, children: And(tuple(children)) if operator == "AND" else Or(tuple(children)),
        )
    except Unreadable:
        return UNKNOWN


def _expression(text: str) -> Node | None:
    try:
        return sqlglot.parse_one(text, dialect="spark", into=exp.Condition)
    except (SqlglotError, RecursionError, ValueError):
        return None


def _column_path(node: Node) -> tuple[str, ...] | None:
    if isinstance(node, exp.Column):
        return tuple(part.name for part in node.parts) if all(type(p) is exp.Identifier for p in node.parts) else None
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        parent = _column_path(node.this)
        return None if parent is None else (*parent, node.expression.name)
    return None


_BINARY = {"this", "expression"}
#: The parts of sqlglot's nodes that are understood here; with any other part set a node may mean something else.
_PARTS: dict[type, set[str]] = {
    **dict.fromkeys((exp.And, exp.Or, exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), _BINARY),
    **dict.fromkeys((exp.Is, exp.StartsWith, exp.Escape, exp.Dot), _BINARY),
    **dict.fromkeys((exp.Paren, exp.Not, exp.Neg, exp.Boolean, exp.Year, exp.TsOrDsToDate), {"this"}),
    exp.Like: _BINARY | {"negate"},
    exp.Between: {"this", "low", "high"},
    exp.In: {"this", "expressions"},
    exp.Anonymous: {"this", "expressions"},
    exp.Column: {"this", "table", "db", "catalog"},
    exp.Identifier: {"this", "quoted"},
    exp.Literal: {"this", "is_string"},
    exp.Null: set(),
    exp.Cast: {"this", "to"},
    exp.TryCast: {"this", "to", "safe"},
    exp.DataType: {"this", "expressions"},
    exp.DataTypeParam: {"this"},
}
#: Types that sqlglot takes for plain strings.
_PADDED = re.compile(r"\bCHAR|\bVARCHAR", re.IGNORECASE)


def _understood(node: Node) -> bool:
    return all(
        not value or type(child) not in _PARTS or part in _PARTS[type(child)]
        for child in node.walk()
        for part, value in child.args.items()
    )


_TYPES: dict[Any, DataType] = {
    exp.DataType.Type.TINYINT: PrimitiveType("byte"),
    exp.DataType.Type.SMALLINT: PrimitiveType("short"),
    exp.DataType.Type.INT: INTEGER,
    exp.DataType.Type.BIGINT: PrimitiveType("long"),
    exp.DataType.Type.FLOAT: PrimitiveType("float"),
    exp.DataType.Type.DOUBLE: DOUBLE,
    exp.DataType.Type.TEXT: STRING,
    exp.DataType.Type.BOOLEAN: BOOLEAN,
    exp.DataType.Type.DATE: PrimitiveType("date"),
    exp.DataType.Type.TIMESTAMPTZ: TIMESTAMP,
    exp.DataType.Type.TIMESTAMPLTZ: TIMESTAMP,
    exp.DataType.Type.TIMESTAMPNTZ: PrimitiveType("timestamp_ntz"),
}
_FLIPPED: dict[type, tuple[str, bool]] = {
    exp.EQ: ("=", False),
    exp.NullSafeEQ: ("<=>", False),
    exp.LT: ("<", False),
    exp.LTE: ("<=", False),
    exp.GT: ("<", True),
    exp.GTE: ("<=", True),
}


class _Translator:
    """From sqlglot's tree of one piece of text to ours."""

    def __init__(self, strings: dict[str, Lifted], time_zone: str) -> None:
        self.strings = strings
        self.time_zone = time_zone

    def atom(self, text: str) -> Predicate:
        parsed = None if _PADDED.search(text) else _expression(text)
        try:
            return self.predicate(parsed) if parsed is not None and _understood(parsed) else UNKNOWN
        except RecursionError:
            return UNKNOWN

    def predicate(self, node: Node) -> Predicate:
        if isinstance(node, exp.Paren):
            return self.predicate(node.this)
        if isinstance(node, exp.And | exp.Or):
            children = (self.predicate(node.left), self.predicate(node.right))
            return And(children) if isinstance(node, exp.And) else Or(children)
        if isinstance(node, exp.Not):
            return Not(self.predicate(node.this))
        if isinstance(node, exp.NEQ):
            return Not(self.comparison("=", node.left, node.right))
        if type(node) in _FLIPPED:
            operator, flipped = _FLIPPED[type(node)]
            left, right = node.args["this"], node.args["expression"]
            return self.comparison(operator, *((right, left) if flipped else (left, right)))
        if isinstance(node, exp.Between):
            low, high = node.args["low"], node.args["high"]
            return And((self.comparison("<=", low, node.this), self.comparison("<=", node.this, high)))
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            return self.is_null(node.this)
        if (
            isinstance(node, exp.Anonymous)
            and node.name.lower() in ("isnull", "isnotnull")
            and len(node.expressions) == 1
        ):
            found = self.is_null(node.expressions[0])
            return found if node.name.lower() == "isnull" else Not(found)
        if isinstance(node, exp.Anonymous) and node.name == BETWEEN and len(node.expressions) == 3:
            inner, low, high = node.expressions
            return And((self.comparison("<=", low, inner), self.comparison("<=", inner, high)))
        if isinstance(node, exp.In):
            return self.is_in(node)
        if isinstance(node, exp.StartsWith):
            child, prefix = self.operand(node.this), self.operand(node.expression)
            if isinstance(prefix, Typed) and prefix.type == STRING and prefix.value is not None and child is not None:
                return StartsWith(_node(child), prefix.value)
            return UNKNOWN
        if type(node) is exp.Like:
            return self.like(node, "\\")
        if isinstance(node, exp.Escape) and type(node.this) is exp.Like:
            escape = self.operand(node.expression)
            if isinstance(escape, Typed) and isinstance(escape.value, str) and len(escape.value) == 1:
                return self.like(node.this, escape.value)
            return UNKNOWN
        return self.truth(self.operand(node))

    def truth(self, operand: _Operand | None) -> Predicate:
        """A boolean operand that stands alone."""
        if isinstance(operand, Column):
            return Comparison("=", operand, literal(BOOLEAN, True))
        if isinstance(operand, Typed) and operand.type == BOOLEAN:
            return Constant(operand.value)
        return UNKNOWN

    def comparison(self, operator: str, left_node: Node, right_node: Node) -> Predicate:
        left, right = self.operand(left_node), self.operand(right_node)
        if left is None or right is None:
            return UNKNOWN
        for one, other in ((left, right), (right, left)):
            if isinstance(other, Typed) and other.value is None:
                if operator == "<=>":
                    return UNKNOWN if isinstance(one, Typed) else IsNull(_node(one))
                return Constant(None)
        return Comparison(operator, _node(left), _node(right))  # type: ignore[arg-type]

    def is_null(self, node: Node) -> Predicate:
        child = self.operand(node)
        return UNKNOWN if child is None or isinstance(child, Typed) else IsNull(_node(child))

    def is_in(self, node: exp.In) -> Predicate:
        child = self.operand(node.this)
        listed = node.expressions
        if child is None or not listed:
            return UNKNOWN
        values = []
        for element in listed:
            value = self.operand(element)
            if not isinstance(value, Typed):
                return UNKNOWN
            values.append(value)
        if all(v.value is None for v in values):
            return Constant(None)
        kinds = {v.type for v in values if v.value is not None}
        kind: DataType = kinds.pop()
        if kinds:
            scales = [kind.scale for kind in (kind, *kinds) if isinstance(kind, DecimalType)]
            if len(scales) <= len(kinds):
                return UNKNOWN
            kind = DecimalType(38, max(scales))
        return In(_node(child), kind.to_json(), tuple(literal(kind, v.value).value for v in values))

    def like(self, node: Node, escape: str) -> Predicate:
        child, pattern = self.operand(node.this), self.operand(node.expression)
        if child is None or not isinstance(pattern, Typed) or pattern.type != STRING or pattern.value is None:
            return UNKNOWN
        found = Like(_node(child), pattern.value, escape)
        return Not(found) if node.args.get("negate") else found

    def operand(self, node: Node) -> _Operand | None:
        """A column or a value; ``None`` where it is something else."""
        if isinstance(node, exp.Paren):
            return self.operand(node.this)
        path = _column_path(node)
        if path is not None:
            return Column(path)
        if isinstance(node, exp.Boolean):
            return Typed(BOOLEAN, bool(node.this))
        if isinstance(node, exp.Literal):
            return self.literal(node)
        if isinstance(node, exp.Neg):
            return self.negated(node)
        if isinstance(node, exp.Cast):
            return self.cast(node)
        if isinstance(node, exp.Year) and isinstance(node.this, exp.TsOrDsToDate):
            child = self.operand(node.this.this)
            return None if child is None or isinstance(child, Typed) else Year(_node(child))
        return None

    def literal(self, node: exp.Literal) -> Typed | None:
        if node.is_string:
            lifted = self.strings.get(node.this)
            return None if lifted is None or lifted.value is None else Typed(STRING, lifted.value)
        text = node.this
        if text.isdigit():
            value = int(text)
            if value < INTEGRAL_RANGES["long"]:
                return Typed(INTEGER if value < INTEGRAL_RANGES["integer"] else PrimitiveType("long"), value)
        return decimal_literal(text) if "e" not in text.lower() else floating_literal(text, DOUBLE)

    def negated(self, node: exp.Neg) -> Typed | None:
        # -9223372036854775808L is written with a minus before a number that alone does not fit.
        child = node.this
        if isinstance(child, exp.Cast) and child.is_type(exp.DataType.Type.BIGINT) and child.this.name == str(2**63):
            return Typed(PrimitiveType("long"), -(2**63))
        if isinstance(child, exp.Literal) and not child.is_string and child.this == str(2**31):
            return Typed(INTEGER, -(2**31))
        value = self.operand(child)
        if not isinstance(value, Typed) or not isinstance(value.value, int | float | Decimal):
            return None
        return None if value.type == BOOLEAN else Typed(value.type, -value.value)

    def cast(self, node: exp.Cast) -> _Operand | None:
        target = _data_type(node.to)
        if target is None:
            return None
        inner = node.this
        if isinstance(inner, exp.Null):
            return Typed(target, None)
        if isinstance(inner, exp.Literal):
            return self.cast_text(inner, target)
        child = self.operand(inner)
        if isinstance(child, Typed):
            return cast_literal(child, target)
        return None if child is None else Cast(_node(child), target.to_json())

    def cast_text(self, node: exp.Literal, target: DataType) -> Typed | None:
        """A literal typed by a cast or a suffix: ``5L``, ``1.50BD``, ``DATE '…'``, ``CAST('NaN' AS DOUBLE)``."""
        lifted = self.strings.get(node.this) if node.is_string else None
        if lifted is None:
            if isinstance(target, DecimalType) and NUMBER.fullmatch(node.this):
                return decimal_literal(node.this, target)
            if node.is_string:
                return None
            if target in (DOUBLE, PrimitiveType("float")) and NUMBER.fullmatch(node.this):
                return floating_literal(node.this, target)
            value = self.literal(node)
            return None if value is None else cast_literal(value, target)
        text = lifted.value
        if text is None:
            return None
        if target == STRING:
            return Typed(STRING, text)
        if isinstance(target, PrimitiveType) and target.name in ("float", "double"):
            return floating_literal(text, target)
        if isinstance(target, PrimitiveType) and target.name in INTEGRAL_RANGES and WHOLE_NUMBER.fullmatch(text):
            return cast_literal(Typed(PrimitiveType("long"), int(text)), target)
        if target == PrimitiveType("date"):
            day = parse_date(text)
            return None if day is None else Typed(target, day)
        if target == TIMESTAMP or target == PrimitiveType("timestamp_ntz"):
            # A cast, unlike a typed literal, has a zone of its own that its text does not tell.
            zone = self.time_zone if lifted.keyword.startswith("TIMESTAMP") else None
            micros = timestamp_micros(text, "UTC" if target != TIMESTAMP else zone, with_zone=target == TIMESTAMP)
            return None if micros is None else Typed(target, micros)
        return None


def _data_type(to: exp.DataType) -> DataType | None:
    if to.this == exp.DataType.Type.DECIMAL:
        try:
            precision, scale = (int(p.this.this) for p in to.expressions)
        except (ValueError, AttributeError):
            return None
        return DecimalType(precision, scale)
    return None if to.expressions else _TYPES.get(to.this)
