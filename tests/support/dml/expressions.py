"""Spark's expressions twice over: as SQL text and as plain Python, for tests that need to know what a condition means.

A :class:`Term` is both. Its value is what Spark gives with ANSI rules and in UTC: ``None`` is NULL, and a condition is
true, false or unknown. Kinds are names of the few types the tests use, ``SQL_TYPES``; a struct's value is a tuple in
the order of ``STRUCT``, a decimal has two digits behind the point, a timestamp is the ``datetime`` in UTC.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

Value = Any
Row = dict[str, Value]

SQL_TYPES = {
    "short": "SMALLINT",
    "int": "INT",
    "bigint": "BIGINT",
    "string": "STRING",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "decimal": "DECIMAL(10,2)",
    "double": "DOUBLE",
    "binary": "BINARY",
    "timestamp": "TIMESTAMP",
    "ntz": "TIMESTAMP_NTZ",
    "struct": "STRUCT<x: INT, y: STRING>",
}
STRUCT = {"x": "int", "y": "string"}
NUMBERS = ("short", "int", "bigint", "decimal")
COMPARISONS = ("=", "<=>", "<>", "<", "<=", ">", ">=")


@dataclass(frozen=True)
class Scope:
    """What names stand for: a row for each alias, and all the rows of the second table that subqueries read."""

    rows: Mapping[str, Row]
    others: Sequence[Row] = ()

    def having(self, alias: str, row: Row) -> Scope:
        """The scope within a subquery that gives ``alias`` this row."""
        return Scope({**self.rows, alias: row}, self.others)


@dataclass(frozen=True)
class Term:
    """An expression: its SQL, and its value for a scope."""

    sql: str
    value: Callable[[Scope], Value] = field(repr=False, compare=False)

    def holds(self, scope: Scope) -> bool:
        """As a condition: unknown is not true."""
        return self.value(scope) is True


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def literal(kind: str, value: Value) -> Term:
    """A constant of a kind, NULL included."""
    return Term(literal_sql(kind, value), lambda scope: value)


def literal_sql(kind: str, value: Value) -> str:
    if value is None:
        return f"CAST(NULL AS {SQL_TYPES[kind]})"
    if kind == "struct":
        fields = (f"'{name}', {literal_sql(STRUCT[name], v)}" for name, v in zip(STRUCT, value, strict=True))
        return f"named_struct({', '.join(fields)})"
    forms: dict[str, Callable[[Any], str]] = {
        "short": lambda v: f"{v}S" if v >= 0 else f"({v}S)",
        "int": lambda v: str(v) if v >= 0 else f"({v})",
        "bigint": lambda v: f"{v}L" if v >= 0 else f"({v}L)",
        "string": lambda v: "'" + v.replace("\\", "\\\\").replace("'", "\\'") + "'",
        "boolean": lambda v: str(v).upper(),
        "date": lambda v: f"DATE'{v}'",
        "decimal": lambda v: f"{v}BD" if v >= 0 else f"({v}BD)",
        "double": lambda v: f"CAST('{v!r}' AS DOUBLE)",
        "binary": lambda v: f"X'{v.hex()}'",
        "timestamp": lambda v: f"TIMESTAMP'{v}Z'",
        "ntz": lambda v: f"TIMESTAMP_NTZ'{v}'",
    }
    return forms[kind](value)


def column(alias: str, name: str, *, qualified: bool = True) -> Term:
    """A column of the row that ``alias`` stands for."""
    sql = f"{alias}.{quoted(name)}" if qualified else quoted(name)
    return Term(sql, lambda scope: scope.rows[alias][name])


def struct_field(term: Term, name: str) -> Term:
    """A field of a struct: NULL of a NULL struct."""
    position = list(STRUCT).index(name)

    def value(scope: Scope) -> Value:
        struct = term.value(scope)
        return None if struct is None else struct[position]

    return Term(f"{term.sql}.{name}", value)


def ordering(value: Value) -> Any:
    """What values other than NULL are compared by: strings as their bytes; NaN is equal to NaN and above all; a struct
    field by field, where NULL is equal to NULL and less than anything else."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    if isinstance(value, tuple):
        return tuple((inner is not None, ordering(inner)) for inner in value)
    return value


def compared(operator: str, left: Value, right: Value) -> bool | None:
    if left is None or right is None:
        return (left is None and right is None) if operator == "<=>" else None
    a, b = ordering(left), ordering(right)
    return bool(
        {"=": a == b, "<=>": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[operator]
    )


def compare(operator: str, left: Term, right: Term) -> Term:
    return Term(
        f"({left.sql} {operator} {right.sql})",
        lambda scope: compared(operator, left.value(scope), right.value(scope)),
    )


def conjunction(*values: bool | None) -> bool | None:
    return False if False in values else None if None in values else True


def disjunction(*values: bool | None) -> bool | None:
    return True if True in values else None if None in values else False


def negation(value: bool | None) -> bool | None:
    return None if value is None else not value


def all_of(*terms: Term) -> Term:
    return Term(
        f"({' AND '.join(term.sql for term in terms)})",
        lambda scope: conjunction(*(term.value(scope) for term in terms)),
    )


def any_of(*terms: Term) -> Term:
    return Term(
        f"({' OR '.join(term.sql for term in terms)})",
        lambda scope: disjunction(*(term.value(scope) for term in terms)),
    )


def negated(term: Term) -> Term:
    return Term(f"(NOT {term.sql})", lambda scope: negation(term.value(scope)))


def is_null(term: Term, *, negate: bool = False) -> Term:
    return Term(
        f"({term.sql} IS {'NOT ' if negate else ''}NULL)", lambda scope: (term.value(scope) is None) is not negate
    )


def among(term: Term, choices: Sequence[Term], *, negate: bool = False) -> Term:
    """``IN`` a list: unknown where no choice is equal and one is NULL."""

    def value(scope: Scope) -> bool | None:
        found = disjunction(*(compared("=", term.value(scope), choice.value(scope)) for choice in choices))
        return negation(found) if negate else found

    words = "NOT IN" if negate else "IN"
    return Term(f"({term.sql} {words} ({', '.join(choice.sql for choice in choices)}))", value)


def arithmetic(operator: str, left: Term, right: Term) -> Term:
    """``+ - * %``; a remainder has the sign of what is divided, and tests divide by no zero."""
    functions: dict[str, Callable[[Any, Any], Any]] = {
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * b,
        "%": lambda a, b: int(math.fmod(a, b)),
    }

    def value(scope: Scope) -> Value:
        a, b = left.value(scope), right.value(scope)
        return None if a is None or b is None else functions[operator](a, b)

    return Term(f"({left.sql} {operator} {right.sql})", value)


def date_add(term: Term, days: int) -> Term:
    def value(scope: Scope) -> Value:
        day = term.value(scope)
        return None if day is None else day + datetime.timedelta(days)

    return Term(f"date_add({term.sql}, {days})", value)


def hours_later(term: Term, hours: int) -> Term:
    def value(scope: Scope) -> Value:
        moment = term.value(scope)
        return None if moment is None else moment + datetime.timedelta(hours=hours)

    return Term(f"({term.sql} + INTERVAL '{hours}' HOUR)", value)


def concat(left: Term, right: Term) -> Term:
    def value(scope: Scope) -> Value:
        a, b = left.value(scope), right.value(scope)
        return None if a is None or b is None else a + b

    return Term(f"concat({left.sql}, {right.sql})", value)


def coalesce(*terms: Term) -> Term:
    def value(scope: Scope) -> Value:
        return next((v for term in terms if (v := term.value(scope)) is not None), None)

    return Term(f"coalesce({', '.join(term.sql for term in terms)})", value)


def either(condition: Term, then: Term, otherwise: Term) -> Term:
    """``CASE WHEN``: an unknown condition goes the other way."""
    return Term(
        f"CASE WHEN {condition.sql} THEN {then.sql} ELSE {otherwise.sql} END",
        lambda scope: then.value(scope) if condition.holds(scope) else otherwise.value(scope),
    )


def struct_of(x: Term, y: Term) -> Term:
    return Term(f"named_struct('x', {x.sql}, 'y', {y.sql})", lambda scope: (x.value(scope), y.value(scope)))


#: The second table and its alias within subqueries.
OTHERS, INNER = "others", "o"


def _found(scope: Scope, condition: Term | None) -> list[Scope]:
    inner = [scope.having(INNER, row) for row in scope.others]
    return [each for each in inner if condition is None or condition.holds(each)]


def _select(what: str, condition: Term | None) -> str:
    where = "" if condition is None else f" WHERE {condition.sql}"
    return f"(SELECT {what} FROM {OTHERS} AS {INNER}{where})"


def among_others(term: Term, selected: Term, condition: Term | None, *, negate: bool = False) -> Term:
    """``IN`` a subquery over the second table, with the meaning of ``IN`` a list."""

    def value(scope: Scope) -> bool | None:
        own = term.value(scope)
        found = disjunction(*(compared("=", own, selected.value(each)) for each in _found(scope, condition)))
        return negation(found) if negate else found

    words = "NOT IN" if negate else "IN"
    return Term(f"({term.sql} {words} {_select(selected.sql, condition)})", value)


def exists(condition: Term, *, negate: bool = False) -> Term:
    words = "NOT EXISTS" if negate else "EXISTS"
    return Term(f"({words} {_select('1', condition)})", lambda scope: bool(_found(scope, condition)) is not negate)


def aggregated(function: str, selected: Term, condition: Term | None) -> Term:
    """A scalar subquery: ``max``, ``min`` or ``count`` of the second table's rows."""

    def value(scope: Scope) -> Value:
        values = [v for each in _found(scope, condition) if (v := selected.value(each)) is not None]
        if function == "count":
            return len(values)
        return ({"max": max, "min": min}[function])(values, key=ordering, default=None)

    return Term(_select(f"{function}({selected.sql})", condition), value)


def stored(kind: str, value: Value) -> Value:
    """What a column of the kind holds after this value is assigned to it."""
    return value if value is None or kind != "decimal" else Decimal(value).quantize(Decimal("0.01"))
