"""Messages of what goes wrong: refusals, failed jobs, commits whose process died."""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.bridge.messages import Answer, Int, Request
from headwater.bridge.messages.define import CreatedTable


class MissingPathRequest(Request, kw_only=True):
    """Refuses ``format("delta")`` without a path."""


class InvalidVersionRequest(Request, kw_only=True):
    """Refuses a version to travel to that is no number."""

    version: str


class InvalidTimestampRequest(Request, kw_only=True):
    """Refuses a time to travel to that is no timestamp."""

    timestamp: str


class TwoVersionsRequest(Request, kw_only=True):
    """Refuses a read that names both a version and a time."""


class OldVersionRequest(Request, kw_only=True):
    """Refuses a change of an older version."""

    table: str


class UnsupportedPredicateRequest(Request, kw_only=True):
    """Refuses an overwrite by a predicate that is not a plain one: with a subquery, or not ``deterministic``."""

    predicate: str
    deterministic: bool


class NotATableRequest(Request, kw_only=True):
    """Refuses a change of a view's rows.

    :param statement: DELETE, UPDATE or MERGE.
    :param name: the view.
    :param kind: why: it is no temporary ``view``, it shows some rows only (``filter``), its ``rows`` are not those of
        one table, it has ``columns`` that the table has no more, or the statement assigns to a ``computed`` column or
        asks for the ``evolution`` of its columns.
    :param column: the computed column, as SQL.
    """

    statement: str
    name: str
    kind: str = "view"
    column: str | None = None


class AssignedTwiceRequest(Request, kw_only=True):
    """Refuses two assignments to one column, or to a struct and to a field of it.

    :param columns: the two, as SQL.
    :param insert: whether an INSERT clause of a MERGE has them.
    """

    columns: list[str]
    insert: bool


class TruncatePartitionRequest(Request, kw_only=True):
    """Refuses TRUNCATE TABLE … PARTITION.

    :param name: the table.
    :param partition: the values of the partition's columns.
    """

    name: str
    partition: dict[str, str]


class NotOfOneRowRequest(Request, kw_only=True):
    """Refuses an aggregate, window function or generator where a value of one row is wanted."""

    expression: str


class PathOperationRequest(Request, kw_only=True):
    """Refuses a statement about an entry of the catalog, on a table that is only a path."""

    table: str
    operation: str


class NothingAtPathRequest(Request, kw_only=True):
    """Refuses a statement about the table at a path where there is nothing.

    :param command: its words, such as ``VACUUM``.
    :param quoted: whether it has the path in quotes, not as ``delta.`/path` ``.
    """

    table: str
    command: str
    quoted: bool


class UnresolvedInMergeRequest(Request, kw_only=True):
    """Refuses a name in a MERGE that no column has which its clause can see.

    :param clause: ``on``, ``matched``, ``not_matched`` or ``not_matched_by_source``.
    :param part: what has the name: the search condition, or the condition or clause of an action.
    :param name: as SQL.
    :param columns: those that can be seen, as SQL.
    :param is_of_other_side: whether the source or the target, which cannot be seen, has the name.
    """

    clause: str
    part: str
    name: str
    columns: list[str]
    is_of_other_side: bool


class InTransactionRequest(Request, kw_only=True):
    """Asks whether a command of Spark's own, by the name of its plan, may be part of a transaction over several
    statements.
    """

    command: str


class NotDeltaRequest(Request, kw_only=True):
    """Refuses a statement of Delta tables on another table."""

    name: str
    command: str


class NotClonedRequest(Request, kw_only=True):
    """Refuses CLONE of what is no table that can be cloned.

    :param format: what it is.
    """

    name: str
    format: str


class InsertIntoDirectoryRequest(Request, kw_only=True):
    """Refuses INSERT OVERWRITE DIRECTORY; ``path`` is a URI."""

    path: str | None = None


class NotConvertedRequest(Request, kw_only=True):
    """Refuses CONVERT TO DELTA of what is no table with files of its own.

    :param format: what it is.
    """

    name: str
    format: str


class StoreCause(Request, kw_only=True):
    """A failure of a store, or one of its causes.

    :param class_name: its Java class.
    :param status: the status of HTTP, where it was one.
    """

    class_name: str = msgspec.field(name="class")
    message: str | None = None
    status: Int | None = None


class NoFileSystemRequest(Request, kw_only=True):
    """Refuses a path that Hadoop has no working file system for; ``causes``, the outermost first."""

    table: str
    causes: list[StoreCause]


class ReplaceOtherFormatRequest(Request, kw_only=True):
    """Refuses REPLACE TABLE … USING delta of a table of another format."""

    name: str
    provider: str


class NotParsedRequest(Request, kw_only=True):
    """A text that Spark's parser refused; the handler refuses it in its own words where it knows the statement.
    Its answer is what Spark's parser takes in place of a script; None where that would be the same."""

    text: str


class JobCause(Request, kw_only=True):
    """A failure of a job, or one of its causes.

    :param class_name: its Java class.
    :param at: the classes of its stack's frames, the innermost first.
    :param condition: its error condition, where it is an error of Spark's; ``parameters``: that condition's.
    """

    class_name: str = msgspec.field(name="class")
    message: str | None = None
    at: list[str] = []
    condition: str | None = None
    parameters: dict[str, str | None] = {}


class TableRead(Request, kw_only=True):
    """A table that a failed job read, and the version."""

    path: str
    version: int


class ExplainFailureRequest(Request, kw_only=True):
    """Asks what a failed job means; ``causes``, the outermost first. The answer is an error, or None."""

    causes: list[JobCause]
    tables: list[TableRead]


class BegunCommit(Answer, kw_only=True):
    """A commit that is about to be made.

    :param table: the table's path.
    :param txn_id: the transaction's id, which the commit carries.
    :param path: the commit's file.
    :param counts: as of ``CommitAnswer``: what the statement answers once it is made.
    :param rows: the same.
    :param created: the tables that the session catalog is to have entries of once it is made.
    """

    table: str
    version: int
    txn_id: str
    path: str
    counts: list[int] | None = None
    rows: list[dict[str, Any]] | None = None
    created: list[CreatedTable] | None = None


class RecoverCommitRequest(Request, kw_only=True):
    """Asks whether a commit is in the log whose process died before it answered."""

    commit: BegunCommit


class FinishMaintenanceRequest(Request, kw_only=True):
    """Waits for post-commit maintenance before the JVM ends. The answer is ``bool``: whether all of it is done."""
