"""Messages of streams: a table as a stream's source, and the micro-batches that a query writes to one.

What a stream knows of its table from its start on is one object, :class:`StreamedTable`. The handler writes it, Spark's
side keeps it and sends it back with each call, so that a handler that was started again knows what the one before knew.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.bridge.messages import Answer, Int, Options, PassedOn, Request
from headwater.bridge.messages.read import ChangesBound, TableDescription


class OpenStreamRequest(Request, kw_only=True):
    """Opens a table as a stream's source.

    :param options: the reader's options.
    :param bounds: those of them that say where the stream begins.
    :param schema: the schema that the user gave; None if none was given.
    :param checkpoint: the source's own directory in the stream's checkpoint; None while the query is analysed.
    """

    table: str
    options: Options
    bounds: list[ChangesBound]
    schema: str | None = None
    checkpoint: str | None = None


class StreamedTable(PassedOn, kw_only=True):
    """What a stream reads, and how, from its start to its end.

    :param version: the table's newest version at the start.
    :param protocol: the actions of that version, and ``metadata``, as the log has them.
    :param options: the reader's options.
    :param checkpoint: as of :class:`OpenStreamRequest`.
    :param starting_micros: the option ``startingTimestamp`` in microseconds since the epoch.
    :param tracks: whether the stream has a schema log, and this is its definition in force.
    """

    table: str
    version: int
    protocol: dict[str, Any]
    metadata: dict[str, Any]
    options: Options
    checkpoint: str | None = None
    starting_micros: int | None = None
    tracks: bool = False


class StreamDescription(Answer, kw_only=True):
    """A table as a stream's source.

    :param table: what the stream reads with.
    :param schema: the columns of the stream's rows.
    :param reads_changes: whether the stream reads the change data feed.
    :param has_conditions: whether ``stream_condition`` is to be called for each micro-batch.
    :param notes_ends: whether ``stream_committed`` is to be called for each micro-batch that is done.
    :param max_files: how many files a micro-batch takes, and ``max_bytes`` how many bytes; None is without limit.
    :param stream: a :class:`StreamedTable`, which Spark's side does not look into.
    """

    table: TableDescription
    schema: str
    reads_changes: bool
    has_conditions: bool = False
    notes_ends: bool
    max_files: int | None = None
    max_bytes: int | None = None
    stream: msgspec.Raw


class StreamEndRequest(Request, kw_only=True):
    """Asks where the next micro-batch ends.

    :param start: the offset it begins after; None for the first.
    :param max_files: the most files to take, and ``max_bytes`` bytes; None is without limit.
    :param until: the offset it does not go beyond.
    :param looks_ahead: whether the answer is only what later requests do not go beyond.
    """

    stream: StreamedTable
    start: str | None = None
    max_files: int | None = None
    max_bytes: int | None = None
    until: str | None = None
    looks_ahead: bool = False


class StreamEndAnswer(Answer, kw_only=True):
    """Where the next micro-batch ends.

    :param offset: its last offset, which is the start where there is nothing to read; None if it has no offset at all.
    :param size_in_bytes: of its files, before filters.
    :param metrics: how far the stream is behind, by the names of the query's progress.
    """

    offset: str | None = None
    size_in_bytes: int
    metrics: dict[str, str]


class StreamFilesRequest(Request, kw_only=True):
    """Asks for the files of a micro-batch. The answer is a file list.

    :param start: the offset it begins after; None for the first.
    :param end: its last offset.
    :param filters: the scan's conjuncts, as of a scan.
    """

    stream: StreamedTable
    start: str | None = None
    end: str
    filters: list[dict[str, Any]]


class StreamConditionRequest(Request, kw_only=True):
    """Asks which rows of the files of a micro-batch belong to it."""

    stream: StreamedTable
    start: str | None = None
    end: str


class StreamCondition(Answer, kw_only=True):
    """The rows of a micro-batch.

    :param condition: what is true of them, as SQL over the stream's columns; None if all rows are read.
    """

    condition: str | None = None


class StreamChangesRequest(Request, kw_only=True):
    """Asks for the changes of a micro-batch, as :class:`StreamFilesRequest` does for its files."""

    stream: StreamedTable
    start: str | None = None
    end: str


class SinkSettings(Request, kw_only=True):
    """What a streaming query says of the table it writes.

    :param mode: Spark's output mode: ``Append``, ``Complete`` or ``Update``.
    :param partition_columns: the columns of ``partitionBy``; none where the table's own are meant.
    :param clustering_columns: the columns of ``clusterBy``; None if the query has none.
    :param options: the writer's options, Spark's own among them.
    """

    table: str
    mode: str
    partition_columns: list[str]
    clustering_columns: list[str] | None = None
    options: Options


class CheckSinkRequest(Request, kw_only=True):
    """Refuses settings that no micro-batch could be written with."""

    sink: SinkSettings


class SinkBatch(Request, kw_only=True):
    """One micro-batch.

    :param query_id: the query's id, which its checkpoint keeps over restarts.
    :param batch_id: the batch's number; a batch that is computed again has the same rows.
    :param schema: the columns of its rows.
    """

    sink: SinkSettings
    query_id: str
    batch_id: int
    schema: str


class PlanBatchRequest(Request, kw_only=True):
    """Asks whether a batch is to be written, and with which columns, before any job runs."""

    batch: SinkBatch


class BatchPlan(Answer, kw_only=True):
    """What becomes of a batch.

    :param skipped: whether the table has it already.
    :param columns: the columns its rows must have; None if they may stay as they are, because there is no table.
    :param version: the version these columns were decided for; None if there is no table.
    :param table_id: the table's id then.
    """

    skipped: bool = False
    columns: str | None = None
    version: int | None = None
    table_id: str | None = None


class WriteBatchRequest(Request, kw_only=True):
    """Writes a batch whose rows have the columns of its :class:`BatchPlan`.

    :param plan: the number of the plan that has the rows.
    :param schema: their columns.
    :param version: as of :class:`BatchPlan`, and ``table_id``.
    :param reads_table: whether the rows are computed from the table itself.
    """

    batch: SinkBatch
    plan: Int
    schema: str
    version: int | None = None
    table_id: str | None = None
    reads_table: bool


class StreamCommittedRequest(Request, kw_only=True):
    """Says that all micro-batches up to an offset are done."""

    stream: StreamedTable
    end: str
