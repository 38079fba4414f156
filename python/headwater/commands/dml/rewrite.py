"""The rewrite of a statement: one SQL query for the rows to write, the change data, and the rows replaced.

Owns the levels of that query, innermost first: the rows the statement is about; which action each row has; for a
change data feed, the rows each becomes; the columns' values; generated columns; constraints; and the columns that tell
the writer what a row replaces. A level that has nothing to do is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.commands.change_rows import CHANGE, CHANGE_TYPE
from headwater.commands.dml.request import Clause, DmlRequest, expression
from headwater.commands.dml.scan import FILE, ROW
from headwater.commands.rows import Target, checks_sql, is_void, table_checks
from headwater.schema.constraints import quote
from headwater.schema.generated import generated_columns
from headwater.schema.identity import IdentityColumn
from headwater.schema.types import StructType

ACTION, EMIT, WRITE, SOURCE = "__hw_action", "__hw_emit", "__hw_write", "__hw_source"

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
    request: DmlRequest,
    target: Target,
    rows: str,
    actions: Sequence[Action],
    *,
    changes: bool,
    identities: Sequence[IdentityColumn] = (),
    source_rows: bool = False,
    keeps: bool = False,
) -> Rewrite:
    """The rewrite.

    :param rows: the innermost query, with the columns ``__hw_file`` and ``__hw_row``, null for rows of the source
        alone.
    :param changes: whether change data is written.
    :param identities: columns that get their next values.
    :param source_rows: whether ``rows`` has ``__hw_source``, to be noted of rows without an action too.
    :param keeps: whether rows of the target without an action are written as they are.
    """
    return _Composer(request, target, actions, changes, identities, source_rows, keeps).compose(rows)


class _Composer:
    def __init__(
        self,
        request: DmlRequest,
        target: Target,
        actions: Sequence[Action],
        changes: bool,
        identities: Sequence[IdentityColumn],
        source_rows: bool,
        keeps: bool,
    ) -> None:
        self.request = request
        self.target = target
        self.schema: StructType = target.schema
        self.actions = actions
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
        if self.changes:
            query = self._emitting(query)
        query = self._valued(query)
        if self.has_rows:
            query = self._generated(query)
            new = f"{WRITE} AND {self._is_data}" + (f" AND {ACTION} IS NOT NULL" if self.keeps else "")
            for holds in checks_sql(table_checks(self.target, self._checked_columns()), self.schema):
                query = f"SELECT * FROM ({query})\nWHERE CASE WHEN {new} THEN {holds} ELSE true END"
            query = self._arranged(query)
        return Rewrite(query, self.has_rows, self.changes)

    def _acting(self, rows: str) -> str:
        """Which action a row has; rows without one are dropped, unless their source rows are noted."""
        if not self.actions:
            return f"SELECT *, CAST(NULL AS INT) AS {ACTION} FROM {rows}"
        only = self.actions[0]
        if len(self.actions) == 1 and only.when == "true":
            return f"SELECT *, {only.number} AS {ACTION} FROM {rows}"
        branches = " ".join(f"WHEN {action.when} THEN {action.number}" for action in self.actions)
        query = f"SELECT *, CASE {branches} END AS {ACTION} FROM {rows}"
        if self.keeps and any(action.clause.kind == "insert" for action in self.actions):
            # What is kept is of the target.
            return f"SELECT * FROM ({query})\nWHERE {ACTION} IS NOT NULL OR {FILE} IS NOT NULL"
        return query if self.idle_rows else f"SELECT * FROM ({query})\nWHERE {ACTION} IS NOT NULL"

    def _numbered(self, query: str) -> str:
        """Identity values, numbered without gaps: in one partition, and below what numbers its rows."""
        values = ", ".join(
            f"({column.next_value}L + {column.step}L * monotonically_increasing_id()) AS {_identity(name)}"
            for name, column in self.identities.items()
        )
        return f"SELECT *, {values} FROM (SELECT /*+ REPARTITION(1) */ * FROM ({query}))"

    def _emitting(self, query: str) -> str:
        branches = " ".join(
            f"WHEN {action.number} THEN array({', '.join(map(str, _EMITTED[action.clause.kind]))})"
            for action in self.actions
        )
        # A row without an action is still noted, once.
        other = f" ELSE array({_DATA})" if self.idle_rows else ""
        return f"SELECT *, explode(CASE {ACTION} {branches}{other} END) AS {EMIT}\nFROM ({query})"

    def _valued(self, query: str) -> str:
        writing = [str(action.number) for action in self.actions if action.writes]
        write = f"coalesce({_among(ACTION, writing)}, false)"
        if self.keeps:
            write = f"({ACTION} IS NULL OR {write})"
        if self.changes:
            write = f"({EMIT} <> {_DATA} OR {write})"
        columns = self._values() if self.has_rows else []
        control = [*self._position(), ACTION, f"{write} AS {WRITE}", self._source()]
        if self.changes:
            first = f"{EMIT} IN ({_DATA}, {_DELETE})" + (f" AND {ACTION} IS NOT NULL" if self.idle_rows else "")
            control = [
                f"CASE WHEN {first} THEN {FILE} END AS {FILE}",
                f"CASE WHEN {first} THEN {ROW} END AS {ROW}",
                f"CASE WHEN {first} THEN {ACTION} END AS {ACTION}",
                f"{write} AS {WRITE}",
                self._source(),
                f"{ACTION} AS {ACTION}_of_row",
                EMIT,
            ]
        return f"SELECT {', '.join([*columns, *control])}\nFROM ({query})"

    def _position(self) -> list[str]:
        if not self.idle_rows:
            return [FILE, ROW]
        return [f"CASE WHEN {ACTION} IS NOT NULL THEN {column} END AS {column}" for column in (FILE, ROW)]

    def _source(self) -> str:
        return SOURCE if self.source_rows else f"CAST(NULL AS BIGINT) AS {SOURCE}"

    def _values(self) -> list[str]:
        return [
            f"{self._value(position)} AS {quote((column.name,))}"
            for position, column in enumerate(self.schema)
            if not is_void(column)
        ]

    def _value(self, position: int) -> str:
        """A column's value, told by the action; actions that give it the same value share a branch."""
        column = self.schema.fields[position]
        own = self.request.columns[position]
        by_value: dict[str, list[str]] = {}
        for action in self.actions:
            if not action.writes:
                continue
            value = expression(action.clause.values[position])
            if action.clause.kind == "insert" and column.name.lower() in self.identities:
                value = _identity(column.name.lower())
            by_value.setdefault(value, []).append(str(action.number))
        new = self._choice(by_value, expression(own))
        # Where there are inserts alone, no row has a state before.
        changing = any(action.clause.kind != "insert" for action in self.actions)
        if self.changes and changing and new != expression(own):
            return f"CASE WHEN {EMIT} IN ({_BEFORE}, {_DELETE}) THEN {expression(own)} ELSE {new} END"
        return new

    def _choice(self, by_value: dict[str, list[str]], own: str) -> str:
        """SQL for the value of the action; the column itself, which is harmless, needs no condition."""
        everywhere = len(self.actions) == sum(map(len, by_value.values())) and not self.idle_rows
        if list(by_value) == [own] or not by_value:
            return own
        if len(by_value) == 1 and everywhere:
            return next(iter(by_value))
        branches = " ".join(f"WHEN {_among(ACTION, numbers)} THEN {value}" for value, numbers in by_value.items())
        return f"CASE {branches}{f' ELSE {own}' if self.keeps else ''} END"

    @property
    def _is_data(self) -> str:
        return f"{EMIT} = {_DATA}" if self.changes else "true"

    def _checked_columns(self) -> list[str]:
        """Columns some action was given a value for: a generated one among them must have the right value."""
        given = {name for action in self.actions for name in action.clause.assigned}
        return [column.name for column in self.schema if column.name.lower() in given]

    def _generated(self, query: str) -> str:
        """Generated columns anew, in the rows of actions that were not given a value for them."""
        computed = {column.name.lower(): column for column in generated_columns(self.schema)}
        if not computed:
            return query
        action = f"{ACTION}_of_row" if self.changes else ACTION
        columns = []
        for column in self.schema:
            if is_void(column):
                continue
            name = quote((column.name,))
            if column.name.lower() in computed:
                numbers = [
                    str(a.number) for a in self.actions if a.writes and column.name.lower() not in a.clause.assigned
                ]
                if numbers:
                    new_row = f"{EMIT} IN ({_DATA}, {_AFTER}, {_INSERT})" if self.changes else "true"
                    value = computed[column.name.lower()].value_sql
                    columns.append(
                        f"CASE WHEN {new_row} AND {_among(action, numbers)} THEN {value} ELSE {name} END AS {name}"
                    )
                    continue
            columns.append(name)
        control = [FILE, ROW, ACTION, WRITE, SOURCE, *([f"{ACTION}_of_row", EMIT] if self.changes else [])]
        return f"SELECT {', '.join([*columns, *control])}\nFROM ({query})"

    def _arranged(self, query: str) -> str:
        """The order the writer wants: the table's columns, what tells change data apart, what a row replaces."""
        if not self.changes:
            return query
        columns = [quote((column.name,)) for column in self.schema if not is_void(column)]
        kinds = " ".join(f"WHEN {emit} THEN '{kind}'" for emit, kind in _CHANGE_TYPES.items())
        change = [f"CASE {EMIT} {kinds} END AS {CHANGE_TYPE}", f"{EMIT} <> {_DATA} AS {CHANGE}"]
        control = [FILE, ROW, ACTION, WRITE, SOURCE]
        return f"SELECT {', '.join([*columns, *change, *control])}\nFROM ({query})"


def _identity(name: str) -> str:
    return quote((f"__hw_identity_{name}",))


def _among(column: str, numbers: Sequence[str]) -> str:
    if not numbers:
        return "false"
    return f"{column} = {numbers[0]}" if len(numbers) == 1 else f"{column} IN ({', '.join(numbers)})"
