"""Expectations of upserts that compare events: which events they turn away.

Owns the query that judges each event, before the newest of each key is computed: so a bad event takes no good one with
it. An event is judged as the row that an INSERT would make of it; one that deletes its key is not judged. Promise: the
verdict is that of the row that the event would become. An expectation for which an event alone does not say that is
refused if it turns rows away, and counts no event if it keeps them.

The events and their verdicts are computed once. A job writes those that are turned away for the quarantine table, and
counts them; the rest is prepared and merged, and turned away no more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.basics.errors import HeadwaterError
from headwater.bridge.statement import Statement
from headwater.log.snapshot import Snapshot
from headwater.protocol.columns import sql_name
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import StructField, StructType, parse_schema
from headwater.schema import expectations
from headwater.schema.expectations import Expectation
from headwater.schema.generated import generated_columns
from headwater.sql.composing import (
    FALSE,
    NULL,
    STAR,
    TRUE,
    Alias,
    Cast,
    Column,
    Expression,
    Field,
    Merge,
    MergeClause,
    Named,
    Not,
    Number,
    Query,
    Relation,
    Resolved,
    Rows,
    select,
    when,
)
from headwater.statements.column_uses import ColumnUses
from headwater.statements.files.change_data import change_column
from headwater.statements.files.judging import VIOLATED, Judging, Violations
from headwater.statements.files.rows import Target, check_conditions, is_void, stored_in_log, write_judged
from headwater.statements.files.stored_values import as_stored, columns_stored_otherwise
from headwater.statements.reads.loading import pinned_version
from headwater.statements.running.opening import Options
from headwater.statements.upserts.events import Events, deletes_key, sequence_of
from headwater.statements.upserts.history_columns import START
from headwater.statements.writes.upsert_options import Upsert


def judging_of(upsert: Upsert, definition: TableDefinition) -> Judging | None:
    """The expectations by which events are judged before they are compared; None if no event may be turned away, or if
    events are not compared."""
    judging = Judging.of(definition) if upsert.sequence is not None else None
    return judging if judging is not None and judging.turns_away else None


@dataclass(frozen=True)
class JudgedEvents:
    """Events with what each violates, computed once.

    :param columns: the columns of the events as they came; ``renamed``: what these are called in ``rows``.
    """

    judging: Judging
    rows: Relation
    columns: StructType
    renamed: Sequence[str]
    violated: str

    @property
    def accepted(self) -> Query:
        """The events that are not turned away, as they came."""
        return select(
            *(Alias(Column(name), column.name) for name, column in zip(self.renamed, self.columns, strict=True)),
            rows=self.rows,
            where=Not(self._is_turned_away),
        )

    @property
    def _is_turned_away(self) -> Expression:
        return self.judging.is_turned_away(Column(self.violated))

    def turn_away(self, target: Target, options: Options, statement: Statement) -> Violations:
        """Count the events that are turned away, and stage those for the quarantine table."""
        stored = [Column(column.name) for column in target.schema if not is_void(column)]
        rows = select(STAR, rows=self.rows, where=self._is_turned_away)
        query = self.judging.new_rows(stored, rows, self.violated, change_column(target.schema), changes=False)
        statement.step("write events that violate expectations")
        return write_judged(statement, target, query, options, self.judging, changes=False)[1]


def judged(
    events: Events,
    columns: StructType,
    plan: int,
    judging: Judging,
    table: Snapshot,
    statement: Statement,
    *,
    evolves: bool,
    reads_table: bool,
) -> JudgedEvents:
    """Judge events for a version of a table.

    :param columns: those of the events as they come, whose rows are the plan of number ``plan``.
    :param evolves: whether the table gets the columns that only the events have.
    :param reads_table: whether the events are computed from the table itself.
    :raises HeadwaterError: ``HEADWATER_INVALID_EXPECTATION`` for an expectation that no event alone can meet.
    """
    target, event = events.names.of("target"), events.names.of("event")
    inserted = [(column.name, Field((event, column.name))) for column in events.schema]
    if events.upsert.keeps_history:
        inserted.append((START, Field((event, events.sequence_name))))
    # Spark says what an INSERT makes of an event: no other clause is asked for.
    merge = Merge(
        Named(Relation(statement.add_target(table.table_path)), target),
        Named(_with_expressions(events, plan, statement), event),
        FALSE,
        (MergeClause(False, None, tuple(inserted)),),
        evolves,
    )
    change = statement.resolve_merge(merge.text())
    assert change.source is not None
    if reads_table:
        statement.pin(change.target, pinned_version(table))
    schema = parse_schema(change.table_schema)
    values: dict[str, Expression] = {
        column.name.lower(): Resolved(value) for column, value in zip(schema, change.not_matched[0].values, strict=True)
    }
    target_table = Target(table.table_path, table.definition)
    return _Query(events, schema, target_table, judging, statement).judged(Relation(change.source), values, columns)


def judged_for_new_table(
    events: Events, columns: StructType, plan: int, judging: Judging, target: Target, statement: Statement
) -> JudgedEvents:
    """Judge the events that a table is created from; parameters and errors as of :func:`judged`."""
    values: dict[str, Expression] = {}
    for column in target.schema:
        given = columns.find(column.name)
        if given is not None:
            value: Expression = Column(given.name)
            values[column.name.lower()] = value if given.type == column.type else Cast(value, column.type)
    if events.upsert.keeps_history:
        values[START.lower()] = Column(events.sequence_name)
    return _Query(events, target.schema, target, judging, statement).judged(
        _with_expressions(events, plan, statement), values, columns
    )


def _with_expressions(events: Events, plan: int, statement: Statement) -> Query:
    """The events with whether they delete; where the table keeps a history, with their sequence."""
    added = [Alias(deletes_key(events, statement), events.deletes_name)]
    if events.upsert.keeps_history:
        added.append(sequence_of(events, statement))
    return select(STAR, *added, rows=Relation(plan))


class _Query:
    """The query that judges events.

    :param schema: the columns that the table will have; ``target``: the table as far as it is known.
    """

    def __init__(
        self, events: Events, schema: StructType, target: Target, judging: Judging, statement: Statement
    ) -> None:
        self.events, self.schema, self.target = events, schema, target
        self.judging, self.statement = judging, statement
        self.of_table = stored_in_log(statement)
        self.stored = [column for column in schema if not is_void(column)]
        self.generated = {
            column.name: column for column in generated_columns(schema) if events.schema.find(column.name) is None
        }
        self.uses = ColumnUses(statement, schema)
        self.unknown = self._unknown()
        self.computed: dict[str, Expression] = {
            name: Cast(self.of_table(column.sql), column.type)
            for name, column in self.generated.items()
            if name not in {each.name for each in self.unknown}
        }

    def judged(self, source: Rows, values: Mapping[str, Expression], columns: StructType) -> JudgedEvents:
        """Judge.

        :param source: the events with their expressions.
        :param values: of the table's columns, by names in lower case, over the source.
        :param columns: those of the events as they come.
        """
        self._check_known()
        events, names = self.events, self.events.names
        violated, deletes = names.of("violated"), Column(self.events.deletes_name)
        renamed = [names.of(f"given_event_{i}") for i, _ in enumerate(columns)]
        own = [Alias(Column(column.name), name) for column, name in zip(columns, renamed, strict=True)]
        rows: Query = select(
            *own, deletes, *(Alias(self._value(column, values), column.name) for column in self.stored), rows=source
        )
        beside = [*renamed, events.deletes_name]
        otherwise = {column.name: as_stored(Column(column.name)) for column in self._stored_otherwise()}
        if otherwise:
            rows = self._with(rows, beside, otherwise)
        if self.computed:
            rows = self._with(rows, beside, self.computed)
            if again := {name: value for name, value in otherwise.items() if name in self.computed}:
                rows = self._with(rows, beside, again)
        found = self.judging.violated(lambda text: TRUE if self._unknown_in(text) else self.of_table(text))
        rows = select(STAR, Alias(when(Not(deletes), found, Number(0)), violated), rows=rows)
        # These precede: of the other events, those that are written are judged by them as they are written.
        is_away = self.judging.is_turned_away(Column(violated))
        failing = expectations.failing(self.target.definition.metadata.configuration)
        checks = [(each.check, VIOLATED) for each in failing if not self._unknown_in(each.sql)]
        for holds in check_conditions(checks, self.target, self.of_table):
            rows = select(STAR, rows=rows, where=when(is_away, holds, TRUE))
        kept = Relation(self.statement.keep(rows.text()))
        return JudgedEvents(self.judging, kept, columns, renamed, violated)

    def _value(self, column: StructField, values: Mapping[str, Expression]) -> Expression:
        given = values.get(column.name.lower())
        if given is None:
            return Cast(NULL, column.type)
        # What an event that deletes has beside its key need not fit.
        return when(Not(Column(self.events.deletes_name)), given)

    def _with(self, rows: Query, beside: Sequence[str], values: Mapping[str, Expression]) -> Query:
        columns = [
            Alias(values[column.name], column.name) if column.name in values else Column(column.name)
            for column in self.stored
        ]
        return select(*map(Column, beside), *columns, rows=rows)

    def _stored_otherwise(self) -> list[StructField]:
        return [column for column in columns_stored_otherwise(self.target.definition) if not is_void(column)]

    # -- What an event says of its row ---------------------------------------------------------------------------------

    def _unknown(self) -> list[StructField]:
        """The columns whose value in the row is not the event's own."""
        own = {column.name.lower() for column in self.events.schema}
        if self.events.upsert.ignores_nulls:
            own = {*(key.name.lower() for key in self.events.keys), *map(str.lower, self.events.references)}
        if self.events.upsert.keeps_history:
            own.add(START.lower())
        others = [column for column in self.schema if column.name.lower() not in own]
        given = [column for column in others if column.name not in self.generated]

        def is_computed(column: StructField) -> bool:
            found = self.generated.get(column.name)
            used = "" if found is None else f"({found.sql}) IS NOT NULL"
            return found is not None and not any(self.uses.column(used, (each.name,)) for each in given)

        return [column for column in others if not is_computed(column)]

    def _unknown_in(self, sql: str) -> StructField | None:
        """A column that a condition uses and an event does not say."""
        return next((column for column in self.unknown if self.uses.column(sql, (column.name,))), None)

    def _check_known(self) -> None:
        for each in self.judging.expected:
            if each.turns_away and (column := self._unknown_in(each.sql)) is not None:
                raise self._undecided(each, column)

    def _undecided(self, expectation: Expectation, column: StructField) -> HeadwaterError:
        why = "the rows that are written do not have it"
        if self.events.schema.find(column.name) is not None:
            why = "with ignoreNullUpdates, a null in it keeps the previous value"
        return expectations.invalid(
            expectation,
            "A write with sequenceBy judges each event before it compares them, and an event alone does not say what "
            f"the column {sql_name(column.name)} of its row will be: {why}. Write the column with each event, or use "
            "FAIL UPDATE or no ON VIOLATION.",
        )
