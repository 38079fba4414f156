"""Conditions without Spark: a user's text becomes a predicate if its meaning is clear.

Owns the reading of comparisons of a column with a literal, ``IN``, ``BETWEEN``, ``IS NULL``, ``AND``, ``OR`` and
``NOT``. Promise: what is read means what Spark would mean by it; any other part is ``Unknown`` and is named. A text
that is no condition over the table's columns is refused, as a mistyped name would look like a predicate that skips
nothing.
For estimates only: a statement's own condition is resolved by Spark. A timestamp without a zone is one of UTC.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from headwater.basics.errors import HeadwaterError
from headwater.basics.suggestions import nearest
from headwater.protocol.partition_values import parse_value
from headwater.protocol.types import DataType, DecimalType, PrimitiveType, StructType
from headwater.pruning.bounds import Files, resolve_column, values_of
from headwater.pruning.predicates import (
    INTEGRAL_RANGES,
    UNKNOWN,
    And,
    Cast,
    Column,
    Comparison,
    ComparisonOperator,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    Predicate,
    literal,
)

_DOUBLE = PrimitiveType("double")
#: The struct that Spark adds to each row of a file.
_METADATA = "_metadata"
#: The types of literals such as ``DATE'2024-01-01'``, and what a column compared with one is.
_TYPED = {
    exp.DataType.Type.DATE: "date",
    exp.DataType.Type.TIMESTAMP: "timestamp",
    exp.DataType.Type.TIMESTAMPTZ: "timestamp",
    exp.DataType.Type.TIMESTAMPLTZ: "timestamp",
    exp.DataType.Type.TIMESTAMPNTZ: "timestamp_ntz",
}
#: A comparison, and whether its sides change places.
_COMPARISONS: dict[type[exp.Expr], tuple[ComparisonOperator, bool]] = {
    exp.EQ: ("=", False),
    exp.NullSafeEQ: ("<=>", False),
    exp.LT: ("<", False),
    exp.LTE: ("<=", False),
    exp.GT: ("<", True),
    exp.GTE: ("<=", True),
}


class Condition(NamedTuple):
    """A predicate, and the parts of the text that it does not stand for."""

    predicate: Predicate
    not_understood: list[str]


class _NotUnderstood(Exception):
    """A part of a condition is none that is read here."""


def parse_condition(text: str, snapshot: Files) -> Condition:
    """The predicate of a condition over a table's columns.

    :raises HeadwaterError: ``PARSE_SYNTAX_ERROR``, ``UNRESOLVED_COLUMN.WITH_SUGGESTION``.
    """
    missed: list[str] = []
    try:
        tree = sqlglot.parse_one(text, dialect="spark")
        if not isinstance(tree, exp.Condition):
            raise _no_condition(text, "it is no condition")
        _check_names(tree, snapshot)
        return Condition(_predicate(tree, snapshot, missed), missed)
    except SqlglotError as error:
        found = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
        near = found.get("highlight")
        raise _no_condition(text, f"there is a mistake at or near '{near}'" if near else "it is not whole") from None
    except RecursionError:
        raise _no_condition(text, "it is nested too deeply") from None


def _no_condition(text: str, reason: str) -> HeadwaterError:
    return HeadwaterError("PARSE_SYNTAX_ERROR", {"statement": text, "reason": reason})


def _check_names(tree: exp.Expr, snapshot: Files) -> None:
    """:raises HeadwaterError: ``UNRESOLVED_COLUMN.WITH_SUGGESTION`` for a name that no column and no field has."""
    for column in tree.find_all(exp.Column):
        if column.find_ancestor(exp.Query) is not None:  # a subquery has columns of its own
            continue
        kind: DataType = snapshot.schema
        for part in column.parts:
            if not isinstance(kind, StructType) or part.name == _METADATA:
                break
            field = kind.find(part.name)
            if field is None:
                known = [each.name for each in kind]
                proposal = ", ".join(nearest(part.name, known, 5) or known[:5])
                named = {"objectName": part.name, "tableName": "the table", "proposal": proposal}
                raise HeadwaterError("UNRESOLVED_COLUMN.WITH_SUGGESTION", named)
            kind = field.type


def _predicate(node: exp.Expr, snapshot: Files, missed: list[str]) -> Predicate:
    match node:
        case exp.Paren():
            return _predicate(node.this, snapshot, missed)
        case exp.Not():
            return Not(_predicate(node.this, snapshot, missed))
        case exp.And() | exp.Or():
            sides = tuple(_predicate(side, snapshot, missed) for side in (node.left, node.right))
            return And(sides) if isinstance(node, exp.And) else Or(sides)
    try:
        return _leaf(node, snapshot)
    except (_NotUnderstood, ValueError, ArithmeticError, pa.ArrowException):
        missed.append(node.sql(dialect="spark"))
        return UNKNOWN


def _leaf(node: exp.Expr, snapshot: Files) -> Predicate:
    match node:
        case exp.Is(expression=exp.Null()):
            return IsNull(_column(node.this, snapshot)[0])
        case exp.In() if node.expressions and not node.args.get("query"):
            column, kind = _column(node.this, snapshot)
            if kind.to_json() == "float":
                raise _NotUnderstood
            values = tuple(_literal(each, kind).value for each in node.expressions)
            return In(column, kind.to_json(), values)
        case exp.Between():
            low, high = node.args["low"], node.args["high"]
            return And((_compared(exp.GTE, node.this, low, snapshot), _compared(exp.LTE, node.this, high, snapshot)))
        case exp.NEQ():
            return Not(_compared(exp.EQ, node.left, node.right, snapshot))
    if isinstance(node, exp.Binary) and type(node) in _COMPARISONS:
        return _compared(type(node), node.left, node.right, snapshot)
    raise _NotUnderstood


def _compared(kind: type[exp.Expr], left: exp.Expr, right: exp.Expr, snapshot: Files) -> Comparison:
    """A comparison of a column with a literal, on either side."""
    operator, swaps = _COMPARISONS[kind]
    if not isinstance(left, exp.Column | exp.Dot):
        left, right, swaps = right, left, not swaps
    column, type_ = _column(left, snapshot)
    value = _literal(right, type_)
    operand: Column | Cast = column
    if type_.to_json() == "float":  # Spark compares a float with the literal's own, more precise value
        operand, value = Cast(column, "double"), _literal(right, _DOUBLE)
    if swaps:
        return Comparison(operator, value, operand)
    return Comparison(operator, operand, value)


def _column(node: exp.Expr, snapshot: Files) -> tuple[Column, DataType]:
    if not isinstance(node, exp.Column | exp.Dot):
        raise _NotUnderstood
    path = tuple(_names(node))
    column = resolve_column(snapshot, path)
    if column is None:
        raise _NotUnderstood
    return Column(path), column.field.type


def _names(node: exp.Expr) -> Sequence[str]:
    if isinstance(node, exp.Dot):
        return [*_names(node.this), *_names(node.expression)]
    if isinstance(node, exp.Column) and all(isinstance(part, exp.Identifier) for part in node.parts):
        return [part.name for part in node.parts]
    if isinstance(node, exp.Identifier):
        return [node.name]
    raise _NotUnderstood


def _literal(node: exp.Expr, kind: DataType) -> Literal:
    """A literal as a value of the column's type, if Spark also compares as that type."""
    name = kind.to_json()
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
        if _TYPED.get(node.to.this) != name:
            raise _NotUnderstood
        return _value(node.this.name, kind)
    if isinstance(node, exp.Boolean) and name == "boolean":
        return literal(kind, bool(node.this))
    sign = ""
    if isinstance(node, exp.Neg):
        sign, node = "-", node.this
    if not isinstance(node, exp.Literal):
        raise _NotUnderstood
    is_number = isinstance(kind, DecimalType) or name in (*INTEGRAL_RANGES, "float", "double")
    is_text = name in ("string", "date", "timestamp", "timestamp_ntz")
    if (is_text and (sign or not node.is_string)) or (is_number and node.is_string) or not (is_text or is_number):
        raise _NotUnderstood
    return _value(f"{sign}{node.name}", kind)


def _value(text: str, kind: DataType) -> Literal:
    """:raises ValueError: the text is none of the type; so are Arrow's errors and arithmetic ones."""
    value = text if kind.to_json() == "string" else parse_value(text, kind)
    found = literal(kind, value)
    values_of(kind, [found.value])
    return found
