"""From a predicate's Spark SQL text to its tree.

Owns the reading of what Catalyst prints of an analysed predicate: attributes by name without a qualifier, literals
that carry their type, every cast written out. Promise: a tree means what the text means, three-valued logic included,
or the part that cannot be read for certain is ``Unknown``. Nothing here raises on a predicate, however odd; parsed
texts are cached.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from headwater.protocol.types import DataType, DecimalType, PrimitiveType
from headwater.pruning.literals import (
    NUMBER,
    WHOLE_NUMBER,
    cast_literal,
    decimal_literal,
    floating_literal,
    parse_date,
    timestamp_micros,
)
from headwater.pruning.predicates import (
    BOOLEAN,
    DOUBLE,
    INTEGER,
    INTEGRAL_RANGES,
    STRING,
    TIMESTAMP,
    UNKNOWN,
    And,
    Cast,
    Column,
    Comparison,
    Constant,
    In,
    IsNull,
    Literal,
    Not,
    Operand,
    Or,
    Predicate,
    StartsWith,
    Year,
)
from headwater.pruning.text import BETWEEN, Lifted, Unreadable, lift, split, unquoted_names

#: A node of sqlglot's tree; the name of their common type is not the same in all its versions.
Node = Any


@lru_cache(maxsize=256)
def parse_predicate(sql: str, time_zone: str) -> Predicate:
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


@lru_cache(maxsize=256)
def parse_column(sql: str) -> tuple[str, ...] | None:
    """The names of a column's text, ```s`.`x```; ``None`` where it is not a column."""
    column = _expression(sql)
    return _column_path(column) if column is not None else None


@lru_cache(maxsize=256)
def _referenced(sql: str) -> frozenset[str] | None:
    names: set[str] = set()

    def atom(text: str) -> None:
        expression = _expression(text)
        if expression is None or expression.find(exp.Query, exp.Placeholder, exp.Parameter):
            raise Unreadable(text)
        paths = [[part.name for part in column.parts] for column in expression.find_all(exp.Column)]
        fields = {dot.expression.name for dot in expression.find_all(exp.Dot)}
        # A name without quotes may be read as something else (`user`); then it is missing here.
        if not unquoted_names(text) <= fields.union(*paths):
            raise Unreadable(text)
        names.update(path[0] for path in paths)

    try:
        split(lift(sql)[0], atom, lambda _: None, lambda _operator, _children: None)
    except Unreadable:
        return None
    return frozenset(names)


def partition_predicate_columns(predicate_sql: str) -> set[str] | None:
    """The top-level columns a predicate mentions, as it spells them; ``None`` where they cannot be told for certain."""
    found = _referenced(predicate_sql)
    return None if found is None else set(found)


def is_partition_only(predicate_sql: str, partition_columns: Sequence[str]) -> bool:
    """Whether a predicate certainly looks at no column but these, whose case does not matter."""
    found = _referenced(predicate_sql)
    return found is not None and {name.lower() for name in found} <= {name.lower() for name in partition_columns}


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
            if isinstance(prefix, Literal) and prefix.type == STRING and prefix.value is not None and child is not None:
                return StartsWith(child, prefix.value, exact=True)
            return UNKNOWN
        if type(node) is exp.Like:
            return self.like(node, "\\")
        if isinstance(node, exp.Escape) and type(node.this) is exp.Like:
            escape = self.operand(node.expression)
            if isinstance(escape, Literal) and isinstance(escape.value, str) and len(escape.value) == 1:
                return self.like(node.this, escape.value)
            return UNKNOWN
        return self.truth(self.operand(node))

    def truth(self, operand: Operand | None) -> Predicate:
        """A boolean operand that stands alone."""
        if isinstance(operand, Column):
            return Comparison("=", operand, Literal(BOOLEAN, True))
        if isinstance(operand, Literal) and operand.type == BOOLEAN:
            return Constant(operand.value)
        return UNKNOWN

    def comparison(self, operator: str, left_node: Node, right_node: Node) -> Predicate:
        left, right = self.operand(left_node), self.operand(right_node)
        if left is None or right is None:
            return UNKNOWN
        for one, other in ((left, right), (right, left)):
            if isinstance(other, Literal) and other.value is None:
                if operator == "<=>":
                    return UNKNOWN if isinstance(one, Literal) else IsNull(one)
                return Constant(None)
        return Comparison(operator, left, right)

    def is_null(self, node: Node) -> Predicate:
        child = self.operand(node)
        return UNKNOWN if child is None or isinstance(child, Literal) else IsNull(child)

    def is_in(self, node: exp.In) -> Predicate:
        child = self.operand(node.this)
        listed = node.expressions
        if child is None or not listed:
            return UNKNOWN
        values = []
        for element in listed:
            value = self.operand(element)
            if not isinstance(value, Literal):
                return UNKNOWN
            values.append(value)
        present = tuple(v for v in values if v.value is not None)
        if not present:
            return Constant(None)
        return In(child, present, with_null=len(present) < len(values))

    def like(self, node: Node, escape: str) -> Predicate:
        found = self.pattern(node, escape)
        return Not(found) if node.args.get("negate") else found

    def pattern(self, node: Node, escape: str) -> Predicate:
        child, pattern = self.operand(node.this), self.operand(node.expression)
        if child is None or not isinstance(pattern, Literal) or pattern.type != STRING or pattern.value is None:
            return UNKNOWN
        text: str = pattern.value
        prefix: list[str] = []
        i = 0
        while i < len(text):
            if text[i] == escape:
                if i + 1 == len(text) or text[i + 1] not in ("%", "_", escape):
                    return UNKNOWN  # an error in Spark
                i += 1
            elif text[i] in "%_":
                return StartsWith(child, "".join(prefix), exact=text[i:] == "%")
            prefix.append(text[i])
            i += 1
        return Comparison("=", child, Literal(STRING, "".join(prefix)))

    def operand(self, node: Node) -> Operand | None:
        """A column or a value; ``None`` where it is something else."""
        if isinstance(node, exp.Paren):
            return self.operand(node.this)
        path = _column_path(node)
        if path is not None:
            return Column(path)
        if isinstance(node, exp.Boolean):
            return Literal(BOOLEAN, bool(node.this))
        if isinstance(node, exp.Literal):
            return self.literal(node)
        if isinstance(node, exp.Neg):
            return self.negated(node)
        if isinstance(node, exp.Cast):
            return self.cast(node)
        if isinstance(node, exp.Year) and isinstance(node.this, exp.TsOrDsToDate):
            child = self.operand(node.this.this)
            return None if child is None or isinstance(child, Literal) else Year(child)
        return None

    def literal(self, node: exp.Literal) -> Literal | None:
        if node.is_string:
            lifted = self.strings.get(node.this)
            return None if lifted is None or lifted.value is None else Literal(STRING, lifted.value)
        text = node.this
        if text.isdigit():
            value = int(text)
            if value < INTEGRAL_RANGES["long"]:
                return Literal(INTEGER if value < INTEGRAL_RANGES["integer"] else PrimitiveType("long"), value)
        return decimal_literal(text) if "e" not in text.lower() else floating_literal(text, DOUBLE)

    def negated(self, node: exp.Neg) -> Literal | None:
        # -9223372036854775808L is written with a minus before a number that alone does not fit.
        child = node.this
        if isinstance(child, exp.Cast) and child.is_type(exp.DataType.Type.BIGINT) and child.this.name == str(2**63):
            return Literal(PrimitiveType("long"), -(2**63))
        if isinstance(child, exp.Literal) and not child.is_string and child.this == str(2**31):
            return Literal(INTEGER, -(2**31))
        value = self.operand(child)
        if not isinstance(value, Literal) or not isinstance(value.value, int | float | Decimal):
            return None
        return None if value.type == BOOLEAN else Literal(value.type, -value.value)

    def cast(self, node: exp.Cast) -> Operand | None:
        target = _data_type(node.to)
        if target is None:
            return None
        inner = node.this
        if isinstance(inner, exp.Null):
            return Literal(target, None)
        if isinstance(inner, exp.Literal):
            return self.cast_text(inner, target)
        child = self.operand(inner)
        if isinstance(child, Literal):
            return cast_literal(child, target)
        return None if child is None else Cast(child, target)

    def cast_text(self, node: exp.Literal, target: DataType) -> Literal | None:
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
            return Literal(STRING, text)
        if isinstance(target, PrimitiveType) and target.name in ("float", "double"):
            return floating_literal(text, target)
        if isinstance(target, PrimitiveType) and target.name in INTEGRAL_RANGES and WHOLE_NUMBER.fullmatch(text):
            return cast_literal(Literal(PrimitiveType("long"), int(text)), target)
        if target == PrimitiveType("date"):
            day = parse_date(text)
            return None if day is None else Literal(target, day)
        if target == TIMESTAMP or target == PrimitiveType("timestamp_ntz"):
            # A cast, unlike a typed literal, has a zone of its own that its text does not tell.
            zone = self.time_zone if lifted.keyword.startswith("TIMESTAMP") else None
            micros = timestamp_micros(text, "UTC" if target != TIMESTAMP else zone, with_zone=target == TIMESTAMP)
            return None if micros is None else Literal(target, micros)
        return None


def _data_type(to: exp.DataType) -> DataType | None:
    if to.this == exp.DataType.Type.DECIMAL:
        try:
            precision, scale = (int(p.this.this) for p in to.expressions)
        except (ValueError, AttributeError):
            return None
        return DecimalType(precision, scale)
    return None if to.expressions else _TYPES.get(to.this)
