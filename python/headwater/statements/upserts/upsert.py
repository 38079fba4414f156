"""Upserts: a write with key columns, whose rows replace those of the table with the same keys.

In this order: judge the events by the table's expectations, if these turn rows away
(:mod:`headwater.statements.upserts.judging_events`); compute the newest event of each key once
(:mod:`headwater.statements.upserts.events`); write the deletions among them to the companion
(:mod:`headwater.statements.upserts.deleted_keys`); merge the events into the
table, as a MERGE on the keys, which prunes by them and commits once, and inserts none that is older than a remembered
deletion. Where the table keeps a history, all events are merged, with the stored rows that end elsewhere now
(:mod:`headwater.statements.upserts.history`).

Which writes are upserts is :mod:`headwater.statements.write_routes`'s. A row's columns are matched by their names. An
update leaves the columns that the rows do not have, an insert gives them null or their default.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from msgspec import structs

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.change import ChangeRequest
from headwater.bridge.messages.define import CommitAnswer, CreateTableRequest
from headwater.bridge.messages.follow import WriteBatchRequest
from headwater.bridge.messages.write import WriteRequest
from headwater.bridge.statement import Statement
from headwater.log.snapshot import Snapshot
from headwater.protocol.actions import Metadata
from headwater.protocol.types import StructType, parse_schema, schema_string
from headwater.schema.evolution import unknown_columns_error
from headwater.sql.composing import Column, Not, Query, Relation, select
from headwater.statements.dml.attempt import begin
from headwater.statements.dml.merge import merge_once
from headwater.statements.dml.request import DmlRequest
from headwater.statements.feeds import sink
from headwater.statements.running.committing import Application, has_committed, idempotence, reset_version
from headwater.statements.running.opening import Options, open_same, open_snapshot
from headwater.statements.running.rerunning import RETRIED, run_again_after_losses, run_again_after_lost_rows
from headwater.statements.tables import create
from headwater.statements.upserts import history
from headwater.statements.upserts.binding import batch_named, may_have_expired
from headwater.statements.upserts.deleted_keys import (
    Companion,
    Deletions,
    Remembering,
    all_deletions,
    companion_of,
    confirm,
    deletions_of,
    with_outdated,
)
from headwater.statements.upserts.events import Events, events_of, prepare
from headwater.statements.upserts.finding import companion_in
from headwater.statements.upserts.history_columns import with_history
from headwater.statements.upserts.judging_events import JudgedEvents, judged, judged_for_new_table, judging_of
from headwater.statements.upserts.merging import compose, described
from headwater.statements.writes.evolving import grown_schema, may_evolve
from headwater.statements.writes.insert import still_fits
from headwater.statements.writes.upsert_options import Upsert, check, upsert_of

_LOG = logging.getLogger(__name__)
#: Conflicts after which an upsert runs again. The first is a winner that committed under an application id that the
#: upsert depends on, as it has deleted keys. The second came between the analysis of the MERGE and its snapshot.
_RETRIED = RETRIED | {"DELTA_CONCURRENT_TRANSACTION", "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS"}
#: Another writer has created the table that a save was to create.
_CREATED_MEANWHILE = ("DELTA_CONCURRENT_WRITE", "DELTA_TABLE_ALREADY_EXISTS")


def write(request: WriteRequest, options: Options, statement: Statement) -> CommitAnswer:
    """Write rows into a table, by their keys."""
    upsert = check(request.options, "overwrite" if request.replace_where is not None else request.mode)
    rows = _Rows(request.plan, request.schema, request.reads_table)
    return _Batch(upsert, request, request.name, rows, options, statement).run()


def create_table(request: CreateTableRequest, options: Options, statement: Statement) -> CommitAnswer:
    """Create a table with the newest row of each key, or with all of them as a history."""
    assert request.plan is not None
    assert request.row_schema is not None
    upsert = check(request.options, "append" if request.mode == "create" else "overwrite")
    rows = parse_schema(request.row_schema)
    events = events_of(upsert, rows, None, statement, request.partition_columns)
    declared = parse_schema(request.schema)
    stored = StructType(tuple(column for column in declared if events.schema.find(column.name) is not None))
    wanted = structs.replace(
        request,
        schema=schema_string(_of_table(events, stored)),
        row_schema=schema_string(_of_table(events, events.schema)),
    )

    try:
        planned = create.plan(wanted, statement)
        if isinstance(planned, CommitAnswer):
            return planned
        given: Query = Relation(request.plan)
        away = None
        if (judging := judging_of(upsert, planned.txn.definition)) is not None:
            target = planned.target
            found = judged_for_new_table(events, rows, request.plan, judging, target, statement)
            given, away = found.accepted, found.turn_away(target, options, statement)
        kept = Relation(statement.keep(prepare(events, given, statement).text()))
        txn = planned.write(statement.keep(_of_new_table(events, kept).text()), away).txn
        if upsert.remembers_deletes:
            companion = companion_of(txn.table_path, txn.metadata, events)
            number = Remembering(companion, events, kept, idempotence(options, statement), statement).bind(None)
            if number is not None:
                txn.set_transaction(companion.application, number)
        return planned.commit()
    except HeadwaterError as error:
        if request.save_mode is None or error.condition not in _CREATED_MEANWHILE:
            raise
    # Another writer was the first.
    statement.discard()
    batch = _Rows(request.plan, request.row_schema, False)
    return _Batch(upsert, _Seen(request.table, None, None), None, batch, options, statement).run()


def write_batch(request: WriteBatchRequest, options: Options, statement: Statement) -> CommitAnswer:
    """Write a stream's batch, by the keys of its rows."""
    batch = request.batch
    upsert = upsert_of(options)
    version, table_id = request.version, request.table_id
    if version is None:
        events = events_of(upsert, parse_schema(batch.schema), None, statement)
        sink.create_empty(batch, _of_table(events, events.schema), statement)
        snapshot = open_snapshot(batch.sink.table, statement)
        version, table_id = snapshot.version, snapshot.metadata.id
    seen = _Seen(batch.sink.table, table_id, version)
    # The rows are those of the batch, whatever the table they come from has become.
    rows = _Rows(request.plan, request.schema, False)
    application = sink.application_of(batch)
    parameters = {"queryId": batch.query_id, "epochId": str(batch.batch_id)}
    return _Batch(upsert, seen, None, rows, options, statement, application=application, parameters=parameters).run()


def _of_table(events: Events, columns: StructType) -> StructType:
    """The columns of a table that is created for events: those given, and those of the history if it keeps one."""
    if not events.upsert.keeps_history:
        return columns
    assert events.sequence is not None
    return with_history(columns, events.sequence)


def _of_new_table(events: Events, kept: Relation) -> Query:
    """The rows of a table that is created for prepared events."""
    if events.upsert.keeps_history:
        return history.of_new_table(events, kept)
    columns = [Column(name) for name in events.schema.names]
    return select(*columns, rows=kept, where=Not(Column(events.deletes_name)))


class _Seen(NamedTuple):
    """The table that a write was planned for."""

    table: str
    table_id: str | None
    version: int | None


@dataclass(frozen=True)
class _Rows:
    """The rows of a write.

    :param plan: the number of their plan; ``schema``: their columns.
    :param reads_table: whether they are computed from the table itself.
    """

    plan: int
    schema: str
    reads_table: bool


class _Batch:
    """The attempts to upsert one batch of rows.

    :param application: the application id and version of a stream's batch.
    """

    def __init__(
        self,
        upsert: Upsert,
        seen: WriteRequest | _Seen,
        name: str | None,
        rows: _Rows,
        options: Options,
        statement: Statement,
        *,
        application: Application | None = None,
        parameters: Mapping[str, str] | None = None,
    ) -> None:
        self.upsert, self.seen, self.name, self.rows = upsert, seen, name, rows
        self.options, self.statement = options, statement
        self.application = application or idempotence(options, statement)
        self.parameters = {**self.upsert.parameters(), **(parameters or {})}
        #: The prepared rows, computed once; those that expectations turned away before; and the table whose
        #: expectations these are.
        self.kept: Relation | None = None
        self.judged: JudgedEvents | None = None
        self.judged_for: Metadata | None = None
        #: The batch's deletions, by the companion's id.
        self.remembered: dict[str, Remembering] = {}

    def run(self) -> CommitAnswer:
        """Upsert, again after a lost race."""
        return run_again_after_losses(
            self.seen.table, self.statement, self._with_kept_rows, self._may_run_again, retried=_RETRIED
        )

    def _may_run_again(self, error: HeadwaterError) -> bool:
        if self.seen.version is None:
            return True
        return still_fits(self.seen, self.seen.version, self.rows.schema, self.statement)

    def _with_kept_rows(self) -> CommitAnswer:
        def forget() -> None:
            self.kept = None

        return run_again_after_lost_rows(self.seen.table, self.statement, self._attempt, forget)

    def _attempt(self) -> CommitAnswer:
        while True:
            snapshot = open_same(self.seen, self.statement)
            if self._is_done(snapshot):
                return CommitAnswer(version=snapshot.version, skipped=True)
            answer = self._upsert_into(snapshot)
            if answer is not None:
                return answer

    def _is_done(self, snapshot: Snapshot) -> bool:
        if self.application is None or not has_committed(snapshot, self.application):
            return False
        reset_version(self.application, self.statement)
        return True

    def _upsert_into(self, snapshot: Snapshot) -> CommitAnswer | None:
        """Upsert into a version or a newer one; None where something was committed to it meanwhile that the events were
        not compared with: deletions, or any rows where the table keeps a history."""
        statement, rows = self.statement, parse_schema(self.rows.schema)
        events = self._events(snapshot, rows)
        prepared = self._prepared(events, rows, snapshot)
        companion = companion_in(snapshot, events, statement) if self.upsert.sequence else None
        deletions = number = None
        if companion is not None:
            number = self._remember(companion, events, prepared, snapshot)
            deletions = deletions_of(companion, snapshot, statement)
        if companion is not None and self.upsert.keeps_history:
            change = self._change_of_history(
                snapshot, events, prepared, all_deletions(companion, deletions, events, statement)
            )
        else:
            change = self._change(snapshot, events, prepared, companion, deletions)
        attempt = begin(DmlRequest(change, self.options, self.application, self.parameters), statement)
        if self._is_done(attempt.snapshot):
            return CommitAnswer(version=attempt.snapshot.version, skipped=True)
        if not self._holds_for(attempt.snapshot, snapshot):
            return None
        attempt.is_judged = self.judged is not None
        if companion is not None:
            attempt.txn.transaction_version(companion.application)
            if not self._knows_all_deletions(companion, events, snapshot, attempt.snapshot):
                return None
            if number is not None:
                attempt.txn.set_transaction(companion.application, number)
        if self.application is not None:
            attempt.txn.set_transaction(self.application.id, self.application.version)
        if self.rows.reads_table:
            attempt.txn.read_whole_table()
        if self.judged is not None:
            attempt.violations.add(self.judged.turn_away(attempt.target, self.options, statement))
        answer = structs.replace(merge_once(attempt), counts=None)
        if companion is not None and number is not None and may_have_expired(attempt.snapshot):
            self._confirm(companion, number)
        return answer

    def _knows_all_deletions(self, companion: Companion, events: Events, seen: Snapshot, now: Snapshot) -> bool:
        """Whether no deletions have come to the table since a version."""
        if companion_in(now, events, self.statement).id != companion.id:
            return False
        before, named = (batch_named(each, companion.application) for each in (seen, now))
        # One that came may have expired already.
        may_have_come = named is None and may_have_expired(now) and now.version != seen.version
        return before == named and not may_have_come

    def _confirm(self, companion: Companion, number: int) -> None:
        try:
            confirm(companion, (number,), self.statement)
        except Exception as error:  # the table's commit stands, and says itself that the batch is in it
            _LOG.warning("%s: deleted keys are not confirmed yet: %s", companion.path, error)

    def _change(
        self,
        snapshot: Snapshot,
        events: Events,
        prepared: Query,
        companion: Companion | None,
        deletions: Deletions | None,
    ) -> ChangeRequest:
        statement = self.statement
        compared = None
        if companion is not None:
            compared = with_outdated(companion, deletions, events, prepared, statement)
        target, source = statement.add_target(snapshot.table_path), prepared if compared is None else compared
        has_outdated = compared is not None
        merge = compose(events, target, source, statement, has_outdated=has_outdated, evolves=self._evolves)
        change = described(statement.resolve_merge(merge.text()), events, self.name)
        if compared is None and isinstance(prepared, Relation):
            # The rows are computed already: to read them again costs no more than reading them.
            change = structs.replace(change, source_is_scan=True, source_deterministic=True)
        return change

    def _change_of_history(
        self, snapshot: Snapshot, events: Events, prepared: Query, deletions: Query | None
    ) -> ChangeRequest:
        statement = self.statement
        source = history.changed_rows(events, prepared, deletions, snapshot, statement)
        target = statement.add_target(snapshot.table_path)
        merge = history.compose(events, target, source, snapshot.schema, evolves=self._evolves)
        return history.described(statement.resolve_merge(merge.text()), events, self.name)

    def _remember(self, companion: Companion, events: Events, prepared: Query, snapshot: Snapshot) -> int | None:
        """The number by which a commit after a version says that the batch's deletions count; None without any."""
        if not self.upsert.remembers_deletes:
            return None
        if companion.id not in self.remembered or self.rows.reads_table:
            self.remembered[companion.id] = Remembering(companion, events, prepared, self.application, self.statement)
        remembering = self.remembered[companion.id]
        remembering.events, remembering.rows = events, prepared
        return remembering.bind(snapshot)

    @property
    def _evolves(self) -> bool:
        return may_evolve(self.options, self.statement)

    def _events(self, snapshot: Snapshot, rows: StructType) -> Events:
        """What the options mean for the rows and a version of the table.

        :raises HeadwaterError: where the rows have columns that the table lacks and may not get.
        """
        left_out = {name.lower() for name in self.upsert.left_out}
        stored = StructType(tuple(column for column in rows if column.name.lower() not in left_out))
        table, partitions = snapshot.schema, snapshot.partition_columns
        if self._evolves:
            table = grown_schema(snapshot, stored, self.statement, table_name=self.name or snapshot.table_path)
        else:
            # Keys first: a column that the table lacks may be a misspelt key.
            events = events_of(self.upsert, rows, table, self.statement, partitions)
            if error := unknown_columns_error(table, stored):
                raise error
            return events
        return events_of(self.upsert, rows, table, self.statement, partitions)

    def _holds_for(self, now: Snapshot, seen: Snapshot) -> bool:
        """Whether what was computed for a version holds for a newer one."""
        of_version = self.upsert.keeps_history or (self.rows.reads_table and self.judged is not None)
        judges = self.judged is not None or judging_of(self.upsert, now.definition) is not None
        return (now.version == seen.version or not of_version) and (now.metadata == seen.metadata or not judges)

    def _prepared(self, events: Events, rows: StructType, snapshot: Snapshot) -> Query:
        plan, statement = self.rows.plan, self.statement
        judging = judging_of(self.upsert, snapshot.definition)
        wanted = None if judging is None else snapshot.metadata
        if self.kept is None or wanted != self.judged_for:
            if wanted != self.judged_for:
                # Other events may be the newest ones now.
                self.remembered.clear()
            self.judged, self.judged_for = None, wanted
            if judging is not None:
                self.judged = judged(
                    events,
                    rows,
                    plan,
                    judging,
                    snapshot,
                    statement,
                    evolves=self._evolves,
                    reads_table=self.rows.reads_table,
                )
            self.kept = None
        given = Relation(plan) if self.judged is None else self.judged.accepted
        if self.rows.reads_table:
            # Not computed once: the attempt reads the table at its own version.
            return prepare(events, given, statement)
        if self.kept is None:
            self.kept = Relation(statement.keep(prepare(events, given, statement).text()))
        return self.kept
