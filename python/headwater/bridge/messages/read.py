"""Messages of reading: tables, scans, aggregates, the change feed, DESCRIBE."""

from __future__ import annotations

from typing import Any

from headwater.bridge.messages import Answer, Int, Options, PassedOn, Request
from headwater.bridge.messages.define import ParsedStatementRequest, TableConstraint


class LoadTableRequest(Request, kw_only=True):
    """Opens a table.

    :param table: its path; it may end in a version, as ``/path@v3``.
    :param name: its name in the catalog, for errors.
    :param version: the version to travel to.
    :param timestamp: the time to travel to: microseconds since the epoch, as text.
    :param may_be_later: whether the time may be after the newest version, which is then the one.
    :param pinned: whether ``version`` is the one that a statement reads the table at, rather than one a user named.
    """

    table: str
    name: str | None = None
    version: int | None = None
    timestamp: str | None = None
    may_be_later: bool = False
    pinned: bool = False


class RefreshTableRequest(Request, kw_only=True):
    """One table of a :class:`RefreshTablesRequest`.

    :param version: the version that the query names; None for the newest.
    """

    table: str
    version: int | None = None


class RefreshTablesRequest(Request, kw_only=True):
    """Opens the versions of tables that a query reads. The answer is a ``PinnedVersion`` for each, in their order."""

    requests: list[RefreshTableRequest]


class CheckColumnsRequest(Request, kw_only=True):
    """Asks whether a query can read a table whose definition has changed since it was analysed.

    :param then: the columns of the table that the query was analysed with, as its log has them.
    :param now: the columns of the table that is there now, which may be another table.
    """

    table: str
    then: str
    now: str


class TableExistsRequest(Request, kw_only=True):
    """Asks whether a Delta table is at a path. The answer is ``bool``."""

    table: str


class TableDescription(Answer, kw_only=True):
    """What Spark must know of a version of a table.

    :param path: where it is, without a version.
    :param schema: the columns as queries see them.
    :param table_schema: the columns as the log has them.
    :param clustering_columns: the paths of the columns it is clustered by; None if it is not clustered.
    :param configuration: the properties as the log has them.
    :param properties: the same with the protocol's versions and features, as SHOW TBLPROPERTIES shows them.
    :param column_mapping_mode: ``none``, ``id`` or ``name``.
    :param has_deletion_vectors: whether any file has deleted rows.
    :param size_in_bytes: the size of all files.
    :param features: the names of the table features in force.
    :param time_travel: whether the request named a version or time.
    :param row_tracking_columns: the names, in data files, of the columns for row ids and row commit versions; none
        unless row tracking is enabled.
    :param keys: the primary key and the foreign keys.
    """

    path: str
    version: int
    table_id: str
    schema: str
    table_schema: str
    partition_columns: list[str]
    clustering_columns: list[list[str]] | None
    description: str | None
    configuration: dict[str, str]
    properties: dict[str, str]
    column_mapping_mode: str
    has_deletion_vectors: bool
    size_in_bytes: int
    features: list[str]
    time_travel: bool
    row_tracking_columns: list[str]
    keys: list[TableConstraint]


class ScanOrder(Request, kw_only=True):
    """The first column that a query with a LIMIT sorts by.

    :param column: a top-level column.
    :param descending: whether the largest values come first.
    :param nulls_first: whether nulls come before all values.
    """

    column: str
    descending: bool
    nulls_first: bool


class ScanRequest(Request, kw_only=True):
    """Asks which files of a version a scan must read: one scan of a :class:`ScansRequest`.

    :param table_id: the id the table had when the query was analysed.
    :param filters: the scan's conjuncts, JSON of :mod:`headwater.pruning.predicates`.
    :param columns: top-level columns whose statistics Spark estimates with; None if it estimates sizes only.
    :param limit: how many rows the query takes of those that meet the filters; None for all.
    :param order: what it sorts them by before; None where any of them do.
    """

    table: str
    version: int
    table_id: str | None = None
    filters: list[dict[str, Any]]
    columns: list[str] | None = None
    limit: Int | None = None
    order: ScanOrder | None = None


class ScansRequest(Request, kw_only=True):
    """Asks which files the scans of a query must read. The answer is a :class:`FileListAnswer` for each, in their
    order.
    """

    requests: list[ScanRequest]


class ColumnStatistics(Answer, kw_only=True):
    """Bounds of a column over the files of a scan, as Spark's catalog spells values, and how many values are null."""

    name: str
    min: str | None = None
    max: str | None = None
    nulls: int | None = None


class ScanStatistics(Answer, kw_only=True):
    """What the log knows of the files of a scan. These are estimates: deletion vectors make bounds and nulls wider.

    :param rows: how many rows are left of them after deletion vectors.
    """

    rows: int
    columns: list[ColumnStatistics]


class FileListAnswer(Answer, kw_only=True):
    """The files of a scan: a list of rows, or the path of an Arrow stream, which the reader deletes.

    A row is ``[path, size, modification time, deletion vector or null, partition value or null, ...]``. The path is
    absolute and decoded, the partition values are in the order of the table's partition columns. A deletion vector is
    ``inline <base64>`` or ``<offset> <size> <path>``. If the version has row tracking enabled, a row ends with its
    ``baseRowId`` and ``defaultRowCommitVersion``. The Arrow stream has the same columns.

    :param all_files: how many files there are to choose from, such as those of the version.
    :param statistics: where they were asked for, and each file has a row count.
    :param index: the name of the index that chose among them.
    """

    files: list[list[str | int | None]] | None = None
    arrow: str | None = None
    all_files: int
    statistics: ScanStatistics | None = None
    index: str | None = None


class AggregateOutput(Request, kw_only=True):
    """A column of an aggregate's result: a grouping column, or a function.

    :param group: the partition column it is.
    :param kind: the function: ``count``, ``min`` or ``max``.
    :param column: what the function is over; None for ``count(*)``.
    """

    group: str | None = None
    kind: str | None = None
    column: str | None = None


class AggregateRequest(Request, kw_only=True):
    """Asks for an aggregate over a version, where the log holds its result.

    :param groups: the partition columns to group by.
    :param filters: the conjuncts over partition columns, JSON of :mod:`headwater.pruning.predicates`.
    """

    table: str
    version: int
    table_id: str | None = None
    groups: list[str]
    outputs: list[AggregateOutput]
    filters: list[dict[str, Any]]


class AggregateAnswer(Answer, kw_only=True):
    """The rows of an aggregate, values as texts in the order of the outputs."""

    rows: list[list[str | None]]


class ChangesBound(Request, kw_only=True):
    """One end of a range of changes.

    :param name: ``startingVersion``, ``startingTimestamp``, ``endingVersion`` or ``endingTimestamp``.
    :param value: as the user wrote it; None for SQL's null.
    :param micros: the same as microseconds since the epoch, as text, where it is a time.
    :param inclusive: whether the bound itself is in the range.
    """

    name: str
    value: str | None = None
    micros: str | None = None
    inclusive: bool = True


class ChangesForm(Request, kw_only=True):
    """How changes are read: as the change data feed, or as a changelog.

    :param keys: the key columns by which a changelog pairs preimages with postimages; None if none were given.
    :param debezium: whether the changelog is read as Debezium's events, whose keys are the key columns.
    :param tombstones: whether each event of a deletion is followed by its key with a null value.
    """

    changelog: bool = False
    keys: list[str] | None = None
    debezium: bool = False
    tombstones: bool = True


class TableChangesRequest(Request, kw_only=True):
    """Asks for the changes of a table.

    :param time_travel: whether the table was named with a version or time, which no change feed has.
    :param deduplication_mode: as ``spark.read.changes`` has it; None if it was not said.
    """

    table: str
    bounds: list[ChangesBound]
    form: ChangesForm
    time_travel: bool = False
    deduplication_mode: str | None = None


class ChangeGroup(Answer, kw_only=True):
    """Files of a range of changes that one relation reads.

    :param partition_columns: columns that are constants of a file: the table's partition columns, then those that say
        what changed and when.
    :param files: as of :class:`FileListAnswer`. A row's deletion vector may be ``["rows to read", "rows not to"]``, a
        JSON list of two deletion vectors.
    :param size_in_bytes: the size of all files.
    """

    partition_columns: list[str]
    files: list[list[str | int | None]]
    size_in_bytes: int
    has_deletion_vectors: bool


class ChangesAnswer(Answer, kw_only=True):
    """The changes of a range of versions.

    :param version: the last of them.
    :param schema: the table's columns and those that say what changed and when.
    :param file_schema: the columns that a relation of a group has.
    :param position_column: the one of them that is a row's position in its file; None without such a column.
    :param query: the rows with ``schema``, as SQL over the groups' relations; None if they are those of the groups.
    :param table_schema: the table's columns as the log has them.
    :param most_files_checked: a scan of more files begins without ``check_change_files``.
    """

    path: str
    table_id: str
    version: int
    schema: str
    file_schema: str
    position_column: str | None = None
    query: str | None = None
    table_schema: str
    column_mapping_mode: str
    most_files_checked: Int
    groups: list[ChangeGroup]


class FunctionArgument(Request, kw_only=True):
    """An argument of a table function.

    :param type: its type, as SQL.
    :param constant: whether it has a value before any row is read; only then ``value`` and ``micros`` are known.
    :param sql: as the user wrote it.
    :param value: as text; None for SQL's null.
    :param micros: microseconds since the epoch, as text, where it is a time.
    :param elements: the elements of an array as texts.
    """

    type: str
    constant: bool
    sql: str
    value: str | None = None
    micros: str | None = None
    elements: list[str] | None = None


class BoundsOfCallRequest(Request, kw_only=True):
    """Asks what ``table_changes(…)``, ``table_changelog(…)``, ``table_debezium(…)`` or one of them by path is called
    with.
    """

    function: str
    arguments: list[FunctionArgument]


class CallBounds(Answer, kw_only=True):
    """The table, by name or path, the range and the form that a call of a table function names."""

    table: str
    bounds: list[ChangesBound]
    form: ChangesForm


class AsksForChangesRequest(Request, kw_only=True):
    """Asks which form of changes a reader's options ask for. The answer is a :class:`ChangesForm`, or None."""

    options: Options


class CheckReadOptionsRequest(Request, kw_only=True):
    """Refuses misspelt options of a query.

    :param options: the reader's options; those that are None mean nothing.
    :param is_sql: whether they are those of SQL's WITH.
    """

    options: Options
    is_sql: bool = False


class ChangeFile(Request, kw_only=True):
    """A file of a range of changes.

    :param version: the version that changed it.
    :param rows: its deletion vectors, as of :class:`ChangeGroup`.
    """

    version: int
    path: str
    rows: str | None = None


class CheckChangeFilesRequest(Request, kw_only=True):
    """Has the files of a scan of changes looked for before any task reads them."""

    table: str
    files: list[ChangeFile]


class HistoryArguments(PassedOn, kw_only=True):
    """What DESCRIBE HISTORY is asked beside its table: at most ``limit`` commits, all where it is None."""

    limit: int | None = None


class DetailArguments(PassedOn, kw_only=True):
    """What DESCRIBE DETAIL is asked beside its table: nothing."""


class DescribeHistoryRequest(ParsedStatementRequest, kw_only=True):
    """DESCRIBE HISTORY."""

    arguments: HistoryArguments


class DescribeDetailRequest(ParsedStatementRequest, kw_only=True):
    """DESCRIBE DETAIL."""

    arguments: DetailArguments


class DescribeOtherDetailRequest(Request, kw_only=True):
    """DESCRIBE DETAIL of what is no Delta table: what the metastore's entry says, or a path alone.

    ``created``: milliseconds since the epoch, UTC.
    """

    name: str | None = None
    format: str | None = None
    description: str | None = None
    location: str | None = None
    created: int | None = None
    partition_columns: list[str] | None = None
    properties: dict[str, str]
