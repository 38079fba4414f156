"""Streaming sinks: the micro-batches of ``writeStream``, each committed exactly once.

Owns what a batch becomes: skipped, a new table, or a commit ``STREAMING UPDATE``. Each commit has a ``txn`` action with
the query's id and the batch's number (protocol chapter "Transaction Identifiers"). Promises: a batch that the table has
is skipped before any job runs, however the query ended before; a batch that lost a race to another writer commits the
files it has written, unless the table's definition has changed.
"""

from __future__ import annotations

from typing import NamedTuple

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.define import CommitAnswer, CreateTableRequest
from headwater.bridge.messages.follow import (
    BatchPlan,
    CheckSinkRequest,
    PlanBatchRequest,
    SinkBatch,
    SinkSettings,
    WriteBatchRequest,
)
from headwater.bridge.messages.write import ResolveWriteRequest
from headwater.bridge.statement import Statement
from headwater.definition.changes import numbered
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.columns import format_name
from headwater.protocol.properties import for_new_table
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import (
    StructField,
    StructType,
    as_nullable,
    parse_schema,
    schema_string,
)
from headwater.schema.checks import void_columns
from headwater.schema.evolution import partition_mismatch_error
from headwater.statements.calls import call
from headwater.statements.feeds.sink_options import check_options
from headwater.statements.files.quarantine import settle
from headwater.statements.files.rows import Target, Written, write_rows
from headwater.statements.reads.loading import names_version_of_table
from headwater.statements.running.committing import Application, commit, has_committed, transaction
from headwater.statements.running.opening import Options, locate, open_if_there, open_same, open_snapshot
from headwater.statements.running.rerunning import run_again_after_losses
from headwater.statements.settings import ALLOWS_ARBITRARY
from headwater.statements.tables.create import create_table
from headwater.statements.tables.definition import define
from headwater.statements.writes import upsert_options
from headwater.statements.writes.given_options import ignore_properties, properties_in
from headwater.statements.writes.insert import evolve_metadata, numbers_rows, resolve_write, still_fits
from headwater.statements.writes.overwrite import Overwrite, remove_replaced
from headwater.transaction import Transaction
from headwater.transaction.commit_info import Provenance

#: What the history calls a batch.
_OPERATION = "STREAMING UPDATE"


@call(commits=False, in_transaction=False, words="A stream")
def check_sink(request: CheckSinkRequest, statement: Statement) -> None:
    """Refuse, when a query starts, what each of its batches would be refused for.

    :raises HeadwaterError: ``DELTA_UNSUPPORTED_OUTPUT_MODE``, ``HEADWATER_UPSERT_NEEDS_APPEND``; those of an upsert's
        options, of
        :func:`~headwater.statements.feeds.sink_options.check_options` and :func:`_check_table`.
    """
    sink = request.sink
    upserts = upsert_options.asked(Options(sink.options))
    if sink.mode not in ("Append", "Update" if upserts else "Complete"):
        if upserts:
            raise HeadwaterError("HEADWATER_UPSERT_NEEDS_APPEND", {"mode": sink.mode.lower()})
        raise HeadwaterError("DELTA_UNSUPPORTED_OUTPUT_MODE", {"mode": sink.mode.lower()})
    if upserts:
        upsert_options.upsert_of(Options(sink.options))
    check_options(sink.options, sink.mode, sink.table)
    if names_version_of_table(sink.table, statement):
        raise HeadwaterError("DELTA_TIME_TRAVEL_WRITE_NOT_ALLOWED", {"path": sink.table})
    snapshot = open_if_there(sink.table, statement)
    if snapshot is None:
        for_new_table(properties_in(sink.options), statement.confs, allow_arbitrary=ALLOWS_ARBITRARY.of(statement))
    else:
        _check_table(sink, snapshot)
        ignore_properties(sink.options, snapshot, statement)


def _check_table(sink: SinkSettings, snapshot: Snapshot) -> None:
    """Refuse a query that does not fit its table.

    :raises HeadwaterError: ``DELTA_METADATA_MISMATCH``, ``DELTA_CLUSTERING_COLUMNS_MISMATCH``,
        ``DELTA_CANNOT_MODIFY_APPEND_ONLY``.
    """
    given = [name.lower() for name in sink.partition_columns]
    if given and given != [name.lower() for name in snapshot.partition_columns]:
        raise partition_mismatch_error(sink.partition_columns, snapshot.partition_columns)
    if sink.clustering_columns is not None:
        existing = [format_name(path) for path in snapshot.clustering_columns or ()]
        wanted = [format_name((name,)) for name in sink.clustering_columns]
        if [name.lower() for name in wanted] != [name.lower() for name in existing]:
            raise HeadwaterError(
                "DELTA_CLUSTERING_COLUMNS_MISMATCH",
                {"given": ", ".join(wanted), "existing": ", ".join(existing) or "none"},
            )
    if sink.mode == "Complete" and snapshot.definition.get(properties.APPEND_ONLY):
        raise HeadwaterError("DELTA_CANNOT_MODIFY_APPEND_ONLY", {"tableName": snapshot.metadata.name or sink.table})


@call(commits=False, in_transaction=False, words="A stream")
def plan_batch(request: PlanBatchRequest, statement: Statement) -> BatchPlan:
    """Whether a batch is to be written, and which columns its rows must have.

    :raises HeadwaterError: ``DELTA_NULL_SCHEMA_IN_STREAMING_WRITE``; those of :func:`_check_table` and of
        :func:`~headwater.statements.writes.insert.resolve_write`.
    """
    batch, sink = request.batch, request.batch.sink
    snapshot = open_if_there(sink.table, statement)
    if snapshot is not None and has_committed(snapshot, application_of(batch)):
        return BatchPlan(skipped=True)
    rows = parse_schema(batch.schema)
    if voids := void_columns(rows):
        raise HeadwaterError("DELTA_NULL_SCHEMA_IN_STREAMING_WRITE", {"columns": ", ".join(voids)})
    if snapshot is None:
        return BatchPlan()
    _check_table(sink, snapshot)
    if upsert_options.asked(Options(sink.options)):
        return BatchPlan(version=snapshot.version, table_id=snapshot.metadata.id)
    asked = ResolveWriteRequest(
        table=sink.table,
        version=snapshot.version,
        schema=batch.schema,
        by_name=True,
        mode=_mode(sink),
        options=sink.options,
    )
    return BatchPlan(
        columns=resolve_write(asked, statement).schema, version=snapshot.version, table_id=snapshot.metadata.id
    )


def _mode(sink: SinkSettings) -> str:
    return "overwrite" if sink.mode == "Complete" else "append"


class _SeenTable(NamedTuple):
    """The table that a batch was planned for."""

    table: str
    table_id: str | None


class _Prepared(NamedTuple):
    """The files of a batch, and the definition of the table that they were written for; ``evolved``: with the columns
    that the batch brings.
    """

    definition: TableDefinition
    evolved: TableDefinition
    written: Written


def write_batch(request: WriteBatchRequest, statement: Statement) -> CommitAnswer:
    """Write a batch and commit it; a batch that the table has by then is skipped.

    :raises HeadwaterError: a conflict, where the table no longer has the columns that the rows were matched to, or
        where the rows are computed from the table and another writer changed it.
    """
    batch = request.batch
    if request.version is None:
        return _create(request, statement)
    work = _BatchWrite(request, statement, _SeenTable(batch.sink.table, request.table_id))
    try:
        return run_again_after_losses(
            batch.sink.table,
            statement,
            work.attempt,
            work.may_go_on,
            waits_for_others=work.waits_for_others,
            discards=False,
        )
    except HeadwaterError as error:
        # The same batch, of a run of the query that was stopped while it committed.
        if error.condition == "DELTA_CONCURRENT_TRANSACTION":
            snapshot = open_snapshot(batch.sink.table, statement)
            if has_committed(snapshot, application_of(batch)):
                statement.discard()
                return CommitAnswer(version=snapshot.version, skipped=True)
        raise


class _BatchWrite:
    """The attempts to write one batch to a table."""

    def __init__(self, request: WriteBatchRequest, statement: Statement, seen: _SeenTable) -> None:
        self.request, self.statement, self.seen = request, statement, seen
        #: That of the plan for the first attempt, which knows it already; the newest for those after a lost race.
        self.version = request.version
        self.prepared: _Prepared | None = None

    def may_go_on(self, error: HeadwaterError) -> bool:
        """Whether the batch can be committed after a conflict. Rows that were computed from the table are those of the
        version that Spark read."""
        request = self.request
        given = parse_schema(request.batch.schema).names
        return not request.reads_table and still_fits(
            self.seen, request.version, request.schema, self.statement, among=given
        )

    def waits_for_others(self) -> bool:
        """Whether statements that lost go first."""
        return not self.request.reads_table and numbers_rows(self.seen, self.request.schema, self.statement)

    def attempt(self) -> CommitAnswer:
        """Commit the batch."""
        request, statement, batch = self.request, self.statement, self.request.batch
        options = Options(batch.sink.options)
        # The table must still be the one of the plan, and its columns those that the rows were matched to.
        snapshot = open_same(self.seen, statement, self.version)
        self.version = None
        if has_committed(snapshot, application_of(batch)):
            statement.discard()
            return CommitAnswer(version=snapshot.version, skipped=True)
        txn = transaction(batch.sink.table, statement, snapshot)
        if request.reads_table:
            txn.read_whole_table()
        written = self._written(txn, snapshot, options)
        if written.schema is not None:
            txn.redefine(numbered(txn.definition, written.schema))
        overwrite = Overwrite("all" if batch.sink.mode == "Complete" else "append")
        _, removed = remove_replaced(
            statement, txn, snapshot, overwrite, written=written, data_change=True, changes=False, options=options
        )
        txn.add(written.files)
        target = Target(snapshot.table_path, txn.definition)
        settle(statement, txn, target, written.violations, _OPERATION)
        return _commit(txn, statement, options, batch, written, removed.num_rows)

    def _written(self, txn: Transaction, snapshot: Snapshot, options: Options) -> Written:
        """The batch's files, of an earlier attempt where the table's definition is still the same."""
        request, statement = self.request, self.statement
        overwrites_schema = request.batch.sink.mode == "Complete" and bool(options.flag("overwriteSchema"))
        earlier = self.prepared
        if earlier is not None:
            if earlier.definition == snapshot.definition:
                # Not evolved once more: a new column's physical name, which the files have, is another each time.
                # Clustering columns are those of now: the batch has none of its own.
                txn.redefine(snapshot.definition.after(earlier.evolved.protocol, earlier.evolved.metadata))
                return earlier.written
            statement.discard()
        matched = parse_schema(request.schema)
        data = _still_there(matched, parse_schema(request.batch.schema), snapshot.schema)
        evolve_metadata(txn, snapshot, data, options, statement, overwrites_schema=overwrites_schema)
        target = Target(snapshot.table_path, txn.definition)
        evolved = txn.definition
        has_more = len(data.names) < len(matched.names)
        written = write_rows(statement, target, request.plan, data.names, options, has_more=has_more)
        self.prepared = _Prepared(snapshot.definition, evolved, written)
        return written


def _still_there(matched: StructType, given: StructType, table: StructType) -> StructType:
    """The columns of a batch's rows as they were matched to the table, without those that the query never had and that
    the table has lost since: they are null, or defaults.
    """

    def is_there(column: StructField) -> bool:
        now = table.find(column.name)
        return given.find(column.name) is not None or (now is not None and now.type.sql() == column.type.sql())

    return StructType(tuple(column for column in matched if is_there(column)))


def _create(request: WriteBatchRequest, statement: Statement) -> CommitAnswer:
    """The first batch of a query whose table does not exist: it also has the definition."""
    batch, sink = request.batch, request.batch.sink
    options = Options(sink.options)
    location = locate(sink.table, statement)
    rows = parse_schema(request.schema)
    declared = _declared(sink, rows)
    # Not refused for files that are there: a run of the query that was killed before its first commit leaves some.
    definition = define(declared, location, statement)
    txn = transaction(sink.table, statement, None)
    txn.redefine(definition)
    location.store.make_directory(location.path)
    target = Target(location.path, txn.definition)
    written = write_rows(statement, target, request.plan, rows.names, options)
    txn.add(written.files)
    settle(statement, txn, target, written.violations, _OPERATION)
    return _commit(txn, statement, options, batch, written, 0)


def create_empty(batch: SinkBatch, columns: StructType, statement: Statement) -> None:
    """Create the table that a query's first batch finds missing, without rows."""
    create_table(_declared(batch.sink, columns), statement)


def _declared(sink: SinkSettings, rows: StructType) -> CreateTableRequest:
    """The table that a query's rows declare."""
    schema = StructType(tuple(StructField(f.name, as_nullable(f.type), True, f.metadata) for f in rows))
    clustered_by = sink.clustering_columns
    clustering = [] if clustered_by is None else [f"cluster_by({', '.join(format_name((c,)) for c in clustered_by)})"]
    return CreateTableRequest(
        table=sink.table,
        mode="create",
        external=True,
        schema=schema_string(schema),
        partitioning=clustering,
        partition_columns=sink.partition_columns,
        properties=properties_in(sink.options),
    )


def application_of(batch: SinkBatch) -> Application:
    """The query and its batch, by which the batch is recognized in the table."""
    return Application(batch.query_id, batch.batch_id)


def _commit(
    txn: Transaction, statement: Statement, options: Options, batch: SinkBatch, written: Written, removed: int
) -> CommitAnswer:
    provenance = Provenance(
        _OPERATION,
        {"outputMode": batch.sink.mode, "queryId": batch.query_id, "epochId": str(batch.batch_id)},
        {
            "numAddedFiles": len(written.files),
            "numRemovedFiles": removed,
            "numOutputRows": written.rows,
            "numOutputBytes": written.bytes,
        },
        options.user_metadata,
    )
    return commit(txn, statement, provenance, application=application_of(batch))
