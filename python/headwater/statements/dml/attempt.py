"""One attempt at a statement, and the next after a conflict with another writer.

Owns what an attempt works on: a snapshot that still has the columns the statement was analysed with, a transaction on
it, the table as it will be. Promise: an attempt that ends in an error has committed nothing, and the files it wrote are
deleted where possible.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.define import CommitAnswer
from headwater.bridge.statement import Statement
from headwater.definition.changes import evolved
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.properties import Property
from headwater.protocol.row_tracking import HiddenColumns
from headwater.protocol.types import StructField, StructType, parse_schema
from headwater.schema.visible import columns_changed
from headwater.statements.dml.request import DmlRequest
from headwater.statements.files.distribution import Gathering, gathering
from headwater.statements.files.judging import Judging, Violations
from headwater.statements.files.rows import Target
from headwater.statements.reads.loading import check_same_columns, pinned_version
from headwater.statements.running.committing import skip_if_done, transaction
from headwater.statements.running.opening import open_same
from headwater.statements.running.rerunning import run_again_after_losses, run_again_after_lost_rows
from headwater.transaction import Transaction

T = TypeVar("T")


@dataclass
class Attempt:
    """What one attempt of a statement works on."""

    request: DmlRequest
    statement: Statement
    snapshot: Snapshot
    txn: Transaction
    started: float
    #: What became of rows that violate expectations.
    violations: Violations = field(default_factory=Violations)
    #: Whether the rows that expectations turn away are not among those of the statement.
    is_judged: bool = False

    @property
    def judging(self) -> Judging | None:
        """The table's expectations that count rows of the statement; None if it has no such expectations."""
        found = Judging.of(self.txn.definition)
        return found.without_turning_away if found is not None and self.is_judged else found

    @property
    def target(self) -> Target:
        """The table as it will be."""
        return Target(self.snapshot.table_path, self.txn.definition)

    def enabled(self, switch: Property[bool]) -> bool:
        """Whether a table property is on."""
        return self.txn.definition.get(switch)

    @property
    def writes_vectors(self) -> bool:
        """Whether replaced rows are marked in deletion vectors, instead of files being rewritten."""
        return self.enabled(properties.DELETION_VECTORS)

    @property
    def writes_changes(self) -> bool:
        """Whether the table has a change data feed."""
        return self.enabled(properties.CHANGE_DATA_FEED)

    @property
    def gathered(self) -> Gathering | None:
        """How rows are gathered before they are written, where optimized writes are asked for."""
        return gathering(self.statement, self.txn.definition, self.request.options)

    @property
    def hidden_columns(self) -> HiddenColumns | None:
        """The columns by which rows that are written again keep their ids; None without row tracking."""
        return self.snapshot.definition.hidden_columns

    def milliseconds(self) -> int:
        """How long the attempt has taken."""
        return int((time.monotonic() - self.started) * 1000)


def begin(request: DmlRequest, statement: Statement) -> Attempt:
    """An attempt on the newest snapshot. From here on, the statement sees the target at this version, also where its
    source or a subquery reads it; and each other table at one version, however many jobs read it.

    :raises HeadwaterError: those of opening a table; ``DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS``;
        ``DELTA_UNSUPPORTED_FEATURES_FOR_WRITE``; ``DELTA_CANNOT_MODIFY_APPEND_ONLY``.
    """
    started = time.monotonic()
    snapshot = open_same(request.message, statement)
    analysed = check_same_columns(request.message, request.message.version, statement, snapshot).schema
    _check_no_new_columns(analysed, snapshot)
    txn = transaction(request.message.table, statement, snapshot)
    wanted = parse_schema(request.message.table_schema)
    if wanted != analysed:
        txn.redefine(evolved(snapshot.definition, _with_newer(wanted, analysed, snapshot.schema)))
    statement.pin(request.message.target, pinned_version(snapshot))
    return Attempt(request, statement, snapshot, txn, started)


def _with_newer(wanted: StructType, analysed: StructType, now: StructType) -> StructType:
    """The columns a statement wants; those it does not change as the table has them now, which another writer may have
    given identity values or a comment since."""

    def newer(field: StructField) -> StructField:
        return now.find(field.name) or field if analysed.find(field.name) == field else field

    return StructType(tuple(newer(field) for field in wanted))


def _check_no_new_columns(analysed: StructType, snapshot: Snapshot) -> None:
    """Check that the table has the same columns in the same order. A statement that rewrites rows has a value for each
    column it was analysed with, and none for one that was added later.

    :raises HeadwaterError: ``DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS``.
    """
    then, now = ([(field.name, field.type) for field in schema] for schema in (analysed, snapshot.schema))
    if then != now:
        raise columns_changed(snapshot.table_path, analysed, snapshot.schema)


def check_appends_only(attempt: Attempt) -> None:
    """Refuse, before any work, what the commit would refuse.

    :raises HeadwaterError: ``DELTA_CANNOT_MODIFY_APPEND_ONLY``.
    """
    if attempt.enabled(properties.APPEND_ONLY):
        name = attempt.txn.metadata.name or attempt.request.message.name
        raise HeadwaterError("DELTA_CANNOT_MODIFY_APPEND_ONLY", {"tableName": name})


def run(request: DmlRequest, statement: Statement, work: Callable[[Attempt], T]) -> T:
    """Do the work; after a conflict with another writer, or where rows of the cached source were lost, again on a newer
    snapshot (:mod:`headwater.statements.running.rerunning`).
    """
    table = request.message.table

    def attempt() -> T:
        return run_again_after_lost_rows(table, statement, lambda: work(begin(request, statement)))

    return run_again_after_losses(table, statement, attempt)


def unless_done(work: Callable[[Attempt], CommitAnswer], *, counts: int) -> Callable[[Attempt], CommitAnswer]:
    """The work, or none where the table has this version of the application that the session names (``txnAppId``,
    ``txnVersion``): then nothing was affected.

    :param counts: how many counts the statement answers.
    """

    def first(attempt: Attempt) -> CommitAnswer:
        if skip_if_done(attempt.snapshot, attempt.request.options, attempt.statement):
            return CommitAnswer(version=attempt.snapshot.version, skipped=True, counts=[0] * counts)
        return work(attempt)

    return first
