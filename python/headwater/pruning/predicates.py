"""Predicates over one row of a table, as a small typed tree.

Owns the reading of a predicate's Spark SQL text, as Catalyst prints it after analysis: attributes by name without a qualifier, literals
that carry their type, every cast written out. Promise: a tree means what the text means, three-valued logic included, or the part
that cannot be read for certain is ``Unknown``. Nothing here raises on a predicate, however odd; parsed texts are cached.
"""

from __future__ import annotations

import datetime
import math
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from headwater.pruning.text import Lifted, Unreadable, lift, split
from headwater.schema.types import DataType, DecimalType, PrimitiveType

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
    """A value of a type; ``None`` is a null of that type. Dates are ``date``, both timestamps microseconds since the epoch."""

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


@lru_cache(maxsize=256)
def parse_predicate(sql: str, time_zone: str) -> Predicate:
    """The tree of a predicate's text.

    :param time_zone: the zone of ``TIMESTAMP '…'`` literals without one of their own: the one the text was printed with.
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
        names.update(column.parts[0].name for column in expression.find_all(exp.Column))

    try:
        split(lift(sql)[0], atom, lambda _: None, lambda _operator, _children: None)
    except Unreadable:
        return None
    return frozenset(names)


def partition_predicate_columns(predicate_sql: str) -> set[str] | None:
    """The top-level columns a predicate's text mentions, spelled as it spells them; ``None`` where they cannot be told for certain."""
    found = _referenced(predicate_sql)
    return None if found is None else set(found)


def is_partition_only(predicate_sql: str, partition_columns: Sequence[str]) -> bool:
    """Whether a predicate certainly looks at no column but these, compared without case as Spark resolves by default."""
    found = _referenced(predicate_sql)
    return found is not None and {name.lower() for name in found} <= {name.lower() for name in partition_columns}


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


def _expression(text: str) -> exp.Expression | None:
    try:
        parsed = sqlglot.parse_one(text, dialect="spark", into=exp.Condition)
    except (SqlglotError, RecursionError, ValueError):
        return None
    return parsed if isinstance(parsed, exp.Expression) else None


def _column_path(node: exp.Expression) -> tuple[str, ...] | None:
    if isinstance(node, exp.Column):
        return tuple(part.name for part in node.parts) if all(type(p) is exp.Identifier for p in node.parts) else None
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        parent = _column_path(node.this)
        return None if parent is None else (*parent, node.expression.name)
    return None


_BINARY = {"this", "expression"}
#: The parts of sqlglot's nodes that are understood here; a node with any other part set may mean something else (``negate``).
_PARTS: dict[type[exp.Expression], set[str]] = {
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


def _understood(node: exp.Expression) -> bool:
    return all(
        not value or type(child) not in _PARTS or part in _PARTS[type(child)]
        for child in node.walk()
        for part, value in child.args.items()
    )


_DECIMAL_TEXT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_TYPES: dict[exp.DataType.Type, DataType] = {
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
_FLIPPED: dict[type[exp.Expression], tuple[str, bool]] = {
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

    def predicate(self, node: exp.Expression) -> Predicate:
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

    def comparison(self, operator: str, left_node: exp.Expression, right_node: exp.Expression) -> Predicate:
        left, right = self.operand(left_node), self.operand(right_node)
        if left is None or right is None:
            return UNKNOWN
        for one, other in ((left, right), (right, left)):
            if isinstance(other, Literal) and other.value is None:
                if operator == "<=>":
                    return UNKNOWN if isinstance(one, Literal) else IsNull(one)
                return Constant(None)
        return Comparison(operator, left, right)

    def is_null(self, node: exp.Expression) -> Predicate:
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

    def like(self, node: exp.Expression, escape: str) -> Predicate:
        found = self.pattern(node, escape)
        return Not(found) if node.args.get("negate") else found

    def pattern(self, node: exp.Expression, escape: str) -> Predicate:
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

    def operand(self, node: exp.Expression) -> Operand | None:
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
        return _decimal_literal(text) if "e" not in text.lower() else _to_double(text, DOUBLE)

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
            return _cast_value(child, target)
        return None if child is None else Cast(child, target)

    def cast_text(self, node: exp.Literal, target: DataType) -> Literal | None:
        """A literal that a cast or a suffix gives its type: ``5L``, ``1.50BD``, ``DATE '…'``, ``CAST('NaN' AS DOUBLE)``."""
        lifted = self.strings.get(node.this) if node.is_string else None
        if lifted is None:
            if isinstance(target, DecimalType) and _DECIMAL_TEXT.fullmatch(node.this):
                return _decimal_literal(node.this, target)
            if node.is_string:
                return None
            if target in (DOUBLE, PrimitiveType("float")) and _DECIMAL_TEXT.fullmatch(node.this):
                return _to_double(node.this, target)
            value = self.literal(node)
            return None if value is None else _cast_value(value, target)
        text = lifted.value
        if text is None:
            return None
        if target == STRING:
            return Literal(STRING, text)
        if isinstance(target, PrimitiveType) and target.name in ("float", "double"):
            return _to_double(text, target)
        if target == PrimitiveType("date"):
            day = _date(text)
            return None if day is None else Literal(target, day)
        if target == TIMESTAMP or target == PrimitiveType("timestamp_ntz"):
            # A cast, unlike a typed literal, has a zone of its own that its text does not tell.
            zone = self.time_zone if lifted.keyword.startswith("TIMESTAMP") else None
            micros = _timestamp(text, "UTC" if target != TIMESTAMP else zone, with_zone=target == TIMESTAMP)
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


def _decimal_literal(text: str, target: DecimalType | None = None) -> Literal | None:
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return None
    scale = max(-exponent, 0)
    precision = max(len(digits) + max(exponent, 0), scale)
    if precision > 38:
        return None
    if target is not None and (scale > target.scale or precision - scale > target.precision - target.scale):
        return None
    return Literal(target or DecimalType(max(precision, 1), scale), value)


def _to_double(text: str, target: DataType) -> Literal | None:
    if text not in ("NaN", "Infinity", "-Infinity") and not _DECIMAL_TEXT.fullmatch(text):
        return None
    value = float(text)
    if target == PrimitiveType("float"):
        try:
            value = struct.unpack("f", struct.pack("f", value))[0]
        except OverflowError:
            return None
    return Literal(target, value)


def _cast_value(value: Literal, target: DataType) -> Literal | None:
    """A literal as another type, where that changes nothing about its value."""
    if value.type == target or value.value is None:
        return Literal(target, value.value)
    if not isinstance(value.type, DecimalType) and not (
        isinstance(value.type, PrimitiveType) and value.type.name in (*INTEGRAL_RANGES, "float")
    ):
        return None
    number = value.value
    if isinstance(target, DecimalType):
        return _decimal_literal(str(number), target) if isinstance(number, int | Decimal) else None
    name = target.name if isinstance(target, PrimitiveType) else ""
    if name in INTEGRAL_RANGES and isinstance(number, int):
        limit = INTEGRAL_RANGES[name]
        return Literal(target, number) if -limit <= number < limit else None
    if name == "double" or (name == "float" and isinstance(number, int) and abs(number) <= 2**24):
        return Literal(target, float(number)) if not isinstance(number, float) or math.isfinite(number) else None
    return None


_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_TIMESTAMP = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?)?(Z|[+-]\d{2}:\d{2})?", re.ASCII
)


def _date(text: str) -> datetime.date | None:
    match = _DATE.fullmatch(text)
    try:
        return datetime.date(*(int(part) for part in match.groups())) if match else None
    except ValueError:
        return None


def _timestamp(text: str, zone: str | None, with_zone: bool) -> int | None:
    """Microseconds since the epoch; for text without a zone those of ``zone``, which must then be known."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    day, hour, minute, second, fraction, offset = match.groups()
    if offset is not None and not with_zone:
        return None
    date = _date(day)
    if date is None:
        return None
    try:
        local = datetime.datetime(date.year, date.month, date.day, int(hour or 0), int(minute or 0), int(second or 0))
        shift = _utc_offset(local, offset or zone)
    except (ValueError, OverflowError, OSError):  # no such time, or no such zone here
        return None
    if shift is None:
        return None
    since = local - datetime.datetime(1970, 1, 1) - shift
    return (since.days * 86_400 + since.seconds) * 1_000_000 + int((fraction or "").ljust(6, "0"))


def _utc_offset(local: datetime.datetime, zone: str | None) -> datetime.timedelta | None:
    """The zone's offset at a local time. Between two offsets it is the earlier one's, as Java resolves gaps and overlaps too."""
    if zone in ("Z", "UTC", "GMT", "Etc/UTC"):
        return datetime.timedelta()
    if zone is None:
        return None
    if match := re.fullmatch(r"(?:UTC|GMT|UT)?([+-])(\d{2}):(\d{2})", zone):
        offset = datetime.timedelta(hours=int(match[2]), minutes=int(match[3]))
        return offset if match[1] == "+" else -offset
    try:
        return local.replace(tzinfo=ZoneInfo(zone)).utcoffset()
    except KeyError:  # ZoneInfoNotFoundError is one
        return None
