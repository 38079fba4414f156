"""The rewrite of a statement: one query for the rows to write, the change data, and the positions of replaced rows.

Owns the levels of that query, innermost first:

1. the rows the statement is about,
2. which action each row gets,
3. the columns' values, those of partition columns as the log has them,
4. generated columns, likewise,
5. optimized writes: rows are gathered by table partition,
6. expectations, and constraints of the rows that they do not turn away,
7. for a change data feed, the rows that each row becomes,
8. row ids and row commit versions, where the table has row tracking,
9. the columns that show the writer which row is replaced.

A level with nothing to do is left out. Promise: each value is computed once for a row, before the row becomes several,
so the change data feed has exactly the values of the table. A row that an expectation turns away replaces nothing: if
it is that of an UPDATE, the row of the table stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.change_data.changelog import CHANGE_TYPE
from headwater.protocol.types import PrimitiveType, StructField, StructType
from headwater.schema.generated import generated_columns
from headwater.schema.identity import IdentityColumn
from headwater.sql.composing import (
    FALSE,
    NULL,
    STAR,
    TRUE,
    Alias,
    Case,
    Cast,
    Column,
    Expression,
    In,
    IsNull,
    Not,
    Number,
    Query,
    Resolved,
    Rows,
    Select,
    Text,
    call,
    equal,
    every,
    infix,
    is_not_null,
    select,
    when,
    where,
)
from headwater.statements.dml.attempt import Attempt
from headwater.statements.dml.request import Clause
from headwater.statements.files.identities import identity_values
from headwater.statements.files.judging import (
    CHANGE,
    DATA,
    MOST_ACTIONS,
    STAGED,
    Judging,
    fail_checks,
    too_many_clauses,
)
from headwater.statements.files.rows import (
    check_conditions,
    in_one_partition,
    is_void,
    stored_in_log,
    table_checks,
)
from headwater.statements.files.stored_values import as_stored, columns_stored_otherwise

#: What a row of the query is, where there is change data or rows are staged: the table's own row, one of a change data
#: file, or one for the quarantine table.
_DATA, _BEFORE, _AFTER, _DELETE, _INSERT, _STAGED = map(Number, range(6))
_CHANGE_TYPES = {
    _BEFORE: "update_preimage",
    _AFTER: "update_postimage",
    _DELETE: "delete",
    _INSERT: "insert",
}
_EMITTED = {"update": (_DATA, _BEFORE, _AFTER), "delete": (_DELETE,), "insert": (_DATA, _INSERT)}
_LONG, _INT, _STRING = PrimitiveType("long"), PrimitiveType("integer"), PrimitiveType("string")


@dataclass(frozen=True)
class Action:
    """A clause with its number, and a further condition (``guard``) under which it is considered.

    A row gets the first action whose condition is true.
    """

    number: int
    clause: Clause
    guard: Expression | None = None

    @property
    def writes(self) -> bool:
        return self.clause.kind != "delete"

    @property
    def when(self) -> Expression | None:
        """The guard and the clause's own condition; None if the action is always taken."""
        own = self.clause.condition
        return every(self.guard, None if own is None else Resolved(own))


@dataclass(frozen=True)
class Rewrite:
    """A query and what its rows have: the table's columns (none where nothing is written), row ids, and change data.

    Without row ids, all rows that are written are new. With ``has_pairs``, each preimage of the change data is directly
    followed by its postimage, which goes to the same partition. Where it ``is_gathered``, it is an optimized write.
    With ``judging``, actions are counted with what rows violate, and if that ``stages`` rows, the column of change data
    is a text.
    """

    query: Query
    has_rows: bool
    has_changes: bool
    has_row_ids: bool
    has_pairs: bool
    is_gathered: bool
    judging: Judging | None = None

    @property
    def stages(self) -> bool:
        """Whether rows may be staged for a quarantine table."""
        return self.judging is not None and self.judging.stages


@dataclass(frozen=True)
class Output:
    """What a rewrite has beside the rows of its actions.

    :param changes: whether change data is written.
    :param identities: identity columns that inserts fill with their next values.
    :param notes_source_rows: whether the rows have ``names.source``, which is noted for rows without an action too.
    :param writes_unchanged_rows: whether rows of the target without an action are written as they are.
    :param in_one_task: whether one task has all rows, so that there is nothing to gather for an optimized write.
    """

    changes: bool
    identities: Sequence[IdentityColumn] = ()
    notes_source_rows: bool = False
    writes_unchanged_rows: bool = False
    in_one_task: bool = False


def compose_rewrite(attempt: Attempt, rows: Rows, actions: Sequence[Action], output: Output) -> Rewrite:
    """The rewrite.

    :param rows: the innermost query, with the columns ``names.file`` and ``names.row``, both null in rows that are of
        the source alone.
    """
    return _Levels(attempt, actions, output).around(rows)


class _Levels:
    """The levels of one rewrite; arguments as of :func:`compose_rewrite`."""

    def __init__(self, attempt: Attempt, actions: Sequence[Action], output: Output) -> None:
        self.request = attempt.request
        self.names = names = attempt.request.names
        self.target = attempt.target
        self.schema: StructType = self.target.schema
        self.actions = actions
        self.of_table = stored_in_log(attempt.statement)
        self.changes = output.changes
        self.identities = {column.name.lower(): column for column in output.identities}
        self.generated = {column.name.lower(): column for column in generated_columns(self.schema)}
        self.notes_source_rows = output.notes_source_rows
        self.writes_unchanged_rows = output.writes_unchanged_rows
        #: Rows without an action are in the query too: they replace nothing.
        self.has_idle_rows = self.writes_unchanged_rows or self.notes_source_rows
        self.has_rows = self.changes or self.writes_unchanged_rows or any(action.writes for action in actions)
        replaces = self.writes_unchanged_rows or any(action.clause.kind == "update" for action in actions)
        self.judging = attempt.judging if any(action.writes for action in actions) else None
        self.stages = self.judging is not None and self.judging.stages
        if self.judging is not None and len(actions) > MOST_ACTIONS:
            raise too_many_clauses(self.target.definition, len(actions))
        self.has_row_ids = attempt.hidden_columns is not None and self.has_rows and replaces
        self.gathered = attempt.gathered if self.has_rows and not output.in_one_task else None
        self.stored = [(position, column) for position, column in enumerate(self.schema) if not is_void(column)]
        self.file, self.row, self.action = Column(names.file), Column(names.row), Column(names.action)
        self.written, self.source, self.kind = Column(names.written), Column(names.source), Column(names.kind)
        self.violated = Column(names.violated)
        self.row_ids = [Column(names.row_id), Column(names.row_commit_version)] if self.has_row_ids else []
        self.control = [self.file, self.row, self.action, self.written, self.source]
        self.values = {position: self._value(position, column) for position, column in self.stored}
        otherwise = columns_stored_otherwise(self.target.definition)
        self.otherwise = [position for position, column in self.stored if column in otherwise]
        self.changed = self._changed()

    def around(self, rows: Rows) -> Rewrite:
        query = self._with_actions(rows)
        if self.identities:
            query = self._with_identities(query)
        query = self._with_values(query)
        if self.has_rows:
            query = self._as_stored(query, [p for p in self.otherwise if self.values[p] != self._own(p)])
            query = self._with_generated(query)
            query = self._as_stored(query, [p for p in self.otherwise if self._computing(self.schema.fields[p])])
            if self.gathered is not None:
                # Below the conditions, as in an INSERT; and above what numbers identity values, in one task. A row and
                # its change data are made of the gathered row, so they lie side by side.
                query = self.gathered.of(query, self.target.partition_columns)
            query = self._checked(query)
        if self.changes or self.stages:
            query = self._with_changes(query)
        elif self.judging is not None:
            control = [self.file, self.row, Alias(self._counted(), self.names.action), self.written, self.source]
            query = Select((*(Column(column.name) for _, column in self.stored), *self.row_ids, *control), query)
        return Rewrite(
            query,
            self.has_rows,
            self.changes or self.stages,
            self.has_row_ids,
            self._has_pairs(),
            self.gathered is not None,
            self.judging,
        )

    # -- Actions -------------------------------------------------------------------------------------------------------

    def _with_actions(self, rows: Rows) -> Query:
        """Which action a row has. Rows without one are dropped, unless they are written or their source row noted."""
        name = self.names.action
        if not self.actions:
            return select(STAR, Alias(Cast(NULL, _INT), name), rows=rows)
        conditions = [(action.when, Number(action.number)) for action in self.actions]
        if len(conditions) == 1 and conditions[0][0] is None:
            return select(STAR, Alias(conditions[0][1], name), rows=rows)
        taken = Case(tuple((condition or TRUE, number) for condition, number in conditions))
        query = select(STAR, Alias(taken, name), rows=rows)
        if self.writes_unchanged_rows and any(action.clause.kind == "insert" for action in self.actions):
            # Unchanged rows are rows of the target.
            return select(STAR, rows=query, where=infix("OR", is_not_null(self.action), is_not_null(self.file)))
        return query if self.has_idle_rows else select(STAR, rows=query, where=is_not_null(self.action))

    # -- Values --------------------------------------------------------------------------------------------------------

    def _with_identities(self, query: Query) -> Query:
        """Identity values, numbered without gaps: in one partition, and below what numbers its rows."""
        values = [
            Alias(identity_values(self.identities[column.name.lower()]), self.names.identity(position))
            for position, column in enumerate(self.schema)
            if column.name.lower() in self.identities
        ]
        return select(STAR, *values, rows=in_one_partition(query))

    def _with_values(self, query: Query) -> Query:
        """The values of the rows after the statement and, where change data needs them, before it."""
        names = self.names
        writing = [action.number for action in self.actions if action.writes]
        written: Expression = call("coalesce", self._is_action(writing), FALSE)
        if self.writes_unchanged_rows:
            written = infix("OR", IsNull(self.action), written)
        columns = self._named(self.values) if self.has_rows else []
        before = [Alias(self._own(position), names.before(position)) for position in self.changed]
        source = self.source if self.notes_source_rows else Alias(Cast(NULL, _LONG), names.source)
        control = [*self._position(), self.action, Alias(written, names.written), source]
        return Select((*columns, *self._tracked_values(), *before, *control), query)

    def _tracked_values(self) -> list[Expression]:
        """What a row keeps: its id; and if it is unchanged, its commit version. A null stands for those of the new
        file, as inserted rows have no id yet.
        """
        if not self.has_row_ids:
            return []
        names, none = self.names, Cast(NULL, _LONG)
        version = Column(names.row_commit_version)
        kept = when(IsNull(self.action), version) if self.writes_unchanged_rows else none
        return [Column(names.row_id), Alias(kept, names.row_commit_version)]

    def _position(self) -> list[Expression]:
        if not self.has_idle_rows:
            return [self.file, self.row]
        return [Alias(when(is_not_null(self.action), column), column.name) for column in (self.file, self.row)]

    def _named(self, values: dict[int, Expression]) -> list[Expression]:
        return [Alias(values[position], column.name) for position, column in self.stored]

    def _own(self, position: int) -> Resolved:
        """A column's value in the target."""
        return Resolved(self.request.message.columns[position])

    def _value(self, position: int, column: StructField) -> Expression:
        """A column's value, which depends on the action; actions that give it the same value share a branch."""
        by_value: dict[Expression, list[int]] = {}
        for action in self.actions:
            if not action.writes:
                continue
            value: Expression = Resolved(action.clause.values[position])
            if action.clause.kind == "insert" and column.name.lower() in self.identities:
                value = Column(self.names.identity(position))
            by_value.setdefault(value, []).append(action.number)
        return self._choice(by_value, self._own(position))

    def _choice(self, by_value: dict[Expression, list[int]], own: Resolved) -> Expression:
        """The value of the action. Where that is the column itself it needs no condition, as reading it cannot fail."""
        everywhere = len(self.actions) == sum(map(len, by_value.values())) and not self.has_idle_rows
        if list(by_value) == [own] or not by_value:
            return own
        if len(by_value) == 1 and everywhere:
            return next(iter(by_value))
        branches = tuple([(self._is_action(numbers), value) for value, numbers in by_value.items()])
        return Case(branches, own if self.writes_unchanged_rows else None)

    def _changed(self) -> list[int]:
        """The positions of columns whose values before the statement change data needs beside the new ones."""
        # Where there are inserts alone, no row has a state before.
        if not self.changes or all(action.clause.kind == "insert" for action in self.actions):
            return []
        return [
            position
            for position, column in self.stored
            if self.values[position] != self._own(position) or self._computing(column)
        ]

    def _as_stored(self, query: Query, positions: Sequence[int]) -> Query:
        """The values of columns, by position, as the log has them: computed columns and checks see these."""
        if not positions:
            return query
        return self._with(query, {p: as_stored(Column(self.schema.fields[p].name)) for p in positions})

    def _with(self, query: Query, values: Mapping[int, Expression]) -> Query:
        """The rows with other values in some columns, by position."""
        columns = [
            Alias(values[position], column.name) if position in values else Column(column.name)
            for position, column in self.stored
        ]
        before = [Column(self.names.before(position)) for position in self.changed]
        return Select((*columns, *self.row_ids, *before, *self.control), query)

    # -- Generated columns and constraints -----------------------------------------------------------------------------

    def _computing(self, column: StructField) -> list[int]:
        """The actions that gave a generated column no value."""
        name = column.name.lower()
        if name not in self.generated:
            return []
        return [action.number for action in self.actions if action.writes and name not in action.clause.assigned]

    def _with_generated(self, query: Query) -> Query:
        """Generated columns computed again, in the rows of actions that gave them no value."""
        if not self.generated:
            return query
        values: dict[int, Expression] = {}
        for position, column in self.stored:
            if numbers := self._computing(column):
                computed = Cast(self.of_table(self.generated[column.name.lower()].sql), column.type)
                values[position] = when(self._is_action(numbers), computed, Column(column.name))
        return self._with(query, values)

    def _checked(self, query: Query) -> Query:
        """Expectations and the table's constraints on the rows that are new; unchanged rows met them when they were
        written. Constraints are for rows that are not turned away.
        """
        new = every(self.written, is_not_null(self.action) if self.writes_unchanged_rows else None)
        assert new is not None
        for holds in check_conditions(fail_checks(self.target.definition), self.target, self.of_table):
            query = select(STAR, rows=query, where=when(new, holds, TRUE))
        if self.judging is not None:
            violated = when(new, self.judging.violated(self.of_table), Number(0))
            query = select(STAR, Alias(violated, self.names.violated), rows=query)
        if self.judging is not None and self.judging.turns_away:
            query = self._turning_away(query, self.judging)
            new = self.written
        # A generated column that some action gave a value must have the right one.
        given = {name for action in self.actions for name in action.clause.assigned}
        checked = [column.name for column in self.schema if column.name.lower() in given]
        for holds in check_conditions(table_checks(self.target, checked), self.target, self.of_table):
            query = select(STAR, rows=query, where=when(new, holds, TRUE))
        return query

    def _turning_away(self, query: Query, judging: Judging) -> Query:
        """The rows, of which those that are turned away are not written and replace nothing."""
        assert not self.writes_unchanged_rows
        away = judging.is_turned_away(self.violated)
        control = [
            *(Alias(when(Not(away), column), column.name) for column in (self.file, self.row)),
            self.action,
            Alias(infix("AND", self.written, Not(away)), self.names.written),
            self.source,
            self.violated,
        ]
        before = [Column(self.names.before(position)) for position in self.changed]
        return Select((*(Column(column.name) for _, column in self.stored), *self.row_ids, *before, *control), query)

    def _counted(self) -> Expression:
        """The number that a row is counted by."""
        return self.action if self.judging is None else self.judging.with_action(self.action, self.violated)

    # -- Change data ---------------------------------------------------------------------------------------------------

    def _with_changes(self, query: Query) -> Query:
        """The rows that each row becomes, of the table and of change data, in the order of columns the writer wants:
        the table's columns, row ids, the two that mark change data, those that show which row is replaced. Change data
        has no row ids.
        """
        names, kind = self.names, self.kind
        emitted: list[tuple[Expression, Expression]] = []
        if self.judging is not None and self.judging.turns_away:
            if self.stages:
                emitted.append((self.judging.is_staged(self.violated), call("array", _STAGED)))
            emitted.append((self.judging.is_turned_away(self.violated), call("array", _DATA)))
        emitted += [
            (
                equal(self.action, Number(action.number)),
                call("array", *(_EMITTED[action.clause.kind] if self.changes else (_DATA,))),
            )
            for action in self.actions
        ]
        # A row without an action is in the result once.
        kinds = Case(tuple(emitted), call("array", _DATA) if self.has_idle_rows else None)
        query = select(STAR, Alias(call("explode", kinds), names.kind), rows=query)
        columns: list[Expression] = []
        changed = set(self.changed)
        for position, column in self.stored:
            value = Column(column.name)
            if position in changed:
                is_before = In(kind, (_BEFORE, _DELETE))
                columns.append(Alias(when(is_before, Column(names.before(position)), value), column.name))
            else:
                columns.append(value)
        words = [(equal(kind, number), Text(word)) for number, word in _CHANGE_TYPES.items()]
        staged = [(equal(kind, _STAGED), Cast(self.violated, _STRING))] if self.stages else []
        types = Case((*words, *staged))
        is_change = infix("<>", kind, _DATA)
        place: Expression = is_change
        if self.stages:
            place = Case(((equal(kind, _DATA), DATA), (equal(kind, _STAGED), STAGED)), CHANGE)
        replaces = In(kind, (_DATA, _DELETE, _STAGED) if self.stages else (_DATA, _DELETE))
        control = [
            *(Alias(when(replaces, column), column.name) for column in (self.file, self.row)),
            Alias(when(replaces, self._counted()), self.names.action),
            Alias(infix("OR", is_change, self.written), names.written),
            self.source,
        ]
        columns += [Alias(when(equal(kind, _DATA), column), column.name) for column in self.row_ids]
        return Select((*columns, Alias(types, CHANGE_TYPE), Alias(place, names.change), *control), query)

    def _has_pairs(self) -> bool:
        """Whether there is change data, and no update can move a row to another partition."""
        updates = [action for action in self.actions if action.clause.kind == "update"]
        partitions = {name.lower() for name in self.target.partition_columns}
        deciding = [(position, column) for position, column in self.stored if column.name.lower() in partitions]
        return self.changes and not any(
            Resolved(update.clause.values[position]) != self._own(position) or update.number in self._computing(column)
            for update in updates
            for position, column in deciding
        )

    def _is_action(self, numbers: Sequence[int]) -> Expression:
        if not numbers:
            return FALSE
        if len(numbers) == 1:
            return equal(self.action, Number(numbers[0]))
        return In(self.action, tuple(map(Number, numbers)))


def rows_where(rows: Rows, condition: int | None) -> Rows:
    """The rows for which a condition of the statement, by its number, is true; all of them without a condition."""
    return where(rows, None if condition is None else Resolved(condition))
