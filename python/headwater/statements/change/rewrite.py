"""The rewrite of a statement: one SQL query for the rows to write, the change data, and the rows replaced.

Owns the levels of that query, innermost first: the rows the statement is about; which action each row has; the columns'
values; generated columns; constraints; for a change data feed, the rows each becomes; and the columns that tell the
writer what a row replaces. A level that has nothing to do is left out. Promise: each value is computed once for a row,
before the row becomes several, so the change data feed has the very values that the table has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.protocol.types import StructField, StructType
from headwater.schema.constraints import quote
from headwater.schema.generated import generated_columns
from headwater.schema.identity import IdentityColumn
from headwater.statements.change.attempt import Attempt
from headwater.statements.change.request import Clause, expression
from headwater.statements.write.change_data import CHANGE_TYPE
from headwater.statements.write.rows import checks_sql, is_void, table_checks

#: What a row of the query is, where there is change data: the table's own row, or one of a change data file.
_DATA, _BEFORE, _AFTER, _DELETE, _INSERT = range(5)
_CHANGE_TYPES = {
    _BEFORE: "update_preimage",
    _AFTER: "update_postimage",
    _DELETE: "delete",
    _INSERT: "insert",
}
_EMITTED = {"update": (_DATA, _BEFORE, _AFTER), "delete": (_DELETE,), "insert": (_DATA, _INSERT)}


@dataclass(frozen=True)
class Action:
    """A clause with its number and the SQL condition under which it is considered; the first that holds is taken."""

    number: int
    clause: Clause
    guard: str | None = None

    @property
    def writes(self) -> bool:
        return self.clause.kind != "delete"

    @property
    def when(self) -> str:
        """The condition under which the action is taken, all told."""
        parts = [self.guard] if self.guard else []
        if self.clause.condition is not None:
            parts.append(expression(self.clause.condition))
        return " AND ".join(parts) or "true"


@dataclass(frozen=True)
class Rewrite:
    """A query and what its rows have: the table's columns (none where nothing is written), and change data."""

    sql: str
    has_rows: bool
    has_changes: bool


def compose(
    attempt: Attempt,
    rows: str,
    actions: Sequence[Action],
    *,
    changes: bool,
    identities: Sequence[IdentityColumn] = (),
    source_rows: bool = False,
    keeps: bool = False,
) -> Rewrite:
    """The rewrite.

    :param rows: the innermost query, with the columns ``names.file`` and ``names.row``, null for rows of the source
        alone.
    :param changes: whether change data is written.
    :param identities: columns that get their next values.
    :param source_rows: whether ``rows`` has ``names.source``, to be noted of rows without an action too.
    :param keeps: whether rows of the target without an action are written as they are.
    """
    return _Composer(attempt, actions, changes, identities, source_rows, keeps).compose(rows)


class _Composer:
    def __init__(
        self,
        attempt: Attempt,
        actions: Sequence[Action],
        changes: bool,
        identities: Sequence[IdentityColumn],
        source_rows: bool,
        keeps: bool,
    ) -> None:
        self.request = attempt.request
        self.names = attempt.request.names
        self.target = attempt.target
        self.schema: StructType = self.target.schema
        self.actions = actions
        self.place = attempt.statement.place
        self.changes = changes
        self.identities = {column.name.lower(): column for column in identities}
        self.source_rows = source_rows
        self.keeps = keeps
        #: Rows without an action come too: they replace nothing.
        self.idle_rows = keeps or source_rows
        self.has_rows = changes or keeps or any(action.writes for action in actions)

    def compose(self, rows: str) -> Rewrite:
        query = self._acting(rows)
        if self.identities:
            query = self._numbered(query)
        query = self._valued(query)
        if self.has_rows:
            query = self._generated(query)
            query = self._checked(query)
        if self.changes:
            query = self._multiplied(query)
        return Rewrite(query, self.has_rows, self.changes)

    def _acting(self, rows: str) -> str:
        """Which action a row has; rows without one are dropped, unless their source rows are noted."""
        action, file = self.names.action, self.names.file
        if not self.actions:
            return f"SELECT *, CAST(NULL AS INT) AS {action} FROM {rows}"
        only = self.actions[0]
        if len(self.actions) == 1 and only.when == "true":
            return f"SELECT *, {only.number} AS {action} FROM {rows}"
        branches = " ".join(f"WHEN {each.when} THEN {each.number}" for each in self.actions)
        query = f"SELECT *, CASE {branches} END AS {action} FROM {rows}"
        if self.keeps and any(each.clause.kind == "insert" for each in self.actions):
            # What is kept is of the target.
            return f"SELECT * FROM ({query})\nWHERE {action} IS NOT NULL OR {file} IS NOT NULL"
        return query if self.idle_rows else f"SELECT * FROM ({query})\nWHERE {action} IS NOT NULL"

    def _numbered(self, query: str) -> str:
        """Identity values, numbered without gaps: in one partition, and below what numbers its rows."""
        values = ", ".join(
            f"({column.next_value}L + {column.step}L * monotonically_increasing_id())"
            f" AS {self.names.identity(position)}"
            for position, column in self._identities()
        )
        return f"SELECT *, {values} FROM (SELECT /*+ REPARTITION(1) */ * FROM ({query}))"

    def _identities(self) -> list[tuple[int, IdentityColumn]]:
        found = ((position, self.identities.get(field.name.lower())) for position, field in enumerate(self.schema))
        return [(position, column) for position, column in found if column is not None]

    def _valued(self, query: str) -> str:
        """The values of the rows as they will be and, where they differ and are told, as they were."""
        names = self.names
        writing = [str(action.number) for action in self.actions if action.writes]
        write = f"coalesce({_among(names.action, writing)}, false)"
        if self.keeps:
            write = f"({names.action} IS NULL OR {write})"
        columns = self._values() if self.has_rows else []
        before = [f"{expression(self.request.columns[i])} AS {names.before(i)}" for i in self._changed()]
        source = names.source if self.source_rows else f"CAST(NULL AS BIGINT) AS {names.source}"
        control = [*self._position(), names.action, f"{write} AS {names.written}", source]
        return f"SELECT {', '.join([*columns, *before, *control])}\nFROM ({query})"

    def _position(self) -> list[str]:
        names = self.names
        if not self.idle_rows:
            return [names.file, names.row]
        return [f"CASE WHEN {names.action} IS NOT NULL THEN {name} END AS {name}" for name in (names.file, names.row)]

    def _values(self) -> list[str]:
        return [f"{self._value(position)} AS {quote((column.name,))}" for position, column in self._stored()]

    def _stored(self) -> list[tuple[int, StructField]]:
        return [(position, column) for position, column in enumerate(self.schema) if not is_void(column)]

    def _value(self, position: int) -> str:
        """A column's value, told by the action; actions that give it the same value share a branch."""
        column = self.schema.fields[position]
        by_value: dict[str, list[str]] = {}
        for action in self.actions:
            if not action.writes:
                continue
            value = expression(action.clause.values[position])
            if action.clause.kind == "insert" and column.name.lower() in self.identities:
                value = self.names.identity(position)
            by_value.setdefault(value, []).append(str(action.number))
        return self._choice(by_value, expression(self.request.columns[position]))

    def _choice(self, by_value: dict[str, list[str]], own: str) -> str:
        """SQL for the value of the action; the column itself, which is harmless, needs no condition."""
        everywhere = len(self.actions) == sum(map(len, by_value.values())) and not self.idle_rows
        if list(by_value) == [own] or not by_value:
            return own
        if len(by_value) == 1 and everywhere:
            return next(iter(by_value))
        branches = " ".join(
            f"WHEN {_among(self.names.action, numbers)} THEN {value}" for value, numbers in by_value.items()
        )
        return f"CASE {branches}{f' ELSE {own}' if self.keeps else ''} END"

    def _changed(self) -> list[int]:
        """The positions of columns whose values before must be told beside the new ones."""
        # Where there are inserts alone, no row has a state before.
        if not self.changes or all(action.clause.kind == "insert" for action in self.actions):
            return []
        return [
            position
            for position, column in self._stored()
            if self._value(position) != expression(self.request.columns[position]) or self._computing(column)
        ]

    def _computing(self, column: StructField) -> list[str]:
        """The actions that were not given a value for a generated column."""
        name = column.name.lower()
        if all(generated.name.lower() != name for generated in generated_columns(self.schema)):
            return []
        return [str(action.number) for action in self.actions if action.writes and name not in action.clause.assigned]

    def _checked_columns(self) -> list[str]:
        """Columns some action was given a value for: a generated one among them must have the right value."""
        given = {name for action in self.actions for name in action.clause.assigned}
        return [column.name for column in self.schema if column.name.lower() in given]

    def _generated(self, query: str) -> str:
        """Generated columns computed again, in the rows of actions that were not given a value for them."""
        computed = {column.name.lower(): column for column in generated_columns(self.schema)}
        if not computed:
            return query
        columns = []
        for _, column in self._stored():
            name, numbers = quote((column.name,)), self._computing(column)
            if numbers:
                value = computed[column.name.lower()].value(self.place)
                columns.append(f"CASE WHEN {_among(self.names.action, numbers)} THEN {value} ELSE {name} END AS {name}")
            else:
                columns.append(name)
        before = [self.names.before(position) for position in self._changed()]
        return f"SELECT {', '.join([*columns, *before, *self._control])}\nFROM ({query})"

    @property
    def _control(self) -> list[str]:
        names = self.names
        return [names.file, names.row, names.action, names.written, names.source]

    def _checked(self, query: str) -> str:
        """The table's conditions on the rows that are made; those that are kept have met them before."""
        new = self.names.written + (f" AND {self.names.action} IS NOT NULL" if self.keeps else "")
        for holds in checks_sql(table_checks(self.target, self._checked_columns()), self.schema, self.place):
            query = f"SELECT * FROM ({query})\nWHERE CASE WHEN {new} THEN {holds} ELSE true END"
        return query

    def _multiplied(self, query: str) -> str:
        """The rows each row becomes, of the table and of change data, in the order the writer wants: the table's
        columns, what tells change data apart, what a row replaces."""
        names = self.names
        branches = " ".join(
            f"WHEN {action.number} THEN array({', '.join(map(str, _EMITTED[action.clause.kind]))})"
            for action in self.actions
        )
        # A row without an action is still noted, once.
        other = f" ELSE array({_DATA})" if self.idle_rows else ""
        query = f"SELECT *, explode(CASE {names.action} {branches}{other} END) AS {names.kind}\nFROM ({query})"
        columns, changed = [], set(self._changed())
        for position, column in self._stored():
            name = quote((column.name,))
            before = f"CASE WHEN {names.kind} IN ({_BEFORE}, {_DELETE}) THEN {names.before(position)} ELSE {name} END"
            columns.append(f"{before} AS {name}" if position in changed else name)
        kinds = " ".join(f"WHEN {kind} THEN '{change}'" for kind, change in _CHANGE_TYPES.items())
        change = [f"CASE {names.kind} {kinds} END AS {CHANGE_TYPE}", f"{names.kind} <> {_DATA} AS {names.change}"]
        first = f"{names.kind} IN ({_DATA}, {_DELETE})"
        control = [
            *(f"CASE WHEN {first} THEN {name} END AS {name}" for name in (names.file, names.row)),
            f"CASE WHEN {first} THEN {names.action} END AS {names.action}",
            f"({names.kind} <> {_DATA} OR {names.written}) AS {names.written}",
            names.source,
        ]
        return f"SELECT {', '.join([*columns, *change, *control])}\nFROM ({query})"


def _among(column: str, numbers: Sequence[str]) -> str:
    if not numbers:
        return "false"
    return f"{column} = {numbers[0]}" if len(numbers) == 1 else f"{column} IN ({', '.join(numbers)})"
