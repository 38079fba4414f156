"""A table as the source of a stream: ``readStream.format("delta")``, ``readStream.table``, ``STREAM t``.

Owns the calls of Spark's source: opening it, asking for the end of the next micro-batch, and for its files. What an
offset means, and what a stream may pass over, is :mod:`headwater.streams.source`. No answer depends
on what this process remembers of a stream, as it may be a new one: Spark's side sends with each call what the stream
has known since its start. What is kept here saves work: commits that were read, pages of an initial snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from headwater.basics.errors import HeadwaterError, illegal_option
from headwater.basics.recent import Recent
from headwater.bridge.messages.follow import (
    OpenStreamRequest,
    StreamChangesRequest,
    StreamCommittedRequest,
    StreamCondition,
    StreamConditionRequest,
    StreamDescription,
    StreamedTable,
    StreamEndAnswer,
    StreamEndRequest,
    StreamFilesRequest,
)
from headwater.bridge.messages.read import ChangesAnswer, ChangesBound, ChangesForm, FileListAnswer
from headwater.bridge.statement import Statement
from headwater.change_data.bounds import Bound, resolve
from headwater.change_data.changelog import key_columns
from headwater.change_data.schemas import VersionedDefinition
from headwater.log.files import FILE_SCHEMA
from headwater.log.history import CommitTimes
from headwater.log.segment import list_log
from headwater.log.snapshot import Snapshot, snapshot_of_files
from headwater.protocol.types import (
    DataType,
    PrimitiveType,
    StructType,
    as_nullable,
    parse_schema,
    schema_string,
)
from headwater.pruning.predicates import decode
from headwater.schema import visible
from headwater.statements.calls import call
from headwater.statements.feeds.options import SourceOptions, Start, source_options
from headwater.statements.feeds.tracking import begin, definition_of, evolve, schema_log, tracked
from headwater.statements.files.file_lists import answer_files
from headwater.statements.reads.change_feed import columns_of_changes, describe_feed
from headwater.statements.reads.loading import describe, names_version_of_table
from headwater.statements.running.opening import Options, locate, open_snapshot
from headwater.statements.settings import CHANGES_OUT_OF_RANGE
from headwater.streams.commits import Commits
from headwater.streams.compatibility import check_change, check_mapping
from headwater.streams.initial import InitialSnapshots
from headwater.streams.limits import Limits
from headwater.streams.offsets import AFTER_DEFINITION_CHANGE, DEFINITION_CHANGE, Offset, parse_offset
from headwater.streams.source import Outstanding, TableStream

_COMMITS = Commits()
_INITIAL = InitialSnapshots()
#: Streams whose first version was compared with what they read with: checkpoint, table's id and version at their start.
_COMPARED: Recent[tuple[str | None, str, int], None] = Recent(1000)


@call(commits=False, in_transaction=False, words="A stream")
def open_stream(request: OpenStreamRequest, statement: Statement) -> StreamDescription:
    """A table as a stream's source, at its newest version.

    :raises HeadwaterError: those of opening a table and of the options; ``DELTA_READ_SOURCE_SCHEMA_CONFLICT``,
        ``DELTA_SCHEMA_NOT_SET``, ``DELTA_STREAMING_SCHEMA_MISMATCH_ON_RESTART``.
    """
    options = source_options(request.options, statement)
    if names_version_of_table(request.table, statement):
        raise HeadwaterError("DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS", {"tableName": request.table})
    try:
        newest = open_snapshot(request.table, statement)
    except HeadwaterError as error:
        if error.condition != "DELTA_TABLE_NOT_FOUND":
            raise
        raise HeadwaterError("DELTA_SCHEMA_NOT_SET", {"tableName": request.table, "state": "does not exist"}) from None
    noted = tracked(request, newest, _COMMITS, statement)
    snapshot = newest if noted is None else _as_defined(newest, noted)
    if not snapshot.schema.fields:
        raise HeadwaterError("DELTA_SCHEMA_NOT_SET", {"tableName": snapshot.table_path, "state": "has no columns"})
    schema = schema_string(visible.for_reading(snapshot.schema))
    _check_event_time(options.reading.event_time, snapshot.schema)
    read = schema if options.changes is None else schema_string(_columns_of_changes(snapshot, options.changes))
    if request.checkpoint is None:
        _check_given(request, schema)
    else:
        _check_analysed(request, read)
    stream = StreamedTable(
        table=request.table,
        version=snapshot.version,
        protocol=snapshot.protocol.to_json()["protocol"],
        metadata=snapshot.metadata.to_json()["metaData"],
        options=request.options,
        checkpoint=request.checkpoint,
        starting_micros=_starting_micros(request.bounds),
        tracks=noted is not None,
    )
    return StreamDescription(
        table=msgspec.structs.replace(describe(snapshot), size_in_bytes=newest.size_in_bytes),
        schema=read,
        reads_changes=options.reading.reads_changes,
        has_conditions=options.reading.event_time is not None,
        notes_ends=schema_log(Options(request.options), snapshot.metadata.id, statement) is not None,
        max_files=options.max_files,
        max_bytes=options.max_bytes,
        stream=msgspec.Raw(msgspec.json.encode(stream)),
    )


def _check_event_time(column: str | None, schema: StructType) -> None:
    """That the column of a stream's event time has times."""
    field = None if column is None else schema.find(column)
    if column is not None and (field is None or field.type != PrimitiveType("timestamp")):
        kind = "no column of the table" if field is None else f"of type {field.type.sql().upper()}"
        explain = f"needs a watermark on a column of type TIMESTAMP: {column} is {kind}"
        raise illegal_option("withEventTimeOrder", "true", explain)


def _as_defined(newest: Snapshot, definition: VersionedDefinition) -> Snapshot:
    """A table with the definition that a stream reads it with, and no files."""
    return snapshot_of_files(
        newest.table_path,
        newest.store,
        definition.version,
        definition,
        FILE_SCHEMA.empty_table(),
    )


def _columns_of_changes(snapshot: Snapshot, form: ChangesForm) -> StructType:
    """The columns of a stream of changes, whose keys are checked before it starts."""
    if form.keys is not None:
        key_columns(form.keys, snapshot.schema, snapshot.table_path)
    return columns_of_changes(snapshot.schema, form, snapshot.table_path)


def _starting_micros(bounds: Sequence[ChangesBound]) -> int | None:
    for bound in bounds:
        if bound.name == "startingTimestamp":
            if bound.micros is None:
                raise HeadwaterError("DELTA_TIMESTAMP_INVALID", {"expr": bound.value or "NULL"})
            return int(bound.micros)
    return None


def _check_given(request: OpenStreamRequest, schema: str) -> None:
    """That a schema the user gave is the table's."""
    given = parse_schema(request.schema) if request.schema is not None else None
    if given is None or not given.fields:
        return
    read = parse_schema(schema)
    if [(f.name, f.type) for f in given] != [(f.name, f.type) for f in read]:
        raise HeadwaterError("DELTA_READ_SOURCE_SCHEMA_CONFLICT", {"given": given.sql(), "read": read.sql()})


def _check_analysed(request: OpenStreamRequest, schema: str) -> None:
    """That a query which starts reads the columns that it was analysed with: Spark takes them by position."""
    analysed = parse_schema(request.schema) if request.schema is not None else None
    if analysed is None or not analysed.fields:
        return
    read = parse_schema(schema)

    def described(schema: StructType) -> list[tuple[str, DataType]]:
        return [(field.name, as_nullable(field.type)) for field in schema]

    if described(analysed) != described(read) or visible.changed(analysed, read):
        raise HeadwaterError(
            "DELTA_STREAMING_SCHEMA_MISMATCH_ON_RESTART", {"querySchema": analysed.sql(), "tableSchema": read.sql()}
        )


@call(commits=False, in_transaction=False, words="A stream")
def stream_end(request: StreamEndRequest, statement: Statement) -> StreamEndAnswer:
    """Where the next micro-batch ends.

    :raises HeadwaterError: those of offsets, and of commits that the stream cannot read on after.
    """
    _INITIAL.release_idle()
    options = source_options(request.stream.options, statement)
    stream = _stream(request.stream, options, statement)
    until = None if request.until is None else parse_offset(request.until, stream.table_id)
    if request.start is not None:
        start = parse_offset(request.start, stream.table_id)
    else:
        start = stream.begin(_starting_version(request.stream, options.start, statement))
        if options.start.is_latest:
            # The version is that of this moment alone: it is in the checkpoint before any row of it is read.
            return StreamEndAnswer(offset=start.to_json(), size_in_bytes=0, metrics=_metrics(Outstanding()))
    if not request.stream.tracks and begin(request.stream, start.version, None, statement):
        stream = _stream(request.stream, options, statement, tracks=True)
    else:
        _check_start(request.stream, start, options, statement, is_new=request.start is None)
    end = stream.end(start, Limits(request.max_files, request.max_bytes), until, looks_ahead=request.looks_ahead)
    if end is None:
        return StreamEndAnswer(offset=request.start, size_in_bytes=0, metrics=_metrics(Outstanding()))
    left = Outstanding() if end.is_all else stream.outstanding(end.offset, until)
    return StreamEndAnswer(offset=end.offset.to_json(), size_in_bytes=end.size, metrics=_metrics(left))


def _metrics(left: Outstanding) -> dict[str, str]:
    """How far a stream is behind, by the names of the progress that Databricks reports, and more in their style."""
    known = {
        "numBytesOutstanding": left.size,
        "numFilesOutstanding": left.files,
        "numRowsOutstanding": left.rows,
        "numVersionsOutstanding": left.versions,
    }
    return {name: str(value) for name, value in known.items() if value is not None}


@call(commits=False, in_transaction=False, words="A stream")
def stream_files(request: StreamFilesRequest, statement: Statement) -> FileListAnswer:
    """The files of a micro-batch that may hold a row that its filters keep.

    :raises HeadwaterError: as :func:`stream_end`.
    """
    between = _between(request, statement)
    predicates = [decode(tree) for tree in request.filters]
    found = between.stream.files(between.start, between.end, between.told_version, predicates)
    return answer_files(found.definition, found.files, statement, all_files=found.files.num_rows)


@call(commits=False, in_transaction=False, words="A stream")
def stream_condition(request: StreamConditionRequest, statement: Statement) -> StreamCondition:
    """Which rows of its files belong to a micro-batch.

    :raises HeadwaterError: as :func:`stream_end`.
    """
    between = _between(request, statement)
    return StreamCondition(condition=between.stream.condition(between.start, between.end))


@call(commits=False, in_transaction=False, words="A stream")
def stream_changes(request: StreamChangesRequest, statement: Statement) -> ChangesAnswer:
    """The changes of a micro-batch, as groups of files.

    :raises HeadwaterError: as :func:`stream_end`; ``DELTA_MISSING_CHANGE_DATA``.
    """
    between = _between(request, statement)
    found = between.stream.changes(between.start, between.end, between.told_version)
    location = locate(request.stream.table, statement)
    return describe_feed(
        location.path,
        location.store,
        found.definition,
        found.files,
        found.timestamps,
        between.end.version,
        between.form,
        in_order=True,
    )


class _Between(NamedTuple):
    """A micro-batch: after ``start`` to ``end``; the first one has no start, and begins at ``told_version``. ``form``
    is that of its changes.
    """

    stream: TableStream
    start: Offset | None
    end: Offset
    told_version: int | None
    form: ChangesForm


def _between(
    request: StreamFilesRequest | StreamConditionRequest | StreamChangesRequest, statement: Statement
) -> _Between:
    options = source_options(request.stream.options, statement)
    stream = _stream(request.stream, options, statement)
    form = options.changes or ChangesForm()
    end = parse_offset(request.end, stream.table_id)
    if request.start is not None:
        start = parse_offset(request.start, stream.table_id)
        if start != end and not request.stream.tracks:
            last = end.version if end.index >= 0 else end.version - 1
            if begin(request.stream, start.version, max(last, start.version), statement):
                stream = _stream(request.stream, options, statement, tracks=True)
                return _Between(stream, start, end, None, form)
        if start != end:
            _check_start(request.stream, start, options, statement)
        return _Between(stream, start, end, None, form)
    if options.start.is_latest:
        # The first micro-batch of such a stream has no rows: it only notes the version.
        return _Between(stream, end, end, None, form)
    return _Between(stream, None, end, _starting_version(request.stream, options.start, statement), form)


@call(commits=False, in_transaction=False, words="A stream")
def stream_committed(request: StreamCommittedRequest, statement: Statement) -> None:
    """Notes what a commit changed once all before it is read, where the stream has a schema log.

    :raises HeadwaterError: ``DELTA_STREAMING_METADATA_EVOLUTION``, which ends the stream on purpose.
    """
    options = source_options(request.stream.options, statement)
    stream = _stream(request.stream, options, statement, tracks=True)
    end = parse_offset(request.end, stream.table_id)
    if end.index in (DEFINITION_CHANGE, AFTER_DEFINITION_CHANGE):
        change = stream.change_at(end.version)
        if change is not None:
            evolve(request.stream, change, statement)


def _stream(table: StreamedTable, options: SourceOptions, statement: Statement, *, tracks: bool = False) -> TableStream:
    location = locate(table.table, statement)
    return TableStream(
        location.path,
        location.store,
        definition_of(table),
        options.reading,
        partial(open_snapshot, table.table, statement),
        _COMMITS,
        _INITIAL,
        tracks=tracks or table.tracks,
    )


def _check_start(
    table: StreamedTable, start: Offset, options: SourceOptions, statement: Statement, *, is_new: bool = False
) -> None:
    """That a stream can read on, with what it reads with, from where it was: once a start, where that is older.

    :param is_new: whether it has read nothing yet.
    :raises HeadwaterError: those of :func:`check_change` and :func:`check_mapping`;
        ``DELTA_STREAMING_CHECK_COLUMN_MAPPING_NO_SNAPSHOT``.
    """
    reading, version = definition_of(table), start.version
    rules = options.reading.rules
    # Before the files of a version, what the stream has written are rows of the version before.
    read = version - 1 if start.index < 0 < version and not (start.is_initial or is_new) else version
    key = (table.checkpoint, reading.metadata.id, table.version)
    if table.tracks or rules.at_start or read >= table.version or key in _COMPARED:
        return
    mapped = reading.mapping_mode != "none"
    try:
        before = open_snapshot(table.table, statement, read).metadata if read < version and mapped else None
        then = open_snapshot(table.table, statement, version).metadata if version < table.version else None
    except HeadwaterError:
        if mapped and not rules.renames_and_drops:
            raise HeadwaterError("DELTA_STREAMING_CHECK_COLUMN_MAPPING_NO_SNAPSHOT", {"version": read}) from None
        before = then = None  # without the checkpoint before it, a version may still have its commit
    if before is not None:
        check_mapping(reading, before, rules)
    if then is not None:
        check_change(reading, then, version, rules, starting_options=options.start.is_told)
    _COMPARED[key] = None


def _starting_version(table: StreamedTable, start: Start, statement: Statement) -> int | None:
    """The version whose changes a new stream begins with; None if it begins with the newest snapshot.

    :raises HeadwaterError: ``DELTA_VERSION_NOT_FOUND``, ``DELTA_TIMESTAMP_INVALID`` and those of a time out of range.
    """
    if not start.is_told:
        return None
    if start.is_latest:
        return table.version + 1
    snapshot = open_snapshot(table.table, statement)
    listing = list_log(snapshot.table_path, snapshot.store)
    beyond = CHANGES_OUT_OF_RANGE.of(statement)
    if start.version is not None:
        earliest = min(listing.commits, default=snapshot.version)
        if start.version < earliest or (start.version > snapshot.version and not beyond):
            raise HeadwaterError(
                "DELTA_VERSION_NOT_FOUND",
                {"userVersion": start.version, "earliest": earliest, "latest": snapshot.version},
            )
        return start.version
    times = CommitTimes(listing, snapshot.metadata, snapshot.store, snapshot.version)
    bound = Bound(timestamp=table.starting_micros)
    versions = resolve(bound, None, times, snapshot.version, may_be_after_latest=beyond)
    return snapshot.version + 1 if versions is None else versions.first
