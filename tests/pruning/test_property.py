"""No file with a matching row is dropped: random tables and predicates against a plain evaluator of SQL's logic."""

from __future__ import annotations

import datetime
import json
import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.protocol.types import DecimalType
from headwater.pruning import prune
from headwater.pruning.evaluation import Outcome, possible
from headwater.pruning.masks import settle
from headwater.pruning.predicates import decode, encode
from support.predicate_text import parse_predicate
from support.pruning_fakes import FakeSnapshot, File, struct

EPOCH = datetime.datetime(1970, 1, 1)
SCHEMA = struct(
    i="integer",
    l="long",
    x=DecimalType(10, 2),
    s="string",
    f="double",
    g="float",
    d="date",
    t="timestamp",
    n="timestamp_ntz",
    o=struct(y="integer", z="string"),
    pi="integer",
    ps="string",
    pf="double",
    pd="date",
    pt="timestamp",
    pb="boolean",
)
PARTITIONS = ["pi", "ps", "pf", "pd", "pt", "pb"]

INTS = [-3, -1, 0, 1, 2, 3]
TEXTS = [
    "",
    "a",
    "A",
    "ab",
    "abcdefg",
    "abcdefgh",
    "abcdefghij",
    "abcdefghz",
    "abz",
    "b",
    "é",
    "é\ud7ff",
    "\uffff",
    "😀",
]
TEXTS += [
    "it's",
    "back\\slash",
    "100%",
    "under_score",
    "a\nb",
    "(a) AND b",
    "--",
    "/*",
    "`q`",
    '"',
    "x'00'",
    "\U0010ffff",
]
FLOATS = [math.nan, -0.0, 0.0, 1.5, math.nan, -1.5, math.inf, -math.inf]
DATES = [datetime.date(1969, 12, 30) + datetime.timedelta(days=i) for i in range(4)]
MICROS = [EPOCH + datetime.timedelta(microseconds=m) for m in (-86_400_000_001, -1, 0, 1, 999_999, 3_600_000_000)]
DECIMALS = [Decimal(v) for v in ("-1.50", "0.00", "0.01", "1.50", "2.00")]
POOLS: dict[str, list[Any]] = {
    "integer": INTS,
    "long": INTS,
    "decimal": DECIMALS,
    "string": TEXTS,
    "double": FLOATS,
    "float": FLOATS,
    "date": DATES,
    "timestamp": MICROS,
    "timestamp_ntz": MICROS,
    "boolean": [True, False],
    "year": [1969, 1970],
}
COLUMNS: dict[tuple[str, ...], str] = {
    (f.name,): getattr(f.type, "name", "decimal") for f in SCHEMA if f.name != "o"
} | {("o", "y"): "integer", ("o", "z"): "string"}


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def literal(kind: str, value: Any) -> str:
    """The literal as Catalyst prints it, in UTC."""
    if value is None:
        name = {"integer": "INT", "year": "INT", "long": "BIGINT", "decimal": "DECIMAL(10,2)"}.get(kind, kind.upper())
        return f"CAST(NULL AS {name})"
    if kind in ("double", "float"):
        if math.isfinite(value) and kind == "double":
            return f"{value!r}D"
        text = (
            "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity" if math.isinf(value) else repr(value)
        )
        return f"CAST('{text}' AS {kind.upper()})"
    simple: dict[str, Callable[[Any], str]] = {
        "integer": str,
        "year": str,
        "long": lambda v: f"{v}L",
        "decimal": lambda v: f"{v}BD",
        "string": quoted,
        "date": lambda v: f"DATE '{v}'",
        "timestamp": lambda v: f"TIMESTAMP '{v}'",
        "timestamp_ntz": lambda v: f"TIMESTAMP_NTZ '{v}'",
        "boolean": lambda v: str(v).lower(),
    }
    return simple[kind](value)


@dataclass
class Term:
    """SQL text with what it is for a row: a value for an operand, True, False or None for a predicate."""

    sql: str
    value: Callable[[dict[str, Any]], Any]


def key(value: Any) -> Any:
    """What Spark orders and equates values by."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def compared(operator: str, left: Any, right: Any) -> bool | None:
    if operator == "<=>":
        return left is None and right is None if left is None or right is None else key(left) == key(right)
    if left is None or right is None:
        return None
    a, b = key(left), key(right)
    return {"=": a == b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "!=": a != b}[operator]


def negated(value: bool | None) -> bool | None:
    return None if value is None else not value


def all_of(values: list[bool | None]) -> bool | None:
    return False if False in values else None if None in values else True


def column(path: tuple[str, ...]) -> Term:
    def value(row: dict[str, Any]) -> Any:
        current: Any = row
        for name in path:
            current = None if current is None else current[name]
        return current

    return Term(".".join(f"`{name}`" for name in path), value)


def applied(term: Term, sql: str, function: Callable[[Any, dict[str, Any]], Any]) -> Term:
    def value(row: dict[str, Any]) -> Any:
        inner = term.value(row)
        return None if inner is None else function(inner, row)

    return Term(sql.format(term.sql), value)


FILLERS: dict[str, Callable[[int], Any]] = {
    "integer": lambda n: 50 + n,
    "long": lambda n: 50 + n,
    "decimal": lambda n: Decimal(50 + n),
    "string": lambda n: f"zz{n}",
    "double": lambda n: 50.0 + n,
    "float": lambda n: 50.0 + n,
    "date": lambda n: datetime.date(2000, 1, 1 + n),
    "timestamp": lambda n: datetime.datetime(2000, 1, 1 + n),
    "timestamp_ntz": lambda n: datetime.datetime(2000, 1, 1 + n),
    "boolean": lambda n: n % 2 == 0,
    "year": lambda n: 2000 + n,
}
OPERATORS = ["=", "<=>", "<", "<=", ">", ">=", "!="]


Pools = dict[str, list[Any]]
Paths = list[tuple[str, ...]]


def typed_operand(random: Random, paths: Paths) -> tuple[str, Term]:
    """A column, or a cast of one, with its type."""
    path = random.choice(paths)
    kind, term = COLUMNS[path], column(path)
    choice = random.randrange(4)
    if choice and kind == "integer":
        if choice == 1:
            return "long", applied(term, "CAST({} AS BIGINT)", lambda v, _: v)
        if choice == 2:
            return "double", applied(term, "CAST({} AS DOUBLE)", lambda v, _: float(v))
        return "decimal", applied(term, "CAST({} AS DECIMAL(20,2))", lambda v, _: Decimal(v))
    if choice and kind == "float":
        return "double", applied(term, "CAST({} AS DOUBLE)", lambda v, _: v)
    if choice and kind in ("timestamp", "timestamp_ntz"):
        shift = kind == "timestamp"
        day = applied(term, "CAST({} AS DATE)", lambda v, row: (v + row["zone"] if shift else v).date())
        return ("year", applied(day, "year({})", lambda v, _: v.year)) if choice == 1 else ("date", day)
    if choice == 1 and kind == "date":
        midnight = datetime.time()
        cast = "CAST({} AS TIMESTAMP)"
        return "timestamp", applied(term, cast, lambda v, row: datetime.datetime.combine(v, midnight) - row["zone"])
    return kind, term


def leaf(random: Random, paths: Paths, pools: Pools) -> Term:
    """A predicate about one operand or two."""
    kind, term = typed_operand(random, paths)
    pool = pools[kind]
    form = random.choice(["compare", "compare", "compare", "in", "in", "null", "columns", "like", "starts", "odd"])
    if form == "null":
        test = random.random() < 0.5
        text = f"({term.sql} IS {'' if test else 'NOT '}NULL)"
        return Term(text, lambda row: (term.value(row) is None) is test)
    if form == "columns":
        other_kind, other = typed_operand(random, paths)
        if other_kind == kind:
            operator = random.choice(OPERATORS)
            text = f"({term.sql} {operator} {other.sql})"
            return Term(text, lambda row: compared(operator, term.value(row), other.value(row)))
    if form == "in":
        values = [random.choice(pool) for _ in range(random.randrange(1, 4))]
        if random.random() < 0.3:
            values += [FILLERS[kind](n) for n in range(10)]
        if random.random() < 0.2:
            values.append(None)

        def listed(row: dict[str, Any]) -> bool | None:
            found = [compared("=", term.value(row), v) for v in values]
            return True if True in found else None if None in found else False

        return Term(f"({term.sql} IN ({', '.join(literal(kind, v) for v in values)}))", listed)
    if form in ("like", "starts") and kind == "string":
        prefix = random.choice(pool)[: random.choice([1, 2, 8, 9])]
        if form == "starts":
            return applied(term, f"startswith({{}}, {quoted(prefix)})", lambda v, _: v.startswith(prefix))
        tail = random.choice(["%", "", "_", "%b", "%%"])
        pattern = re.sub(r"([\\%_])", r"\\\1", prefix) + tail
        regex = re.compile(re.escape(prefix) + tail.replace("%", ".*").replace("_", "."), re.DOTALL)
        return applied(term, "{} LIKE " + quoted(pattern), lambda v, _: regex.fullmatch(v) is not None)
    if form == "odd":
        # A function pruning knows nothing about; it may be anything for any row.
        answers = [random.choice([True, False, None]) for _ in range(2)]
        return Term(f"(hash({term.sql}, ') OR (') = 3)", lambda row: answers[row["number"] % 2])
    if kind == "boolean" and form == "compare":
        return term
    operator = random.choice(OPERATORS)
    value = random.choice(pool) if random.random() < 0.95 else None
    if random.random() < 0.5:
        text = f"({term.sql} {operator} {literal(kind, value)})"
        return Term(text, lambda row: compared(operator, term.value(row), value))
    text = f"({literal(kind, value)} {operator} {term.sql})"
    return Term(text, lambda row: compared(operator, value, term.value(row)))


def predicate(random: Random, paths: Paths, pools: Pools, depth: int = 0) -> Term:
    """A predicate of a few leaves."""
    form = random.choice(["leaf", "leaf", "not", "and", "or"]) if depth < 3 else "leaf"
    if form == "leaf":
        return leaf(random, paths, pools)
    a = predicate(random, paths, pools, depth + 1)
    if form == "not":
        return Term(f"(NOT {a.sql})", lambda row: negated(a.value(row)))
    b = predicate(random, paths, pools, depth + 1)
    if form == "and":
        return Term(f"({a.sql} AND {b.sql})", lambda row: all_of([a.value(row), b.value(row)]))
    return Term(f"({a.sql} OR {b.sql})", lambda row: negated(all_of([negated(a.value(row)), negated(b.value(row))])))


FAMILIES: dict[str, Paths] = {
    "numbers": [("i",), ("l",), ("x",), ("o", "y"), ("pi",), ("pb",)],
    "strings": [("s",), ("s",), ("o", "z"), ("ps",)],
    "floats": [("f",), ("g",), ("pf",)],
    "times": [("d",), ("t",), ("n",), ("pd",), ("pt",)],
}


def data_file(random: Random, paths: Paths, pools: Pools) -> File:
    """A file of a few rows, from a writer of some habits."""

    def value(kind: str) -> Any:
        return random.choice(pools[kind]) if random.random() < 0.85 else None

    def row() -> dict[str, Any]:
        made = {p[0]: value(COLUMNS[p]) for p in paths if len(p) == 1 and p[0] not in PARTITIONS}
        if inner := {p[1]: value(COLUMNS[p]) for p in paths if len(p) == 2}:
            made["o"] = inner if random.random() < 0.8 else None
        return made

    deleted = [row() for _ in range(random.choice([0, 0, 1, 2]))]
    missing = random.choice([()] * 6 + [(paths[0][-1],), ("*",)])
    return File(
        [row() for _ in range(random.randrange(4))],
        {p[0]: value(COLUMNS[p]) for p in paths if p[0] in PARTITIONS},
        deleted,
        tight=not deleted and random.random() < 0.5,
        missing=frozenset(missing),
        cut=random.choice([8, 9, 32]),
        tie_breaker=random.choice(["\U0010ffff", ""]),
    )


#: Enough for a quick run; ``HEADWATER_TEST_EXAMPLES`` asks for more.
EXAMPLES = int(os.environ.get("HEADWATER_TEST_EXAMPLES", "50"))
EMPTY: dict[str, Any] = dict.fromkeys(SCHEMA.names)
OUTCOMES = {True: Outcome.TRUE, False: Outcome.FALSE, None: Outcome.NULL}
OFFSETS = [datetime.timedelta(hours=h) for h in (-12, -5, 0, 14)]


@pytest.mark.random
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_no_outcome_is_ruled_out_that_a_row_has(family: str) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.randoms(use_true_random=False))
    def check(random: Random) -> None:
        paths = [random.choice(FAMILIES[family]) for _ in range(random.randrange(1, 3))]
        pools = {kind: [random.choice(pool) for _ in range(3)] for kind, pool in POOLS.items()}
        files = [data_file(random, paths, pools) for _ in range(2)]
        session, writer = random.choice(OFFSETS), random.choice(OFFSETS)
        snapshot = FakeSnapshot(SCHEMA, files, PARTITIONS)
        rows = [
            (position, {**EMPTY, **data, **file.partition, "zone": session, "number": number})
            for position, file in enumerate(files)
            for number, data in enumerate(file.rows)
        ]
        for _, row in rows:
            if row["pt"] is not None:
                row["pt"] = row["pt"] - writer  # the zone that a plain text is in is the writer's
        for _ in range(8):
            term = predicate(random, paths, pools)
            tree = parse_predicate(term.sql)
            assert decode(json.loads(encode(tree))) == tree
            masks = {o: settle(possible(snapshot, [tree], o), len(files)) for o in Outcome}
            assert prune(snapshot, tree).equals(masks[Outcome.TRUE])
            for position, row in rows:
                outcome = OUTCOMES[term.value(row)]
                assert masks[outcome][position].as_py(), (term.sql, row, outcome)

    check()
