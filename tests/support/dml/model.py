"""What DELETE, UPDATE, MERGE and INSERT mean, in plain Python over lists of rows: the judge the engines are held to.

Each statement has its SQL, ``sql(table)``, and its effect, ``apply(table, others)``: the rows afterwards, the change
data rows of the statement, the row it returns, or the condition of its error. A condition that is unknown does not
hold. In a MERGE the first clause that applies to a pair of rows acts; that two source rows act on one target row is an
error unless the one WHEN MATCHED clause is a DELETE without condition; pairs no clause acts on do not count. Nothing
here knows files: an empty text in a partition column is NULL, which is the protocol's rule about partition values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from support.dml.expressions import OTHERS, SQL_TYPES, STRUCT, Row, Scope, Term, Value, literal_sql, quoted, stored

MULTIPLE = "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"
#: The aliases of the target and of a MERGE's source.
TARGET, SOURCE = "t", "s"
Change = tuple[str, Row]


@dataclass(frozen=True)
class Table:
    """A table's shape, ``columns`` being the kind of each name, and its rows in no order."""

    columns: dict[str, str]
    partitioned_by: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()

    def row(self, values: Row) -> Row:
        """The row as the table stores it: columns not given are NULL."""
        row = {name: stored(kind, values.get(name)) for name, kind in self.columns.items()}
        for name in self.partitioned_by:
            row[name] = None if row[name] == "" else row[name]
        return row


@dataclass(frozen=True)
class Outcome:
    """A statement's effect; with an ``error`` there is none."""

    table: Table
    changes: tuple[Change, ...] = ()
    returned: dict[str, int] | None = None
    error: str | None = None


@dataclass(frozen=True)
class Assignment:
    """``column = value``, or of a struct's field, ``column.field = value``."""

    column: str
    value: Term
    field: str | None = None

    def sql(self, prefix: str = "") -> str:
        name = prefix + quoted(self.column) + (f".{self.field}" if self.field else "")
        return f"{name} = {self.value.sql}"

    def applied(self, row: Row, scope: Scope) -> Value:
        value = self.value.value(scope)
        if self.field is None:
            return value
        fields = dict(zip(STRUCT, row[self.column] or (None,) * len(STRUCT), strict=True))
        return tuple({**fields, self.field: value}.values())


@dataclass(frozen=True)
class Insert:
    """``INSERT INTO t (columns) VALUES …``."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    def sql(self, table: str, shape: Table) -> str:
        columns = {name: shape.columns[name] for name in self.columns}
        return f"INSERT INTO {table} ({', '.join(map(quoted, columns))}) {values_sql(columns, self.rows)}"

    def apply(self, table: Table, others: Sequence[Row]) -> Outcome:
        new = tuple(table.row({name: row[name] for name in self.columns}) for row in self.rows)
        return Outcome(replace(table, rows=table.rows + new), tuple(("insert", row) for row in new))


@dataclass(frozen=True)
class Delete:
    condition: Term | None

    def sql(self, table: str, shape: Table) -> str:
        return f"DELETE FROM {table} AS {TARGET}{_where(self.condition)}"

    def apply(self, table: Table, others: Sequence[Row]) -> Outcome:
        gone = [_holds(self.condition, Scope({TARGET: row}, others)) for row in table.rows]
        kept = tuple(row for row, dropped in zip(table.rows, gone, strict=True) if not dropped)
        changes = tuple(("delete", row) for row, dropped in zip(table.rows, gone, strict=True) if dropped)
        return Outcome(replace(table, rows=kept), changes, {"num_affected_rows": len(changes)})


@dataclass(frozen=True)
class Update:
    assignments: tuple[Assignment, ...]
    condition: Term | None

    def sql(self, table: str, shape: Table) -> str:
        assigned = ", ".join(assignment.sql() for assignment in self.assignments)
        return f"UPDATE {table} AS {TARGET} SET {assigned}{_where(self.condition)}"

    def apply(self, table: Table, others: Sequence[Row]) -> Outcome:
        rows: list[Row] = []
        changes: list[Change] = []
        for row in table.rows:
            scope = Scope({TARGET: row}, others)
            if not _holds(self.condition, scope):
                rows.append(row)
                continue
            new = _updated(table, row, self.assignments, scope)
            rows.append(new)
            changes += [("update_preimage", row), ("update_postimage", new)]
        return Outcome(replace(table, rows=tuple(rows)), tuple(changes), {"num_affected_rows": len(changes) // 2})


@dataclass(frozen=True)
class Source:
    """What a MERGE reads: rows written out, the second table, or (``rows`` is None) the target itself."""

    columns: dict[str, str]
    rows: tuple[Row, ...] | None
    named: bool = False

    def sql(self, table: str) -> str:
        if self.rows is None:
            return f"{table} AS {SOURCE}"
        return f"{OTHERS} AS {SOURCE}" if self.named else f"({select_sql(self.columns, self.rows)}) AS {SOURCE}"


@dataclass(frozen=True)
class Clause:
    """``WHEN <when> [AND condition] THEN <action>``; an UPDATE or INSERT without assignments has a ``*``."""

    when: str  # MATCHED, NOT MATCHED, NOT MATCHED BY SOURCE
    action: str  # UPDATE, DELETE, INSERT
    condition: Term | None = None
    assignments: tuple[Assignment, ...] | None = None

    def sql(self) -> str:
        start = f"WHEN {self.when}{'' if self.condition is None else f' AND {self.condition.sql}'} THEN {self.action}"
        if self.action == "DELETE":
            return start
        if self.assignments is None:
            return start + (" SET *" if self.action == "UPDATE" else " *")
        if self.action == "UPDATE":
            return f"{start} SET {', '.join(each.sql(f'{TARGET}.') for each in self.assignments)}"
        names = ", ".join(quoted(each.column) for each in self.assignments)
        return f"{start} ({names}) VALUES ({', '.join(each.value.sql for each in self.assignments)})"

    def new_row(self, table: Table, scope: Scope) -> Row:
        """The row an UPDATE or INSERT writes."""
        row = scope.rows.get(TARGET, {}) if self.action == "UPDATE" else {}
        if self.assignments is None:
            source = scope.rows[SOURCE]
            return table.row({name: source[name] for name in table.columns})
        return _updated(table, row, self.assignments, scope)


@dataclass(frozen=True)
class Merge:
    source: Source
    on: Term
    clauses: tuple[Clause, ...]

    def sql(self, table: str, shape: Table) -> str:
        lines = [f"MERGE INTO {table} AS {TARGET} USING {self.source.sql(table)} ON {self.on.sql}"]
        return "\n  ".join(lines + [clause.sql() for clause in self.clauses])

    def of(self, when: str) -> list[Clause]:
        return [clause for clause in self.clauses if clause.when == when]

    def apply(self, table: Table, others: Sequence[Row]) -> Outcome:
        source = table.rows if self.source.rows is None else self.source.rows
        matched = self.of("MATCHED")
        deletes_all = len(matched) == 1 and matched[0].action == "DELETE" and matched[0].condition is None
        rows: list[Row] = []
        changes: list[Change] = []
        met: set[int] = set()
        for row in table.rows:
            partners = [i for i, s in enumerate(source) if self.on.holds(Scope({TARGET: row, SOURCE: s}))]
            met.update(partners)
            if partners:
                scopes = [Scope({TARGET: row, SOURCE: source[i]}) for i in partners]
                clauses = matched
            else:
                scopes = [Scope({TARGET: row})]
                clauses = self.of("NOT MATCHED BY SOURCE")
            acting = [(clause, scope) for scope in scopes if (clause := _first(clauses, scope)) is not None]
            if len(acting) > 1 and not deletes_all:
                return Outcome(table, error=MULTIPLE)
            if not acting:
                rows.append(row)
            elif acting[0][0].action == "DELETE":
                changes.append(("delete", row))
            else:
                clause, scope = acting[0]
                rows.append(clause.new_row(table, scope))
                changes += [("update_preimage", row), ("update_postimage", rows[-1])]
        for i, s in enumerate(source):
            scope = Scope({SOURCE: s})
            inserting = None if i in met else _first(self.of("NOT MATCHED"), scope)
            if inserting is not None:
                rows.append(inserting.new_row(table, scope))
                changes.append(("insert", rows[-1]))
        counts = Counter(kind for kind, _ in changes)
        returned = {
            "num_affected_rows": counts["update_postimage"] + counts["delete"] + counts["insert"],
            "num_updated_rows": counts["update_postimage"],
            "num_deleted_rows": counts["delete"],
            "num_inserted_rows": counts["insert"],
        }
        return Outcome(replace(table, rows=tuple(rows)), tuple(changes), returned)

    def matches_several(self, table: Table) -> bool:
        """Whether some target row has more than one source row, acted on or not."""
        source = table.rows if self.source.rows is None else self.source.rows
        return any(sum(self.on.holds(Scope({TARGET: row, SOURCE: s})) for s in source) > 1 for row in table.rows)


Statement = Insert | Delete | Update | Merge


def _holds(condition: Term | None, scope: Scope) -> bool:
    return condition is None or condition.holds(scope)


def _first(clauses: Iterable[Clause], scope: Scope) -> Clause | None:
    return next((clause for clause in clauses if _holds(clause.condition, scope)), None)


def _updated(table: Table, row: Row, assignments: Iterable[Assignment], scope: Scope) -> Row:
    """Every value is computed from the row as it was; two fields of a struct may be assigned one by one."""
    new = dict(row)
    for assignment in assignments:
        new[assignment.column] = assignment.applied(new, scope)
    return table.row(new)


def _where(condition: Term | None) -> str:
    return "" if condition is None else f" WHERE {condition.sql}"


def values_sql(columns: dict[str, str], rows: Iterable[Row]) -> str:
    """``VALUES …`` with every literal typed."""
    texts = (", ".join(literal_sql(kind, row[name]) for name, kind in columns.items()) for row in rows)
    return f"VALUES {', '.join(f'({text})' for text in texts)}"


def select_sql(columns: dict[str, str], rows: Sequence[Row], hint: str = "") -> str:
    """A query that gives the rows, none included, with their columns' own types."""
    casts = ", ".join(f"CAST({quoted(name)} AS {SQL_TYPES[kind]}) AS {quoted(name)}" for name, kind in columns.items())
    given: Any = rows or [dict.fromkeys(columns)]
    names = ", ".join(map(quoted, columns))
    empty = "" if rows else " WHERE FALSE"
    return f"SELECT {hint}{casts} FROM {values_sql(columns, given)} AS given({names}){empty}"
