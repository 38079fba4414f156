"""Random tables and random scripts: every statement, every clause mix, over values that meet often.

Values come from small pools with NULL among them, so that keys repeat and conditions are true, false and unknown in
turn; numbers stay so small that no arithmetic overflows. The parts: :func:`conditions` and :func:`values` are the
expressions, :func:`statements` the statements of a table, :func:`scripts` all of it.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from support.dml import expressions as e
from support.dml.expressions import COMPARISONS, INNER, NUMBERS, STRUCT, Row, Term
from support.dml.model import (
    SOURCE,
    TARGET,
    Assignment,
    Clause,
    Delete,
    Insert,
    Merge,
    Source,
    Statement,
    Table,
    Update,
)
from support.dml.scripts import Script

Draw = Callable[[st.SearchStrategy[Any]], Any]

INTS = [0, 1, 2, 3, 5, -1]
TEXTS = ["a", "b", "", "B", "it's", "é", "a/b=c%"]
DATES = [datetime.date(2024, 2, 28) + datetime.timedelta(days) for days in range(3)]
#: Times around a change of clocks, and one that most zones had no minutes for.
TIMES = [
    datetime.datetime(2024, 3, 10, 9, 30),
    datetime.datetime(2024, 3, 10, 10, 30),
    datetime.datetime(1800, 1, 1, 0, 0, 0, 1),
    datetime.datetime(2024, 11, 3, 8, 30, 59, 999999),
]
POOLS: dict[str, list[Any]] = {
    "short": INTS,
    "int": INTS,
    "bigint": [*INTS, 10],
    "string": TEXTS,
    "boolean": [True, False],
    "date": DATES,
    "decimal": [Decimal("0.00"), Decimal("1.00"), Decimal("1.50"), Decimal("-2.25")],
    "struct": [(1, "a"), (1, None), (None, "b"), (2, "a"), (None, None)],
    "double": [0.0, -0.0, 1.5, float("nan"), float("inf"), float("-inf"), 5e-324],
    "binary": [b"", b"a", b"\x00\xff", b"\xff"],
    "timestamp": TIMES,
    "ntz": TIMES,
}
#: The columns a table may have beside k and v.
EXTRA = {
    "l": "bigint", "s": "string", "b": "boolean", "d": "date", "m": "decimal", "o": "struct", "h": "short",
    "f": "double", "y": "binary", "w": "timestamp", "n": "ntz",
}  # fmt: skip
#: Those of every script; the others are of scripts of ``every_type``.
USUAL = ("l", "s", "b", "d", "m", "o")
USUAL_NAMES = {"s": "s, x"}
#: What these columns may be called instead, where the table's names are mapped; and where they are not.
MAPPED_NAMES = {"s": "s, x", "d": "a b=c", "f": "{f};", "w": "(w)\n"}
ODD_NAMES = {"l": "select", "s": "a.b", "b": "q`t`", "d": "größe名", "o": "o.X", "w": "`", "h": "_h'\"\\", "n": "%:/"}
ZONES = ("UTC", "America/Los_Angeles", "Asia/Kolkata")


@dataclass(frozen=True)
class Name:
    """A column or field that an expression may use."""

    term: Term
    kind: str
    column: str
    is_field: bool = False


def names(alias: str, columns: dict[str, str], *, qualified: bool = True) -> list[Name]:
    """The columns of a row, and the fields of its structs."""
    found = [Name(e.column(alias, name, qualified=qualified), kind, name) for name, kind in columns.items()]
    fields = [
        Name(e.struct_field(name.term, f), STRUCT[f], name.column, is_field=True)
        for name in found
        if name.kind == "struct"
        for f in STRUCT
    ]
    return found + fields


def literals(kind: str, nulls: bool = True) -> st.SearchStrategy[Term]:
    pool = POOLS[kind] * 2 + [None] * nulls
    return st.sampled_from(pool).map(lambda value: e.literal(kind, value))


def alike(kind: str) -> tuple[str, ...]:
    """The kinds that compare with this one."""
    return NUMBERS if kind in NUMBERS else (kind,)


def of_kind(given: Sequence[Name], *kinds: str) -> list[Term]:
    return [name.term for name in given if name.kind in kinds]


@st.composite
def operands(draw: Draw, given: Sequence[Name], kind: str) -> Term:
    """What a comparison has on its right: mostly a constant, else a column, else arithmetic."""
    columns = of_kind(given, *alike(kind))
    form = draw(st.sampled_from(["constant", "constant", "column", "computed"]))
    if form == "constant" or not columns:
        return draw(literals(kind))
    chosen = draw(st.sampled_from(columns))
    if form == "column" or not of_kind(given, "int"):
        return chosen
    if kind in ("int", "bigint"):
        number = draw(st.sampled_from(of_kind(given, "int")))
        return e.arithmetic(draw(st.sampled_from("+-*")), number, draw(literals("int", nulls=False)))
    return chosen


@st.composite
def comparisons(draw: Draw, given: Sequence[Name]) -> Term:
    name = draw(st.sampled_from(given))
    if name.kind == "int" and draw(st.integers(0, 4)) == 0:
        left = e.arithmetic("%", name.term, e.literal("int", draw(st.sampled_from([2, 3]))))
        return e.compare(draw(st.sampled_from(["=", "<>"])), left, draw(literals("int", nulls=False)))
    return e.compare(draw(st.sampled_from(COMPARISONS)), name.term, draw(operands(given, name.kind)))


@st.composite
def lists(draw: Draw, given: Sequence[Name]) -> Term:
    name = draw(st.sampled_from(given))
    choices = draw(st.lists(literals(name.kind), min_size=1, max_size=3))
    return e.among(name.term, choices, negate=draw(st.booleans()))


@st.composite
def leaves(draw: Draw, given: Sequence[Name]) -> Term:
    """A condition without a connective."""
    form = draw(st.sampled_from(["compare"] * 5 + ["list"] * 2 + ["null"] * 2 + ["flag", "constant"]))
    flags = of_kind(given, "boolean")
    if form == "list":
        return draw(lists(given))
    if form == "null":
        return e.is_null(draw(st.sampled_from(given)).term, negate=draw(st.booleans()))
    if form == "flag" and flags:
        return draw(st.sampled_from(flags))
    if form == "constant":
        return draw(literals("boolean"))
    return draw(comparisons(given))


@st.composite
def subqueries(draw: Draw, given: Sequence[Name], others: dict[str, str]) -> Term:
    """IN, EXISTS and scalar subqueries over the second table, tied to the row outside or not."""
    inner = names(INNER, others)
    columns = {name.kind: name.term for name in inner if not name.is_field}
    outer = draw(st.sampled_from([name for name in given if name.kind in columns and name.kind != "struct"]))
    tie = e.compare("=", e.column(INNER, "k"), e.column(TARGET, "k"))
    free = draw(st.none() | conditions(inner, depth=1))
    tied = tie if free is None else e.all_of(tie, free)
    form = draw(st.sampled_from(["in", "in tied", "exists", "scalar", "scalar tied", "count"]))
    if form in ("in", "in tied"):
        within = free if form == "in" else tied
        return e.among_others(outer.term, columns[outer.kind], within, negate=draw(st.booleans()))
    if form == "exists":
        return e.exists(tied, negate=draw(st.booleans()))
    within = free if form == "scalar" else tied
    if form == "count":
        return e.compare(">=", e.aggregated("count", columns[outer.kind], within), draw(literals("int", nulls=False)))
    function = draw(st.sampled_from(["max", "min"]))
    comparison = draw(st.sampled_from(COMPARISONS))
    return e.compare(comparison, outer.term, e.aggregated(function, columns[outer.kind], within))


@st.composite
def conditions(draw: Draw, given: Sequence[Name], depth: int = 2, others: dict[str, str] | None = None) -> Term:
    """Any condition; with ``others``, the second table's columns, there may be subqueries in it."""
    if others and draw(st.integers(0, 2)) == 0:
        return draw(subqueries(given, others))
    form = draw(st.sampled_from(["leaf", "leaf", "and", "or", "not"])) if depth else "leaf"
    part = conditions(given, depth - 1, others)
    if form == "not":
        return e.negated(draw(part))
    if form in ("and", "or"):
        return (e.all_of if form == "and" else e.any_of)(draw(part), draw(part))
    return draw(leaves(given))


@st.composite
def values(draw: Draw, kind: str, given: Sequence[Name]) -> Term:
    """A value to assign to a column of the kind."""
    fitting = of_kind(given, *{"bigint": ("int", "bigint"), "decimal": ("int", "decimal")}.get(kind, (kind,)))
    forms = ["constant"] + (["column", "column", "computed", "computed", "coalesce", "case"] if fitting else [])
    form = draw(st.sampled_from(forms))
    if form == "constant":
        return draw(literals(kind))
    chosen = draw(st.sampled_from(fitting))
    if form == "coalesce":
        return e.coalesce(chosen, draw(literals(kind, nulls=False)))
    if form == "case":
        return e.either(draw(conditions(given, depth=0)), chosen, draw(literals(kind)))
    return draw(computed(kind, chosen, given)) if form == "computed" else chosen


@st.composite
def computed(draw: Draw, kind: str, chosen: Term, given: Sequence[Name]) -> Term:
    """A value made from a column."""
    if kind in (*NUMBERS, "double"):
        return e.arithmetic(draw(st.sampled_from("+-")), chosen, draw(literals(kind, nulls=False)))
    if kind in ("string", "binary"):
        return e.concat(chosen, draw(literals(kind, nulls=False)))
    if kind == "date":
        return e.date_add(chosen, draw(st.sampled_from([1, -1, 30])))
    if kind in ("timestamp", "ntz"):
        return e.hours_later(chosen, draw(st.sampled_from([1, 24])))
    if kind == "boolean":
        return draw(conditions(given, depth=0))
    fields = [
        draw(st.sampled_from(found)) if (found := of_kind(given, f)) else draw(literals(f)) for f in STRUCT.values()
    ]
    return e.struct_of(*fields)


@st.composite
def assignments(
    draw: Draw, columns: dict[str, str], given: Sequence[Name], *, inserted: bool = False
) -> tuple[Assignment, ...]:
    """Assignments to some columns, at times to fields of a struct instead (an UPDATE's only)."""
    chosen = draw(st.lists(st.sampled_from(list(columns)), min_size=1, max_size=3, unique=True))
    found: list[Assignment] = []
    for name in chosen:
        if columns[name] == "struct" and not inserted and draw(st.booleans()):
            fields = draw(st.lists(st.sampled_from(list(STRUCT)), min_size=1, unique=True))
            found += [Assignment(name, draw(values(STRUCT[f], given)), f) for f in fields]
        else:
            found.append(Assignment(name, draw(values(columns[name], given))))
    return tuple(found)


def rows(columns: dict[str, str], most: int) -> st.SearchStrategy[tuple[Row, ...]]:
    """Rows whose values often repeat."""
    cells = {name: st.sampled_from(POOLS[kind] * 2 + [None]) for name, kind in columns.items()}
    row = st.fixed_dictionaries(cells)
    return (st.lists(row, min_size=most // 2, max_size=most) | st.lists(row, max_size=most)).map(tuple)


@st.composite
def inserts(draw: Draw, table: Table) -> Insert:
    given = draw(rows(table.columns, 4).filter(bool))
    left_out = draw(st.sampled_from([None, None, *list(table.columns)[1:]]))
    return Insert(tuple(name for name in table.columns if name != left_out), given)


@st.composite
def deletes(draw: Draw, table: Table, others: dict[str, str] | None) -> Delete:
    qualified = others is not None or draw(st.booleans())
    given = names(TARGET, table.columns, qualified=qualified)
    kept = [name for name in given if name.column in table.partitioned_by]
    if kept and draw(st.integers(0, 3)) == 0:
        return Delete(draw(conditions(kept)))
    return Delete(draw(conditions(given, others=others)) if draw(st.integers(0, 9)) else None)


@st.composite
def updates(draw: Draw, table: Table, others: dict[str, str] | None) -> Update:
    given = names(TARGET, table.columns, qualified=others is not None or draw(st.booleans()))
    assigned = list(draw(assignments(table.columns, given)))
    if others and draw(st.integers(0, 3)) == 0:
        tie = e.compare("=", e.column(INNER, "k"), e.column(TARGET, "k"))
        best = e.aggregated("max", e.column(INNER, "v"), draw(st.sampled_from([tie, None])))
        assigned = [each for each in assigned if each.column != "v"] + [Assignment("v", best)]
    return Update(tuple(assigned), draw(conditions(given, others=others)) if draw(st.integers(0, 9)) else None)


@st.composite
def sources(draw: Draw, table: Table, others: Table) -> Source:
    """What a MERGE reads: a query of its own, the second table, the target itself."""
    form = draw(st.sampled_from(["rows", "rows", "rows", "named", "target"]))
    if form == "target":
        return Source(table.columns, None)
    if form == "named":
        return Source(others.columns, others.rows, named=True)
    given = draw(rows(others.columns, 5))
    if draw(st.booleans()):
        given = tuple({row["k"]: row for row in given}.values())
    return Source(others.columns, given)


@st.composite
def clauses(draw: Draw, when: str, table: Table, given: Sequence[Name], star: bool) -> tuple[Clause, ...]:
    """Up to two clauses of a kind, of which only the last may act on every row."""
    count = draw(st.sampled_from([1, 2, 1, 0]))
    found = []
    for position in range(count):
        needs = position < count - 1 or draw(st.booleans())
        condition = draw(conditions(given, depth=1)) if needs else None
        action = "INSERT" if when == "NOT MATCHED" else draw(st.sampled_from(["UPDATE", "UPDATE", "DELETE"]))
        assigned = None
        if action != "DELETE" and not (star and draw(st.booleans())):
            assigned = draw(assignments(table.columns, given, inserted=action == "INSERT"))
        found.append(Clause(when, action, condition, assigned))
    return tuple(found)


@st.composite
def merges(draw: Draw, table: Table, others: Table) -> Merge:
    source = draw(sources(table, others))
    target_names, source_names = names(TARGET, table.columns), names(SOURCE, source.columns)
    both = target_names + source_names
    on = e.compare(draw(st.sampled_from(["=", "=", "=", "<=>"])), e.column(TARGET, "k"), e.column(SOURCE, "k"))
    form = draw(st.sampled_from(["key", "key", "key", "key and", "any"]))
    if form != "key":
        other = draw(conditions(both, depth=1))
        on = other if form == "any" else e.all_of(on, other)
    found = (
        draw(clauses("MATCHED", table, both, True))
        + draw(clauses("NOT MATCHED", table, source_names, True))
        + draw(clauses("NOT MATCHED BY SOURCE", table, target_names, False))
    )
    return Merge(source, on, found or (Clause("NOT MATCHED", "INSERT"),))


@st.composite
def statements(draw: Draw, table: Table, others: Table, *, subqueries: bool = True) -> Statement:
    """Any statement about the table, half of them a MERGE."""
    kind = draw(st.sampled_from(["merge", "merge", "merge", "merge", "update", "update", "delete", "delete", "insert"]))
    if kind == "merge":
        return draw(merges(table, others))
    if kind == "insert":
        return draw(inserts(table))
    inner = others.columns if subqueries and draw(st.booleans()) else None
    return draw((updates if kind == "update" else deletes)(table, inner))


@st.composite
def tables(draw: Draw, mapped: bool, every_type: bool) -> Table:
    extra = draw(st.lists(st.sampled_from(list(EXTRA) if every_type else USUAL), max_size=4, unique=True))
    if every_type:
        odd = draw(st.sampled_from([{}, ODD_NAMES, ODD_NAMES | MAPPED_NAMES if mapped else ODD_NAMES]))
    else:
        odd = USUAL_NAMES if mapped else {}
    columns = {"k": "int", "v": "int"} | {odd.get(n, n): EXTRA[n] for n in extra}
    able = [name for name, kind in columns.items() if kind not in ("struct", "binary") and name != "k"]
    by = draw(st.just([]) | st.lists(st.sampled_from(able), min_size=1, max_size=3, unique=True))
    return Table(columns, tuple(by), draw(rows(columns, 12)))


@st.composite
def scripts(
    draw: Draw,
    *,
    deletion_vectors: bool | None = None,
    subqueries: bool = True,
    most: int = 5,
    every_type: bool = False,
) -> Script:
    """A table of any shape and up to ``most`` statements about it.

    :param every_type: columns of all types, odd names, sessions with other zones and without ANSI, too.
    """
    mapped = draw(st.booleans())
    table = draw(tables(mapped, every_type))
    shown = draw(st.permutations(list(table.columns)))
    columns = {name: table.columns[name] for name in shown}
    if columns.get("l") and draw(st.booleans()):
        columns["l"] = "int"
    others = Table(columns | ({"z": "int"} if draw(st.booleans()) else {}))
    others = Table(others.columns, (), draw(rows(others.columns, 5)))
    vectors = draw(st.booleans()) if deletion_vectors is None else deletion_vectors
    cdf = draw(st.booleans())
    properties = {
        "delta.enableDeletionVectors": str(vectors).lower(),
        "delta.enableChangeDataFeed": str(cdf).lower(),
    } | ({"delta.columnMapping.mode": "name"} if mapped else {})
    return Script(
        table,
        others,
        tuple(draw(st.lists(statements(table, others, subqueries=subqueries), min_size=min(2, most), max_size=most))),
        tuple(properties.items()),
        # The peer makes no table with change data and column mapping from a query.
        2 if mapped and cdf else draw(st.integers(1, 3)),
        draw(st.integers(0, 4)) == 0,
        draw(st.booleans()),
        draw(st.sampled_from(ZONES)) if every_type else "UTC",
        draw(st.booleans()) if every_type else True,
    )
