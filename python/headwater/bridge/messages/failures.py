"""Messages about failures: failed jobs, file systems that do not work, commits whose process died."""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.bridge.messages import Answer, Int, Request
from headwater.bridge.messages.define import CreatedTable


class InTransactionRequest(Request, kw_only=True):
    """Asks whether a command of Spark's own, by the name of its plan, may be part of a transaction over several
    statements.
    """

    command: str


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


class NotParsedRequest(Request, kw_only=True):
    """A text that Spark's parser refused; the handler refuses it in its own words where it knows the statement.
    Its answer is what Spark's parser takes in place of a script; None if that would be the same."""

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
