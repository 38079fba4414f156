"""Messages of a handler's calls back to Spark's side: write jobs, scans of some files, facts of plans.

Each call back takes one message of this process (:class:`Answer` is its base) and returns one of Spark's side
(:class:`Request`), or a number. Plans and expressions are numbers, as in :mod:`headwater.bridge.messages.change`. A
list of files has rows as of :class:`headwater.bridge.messages.read.FileListAnswer`.
"""

from __future__ import annotations

from typing import Annotated, Any

from headwater.bridge.messages import WRITTEN_ALREADY, Answer, Int, Request
from headwater.bridge.messages.define import TableConstraint

FileRows = list[list[str | int | None]]


class SmallJob(Answer, kw_only=True):
    """Spark's settings for a job whose sources have at most ``bytes`` by Spark's estimate, and whose plan has no node
    that handles more than ``rows``.
    """

    bytes: int
    rows: int
    settings: dict[str, str]


class WriteSpecification(Answer, kw_only=True):
    """A write job. The answer is :class:`WrittenRows`.

    :param path: the table's directory.
    :param query: the rows, as SQL.
    :param schema: the columns as the files have them; without columns, the query runs and nothing is written.
    :param partition_by: the names of the partition columns, as the files have them.
    :param partitions_in_files: the partition columns that the files contain as well, after their other columns.
    :param statistics: the paths of the leaf columns whose statistics are read from the files' footers.
    :param settings: Spark's settings of a job that is not small.
    :param options: options of the Parquet writer.
    :param tracked: whether each row says what it replaces, in columns after those of ``schema``.
    :param change_column: the partition column that is true in rows of change data; None without change data. If rows
        are staged, it is a text: ``true``, ``false``, or ``staged``.
    """

    path: str
    query: str
    schema: str
    partition_by: list[str]
    partitions_in_files: list[str]
    statistics: list[list[str]]
    small_job: SmallJob
    settings: dict[str, str]
    options: dict[str, str]
    tracked: bool = False
    change_column: str | None = None


class WrittenFile(Request, kw_only=True):
    """A data file, as the task that wrote it describes it.

    :param path: below the table, directory names escaped.
    :param partition: the texts of its partition values by column, change column left out.
    :param statistics: minimum, maximum and number of nulls of each leaf column asked for, None where unknown.
        Dates are days, timestamps microseconds, decimals text, infinite numbers text.
    """

    path: str
    size: int
    modification_time: int
    partition: dict[str, str | None]
    rows: int
    statistics: list[list[str | int | float | None]]


class TrackedRows(Request, kw_only=True):
    """What the rows of a tracked query replace.

    :param positions: the replaced positions by file number; a 64-bit Roaring bitmap each, as is ``source``.
    :param source: the numbers of the source rows that found a match.
    :param actions: the number of rows by the action's number.
    :param repeated: how many positions came more than once.
    """

    positions: dict[Int, bytes]
    source: bytes
    actions: dict[Int, int]
    repeated: int


class WrittenRows(Request, kw_only=True):
    """The result of a write job.

    :param counted: the number of rows that met ``count_row()``.
    :param tracked: None for a query that is not tracked.
    """

    files: list[Annotated[WrittenFile, WRITTEN_ALREADY]]
    counted: int
    tracked: TrackedRows | None


class StagedFiles(Answer, kw_only=True):
    """Files that a write job of the statement has staged: a relation is to read them. The answer is a plan.

    :param path: the table's directory.
    :param table_schema: the table's columns as the log has them.
    :param schema: the columns of the relation: the table's, and those that the files have beside them.
    :param files: as of :class:`headwater.bridge.messages.read.FileListAnswer`.
    :param size_in_bytes: the size of all files.
    """

    path: str
    table_schema: str
    schema: str
    partition_columns: list[str]
    column_mapping_mode: str
    files: FileRows
    size_in_bytes: int


class PinnedVersion(Answer, kw_only=True):
    """A version of a table, which a statement reads wherever it reads the table; fields as of ``TableDescription``.

    :param rows: of its files, deleted ones included, if the log says it and the files are few bytes.
    """

    version: int
    table_id: str
    size_in_bytes: int
    rows: int | None
    has_deletion_vectors: bool
    table_schema: str
    partition_columns: list[str]
    column_mapping_mode: str
    row_tracking_columns: list[str]


class Restriction(Answer, kw_only=True):
    """Restricts a table's relation to some files of a version, and pins the version. The answer is a plan.

    :param listed_bytes: the size of the files.
    :param lists_deletion_vectors: whether any of them has deleted rows.
    :param late_columns: the columns that are read only for rows that need them.
    :param rows_per_late_value: once more than one row in this many needs them, a task reads them for all rows.
    :param file_column: the name of the added column with the number of a row's file, its place in the list.
    :param row_column: the name of the added column with a row's position in its file.
    :param row_tracking_columns: the names of the added columns with a row's id and commit version; none where the
        version does not have row tracking enabled.
    :param values_prune: whether the keys of joins and the values of subqueries may leave out more files.
    :param settings: Spark's settings of the scan that the session has not.
    """

    pinned: PinnedVersion
    listed_bytes: int
    lists_deletion_vectors: bool
    late_columns: list[str]
    rows_per_late_value: Int
    file_column: str
    row_column: str
    row_tracking_columns: list[str]
    values_prune: bool
    settings: dict[str, str]
    files: FileRows


class FilesOfVersion(Answer, kw_only=True):
    """Adds a relation over some files of a version. The answer is a plan.

    :param lists_deletion_vectors: whether rows of one of the files are left out.
    :param row_tracking_columns: as of :class:`Restriction`.
    :param tasks: how many files each task reads, whole and one after another, in the order of the list; empty to leave
        the packing of files into tasks to Spark.
    :param file_column: the name of an added column, as of :class:`Restriction`; with ``row_column``, and without
        ``tasks`` and ``row_tracking_columns``.
    :param skips_none: whether a file that is missing or damaged is an error even if the session ignores such files.
    :param settings: as of :class:`Restriction`; with ``file_column``.
    """

    table: str
    version: int
    lists_deletion_vectors: bool
    row_tracking_columns: list[str]
    tasks: list[int]
    settings: dict[str, str]
    files: FileRows
    file_column: str | None = None
    row_column: str | None = None
    skips_none: bool = False


class ParquetFilesQuestion(Answer, kw_only=True):
    """Asks what a plan reads. The answer is :class:`ParquetFiles`, or None unless the plan only reads all rows of at
    most ``most`` Parquet files.

    :param expressions: expressions over the plan, which may be columns of the files.
    """

    plan: Int
    expressions: list[Int]
    most: Int


class ParquetFile(Request, kw_only=True):
    """A file that a plan reads."""

    path: str
    size: int


class ParquetFiles(Request, kw_only=True):
    """What a plan reads.

    :param columns: the files' column that each of the expressions is; None for other expressions.
    """

    files: list[ParquetFile]
    columns: list[str | None]


class PartitionsQuestion(Answer, kw_only=True):
    """Asks in which partitions a condition is true. The answer is :class:`MatchingPartitions`.

    :param plan: the table's relation.
    :param partitions: the texts of the partition values, in the order of the partition columns.
    """

    plan: Int
    condition: Int
    partitions: list[list[str | None]]


class MatchingPartitions(Request, kw_only=True):
    """For each of the partitions, whether the condition is true; None if it needs more than partition columns."""

    matches: list[bool] | None


class SparkRun(Request, kw_only=True):
    """When Spark ran a statement, in milliseconds since the epoch.

    :param ended: None if it still runs.
    """

    began: int
    ended: int | None


class NotedKeys(Request, kw_only=True):
    """The distinct keys that ``note_keys(…)`` noted in the last query that has it; None if they are too many.

    :param keys: whole numbers (days of dates, microseconds of timestamps), and texts.
    """

    keys: list[list[str | int]] | None


class CheckedCondition(Request, kw_only=True):
    """A condition over a schema, as Spark resolves it.

    :param predicate: JSON of :mod:`headwater.pruning.predicates`.
    :param columns: the top-level columns it refers to; None if it depends on more than the values of one row.
    """

    predicate: dict[str, Any]
    columns: list[str] | None


class FootersQuestion(Answer, kw_only=True):
    """Has tasks read the footers of Parquet files. The answer is :class:`Footers`.

    :param table: the folder that they lie in; empty for files that are read with the session's configuration alone.
    :param sizes: of each file, in bytes.
    :param columns: the paths of the leaf columns whose statistics are wanted, in any case; None for the first ``most``
        leaves of each file, all if negative, of which arrays and maps are some.
    """

    table: str
    paths: list[str]
    sizes: list[int]
    columns: list[list[str]] | None
    most: Int


class FileFooter(Request, kw_only=True):
    """What the footer of a file says.

    :param schema: the number of its columns among those of the answer.
    :param statistics: as of :class:`WrittenFile`; None also where a footer's value is not surely one of the column's.
    :param problem: why the file cannot be read; its other members mean nothing then.
    """

    schema: Int
    rows: int
    statistics: list[list[str | int | float | None]]
    problem: str | None = None


class Footers(Request, kw_only=True):
    """The footers of files, in order. ``schemas``: the distinct columns of files as Spark reads them, JSON."""

    schemas: list[str]
    files: list[FileFooter]


class FileCopy(Answer, kw_only=True):
    """A file that is to be copied, as a store spells both paths.

    :param size: what it must have, in bytes; None if that is not known.
    """

    source: str
    target: str
    size: int | None


class CopySpecification(Answer, kw_only=True):
    """Has tasks copy files. The answer is :class:`CopiedFiles`.

    :param source: the table that they are copied from.
    :param target: the table that they are copied into.
    :param renames: whether a file gets its name when it is complete; else the store shows it only then.
    :param tasks: what each task copies.
    """

    source: str
    target: str
    renames: bool
    tasks: list[list[FileCopy]]


class CopiedFile(Request, kw_only=True):
    """What became of a file: its size in bytes, None if it is gone; whether it was copied now, and was not before."""

    size: int | None = None
    copied: bool


class CopiedFiles(Request, kw_only=True):
    """The files of all tasks, in order."""

    files: list[CopiedFile]


class NamedTable(Request, kw_only=True):
    """A table by its name.

    :param name: the parts of its full name: catalog, namespace and name.
    :param schema: its columns; None if there is no Delta table of this name.
    :param keys: its primary key and foreign keys.
    :param path: where it is; None as for ``schema``.
    """

    name: list[str]
    schema: str | None = None
    keys: list[TableConstraint] = []
    path: str | None = None
