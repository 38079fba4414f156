"""One attempt at a statement, and the next one after a conflict with another writer.

Owns what an attempt works on: a snapshot that still has the columns the statement was analysed with, a transaction on
it, the table as it will be. Promise: an attempt that ends in an error has committed nothing, and the files it wrote are
deleted where possible.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from headwater.bridge.statement import Statement
from headwater.errors import HeadwaterError
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.types import StructField, StructType, parse_schema
from headwater.statements.change.request import DmlRequest
from headwater.statements.committing import transaction
from headwater.statements.opening import locate, open_same, open_snapshot
from headwater.statements.read.scans import check_same_columns
from headwater.statements.write.insert import set_schema
from headwater.statements.write.rows import Target
from headwater.transaction import Transaction
from headwater.transaction.queueing import backoff_seconds, queue_of

_LOG = logging.getLogger(__name__)
#: For so many seconds a statement that lost to another writer runs again.
_RETRY_SECONDS = "spark.headwater.dml.retrySeconds"
_DEFAULT_RETRY_SECONDS = 600
#: Conflicts after which the statement may succeed on a newer snapshot. One that has become impossible, as a column was
#: dropped, is refused when it begins again.
_RETRIED = frozenset(
    {
        "DELTA_CONCURRENT_APPEND",
        "DELTA_CONCURRENT_DELETE_READ",
        "DELTA_CONCURRENT_DELETE_DELETE",
        "DELTA_METADATA_CHANGED",
        "DELTA_PROTOCOL_CHANGED",
    }
)
#: Rows of the cached source were lost with an executor. The next attempt computes and caches them again.
_SOURCE_LOST = "DELTA_MERGE_MATERIALIZE_SOURCE_FAILED_REPEATEDLY"
_SOURCE_ATTEMPTS = 4
#: The most versions a statement lost to that its error names.
_MOST_VERSIONS = 5

T = TypeVar("T")


@dataclass
class Attempt:
    """What one attempt of a statement works on."""

    request: DmlRequest
    statement: Statement
    snapshot: Snapshot
    txn: Transaction
    started: float

    @property
    def target(self) -> Target:
        """The table as it will be."""
        return Target(self.snapshot.table_path, self.txn.protocol, self.txn.metadata)

    def enabled(self, name: str) -> bool:
        """Whether a table property is set to true."""
        return properties.boolean(self.txn.metadata.configuration, name)

    @property
    def writes_vectors(self) -> bool:
        """Whether replaced rows are marked in deletion vectors, instead of files being rewritten."""
        return self.enabled("delta.enableDeletionVectors")

    @property
    def writes_changes(self) -> bool:
        """Whether the table has a change data feed."""
        return self.enabled("delta.enableChangeDataFeed")

    def milliseconds(self) -> int:
        """How long the attempt has taken."""
        return int((time.monotonic() - self.started) * 1000)


def begin(request: DmlRequest, statement: Statement) -> Attempt:
    """An attempt on the newest snapshot.

    :raises HeadwaterError: those of opening a table; ``DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS``;
        ``DELTA_UNSUPPORTED_FEATURES_FOR_WRITE``; ``DELTA_CANNOT_MODIFY_APPEND_ONLY``.
    """
    started = time.monotonic()
    snapshot = open_same(request, statement)
    check_same_columns(request, request.version, statement, snapshot)
    analysed = _analysed(request, statement, snapshot)
    _check_no_new_columns(analysed, snapshot)
    txn = transaction(request.table, statement, snapshot)
    wanted = parse_schema(request.table_schema)
    if wanted != analysed:
        set_schema(txn, _with_newer(wanted, analysed, snapshot.schema))
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
        raise HeadwaterError(
            "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS",
            {"tableName": snapshot.table_path, "then": analysed.sql(), "now": snapshot.schema.sql()},
        )


def _analysed(request: DmlRequest, statement: Statement, snapshot: Snapshot) -> StructType:
    """The schema the table itself had when the statement was analysed."""
    if snapshot.version == request.version:
        return snapshot.schema
    return open_snapshot(request.table, statement, request.version).schema


def check_appends_only(attempt: Attempt) -> None:
    """Refuse, before any work, what the commit would refuse.

    :raises HeadwaterError: ``DELTA_CANNOT_MODIFY_APPEND_ONLY``.
    """
    if attempt.enabled("delta.appendOnly"):
        name = attempt.txn.metadata.name or attempt.request.name
        raise HeadwaterError("DELTA_CANNOT_MODIFY_APPEND_ONLY", {"tableName": name})


def run(request: DmlRequest, statement: Statement, work: Callable[[Attempt], T]) -> T:
    """Do the work; after a conflict with another writer again on a newer snapshot, until the deadline.

    Statements of this process that lost run one after the other (:mod:`headwater.transaction.queueing`).

    :raises HeadwaterError: the last conflict, once ``spark.headwater.dml.retrySeconds`` have passed.
    """
    began = time.monotonic()
    deadline = began + statement.whole_number(_RETRY_SECONDS, _DEFAULT_RETRY_SECONDS)
    queue = queue_of(locate(request.table, statement).path)
    # Half of the time is left for running, however long others take.
    place = queue.arrive(_half_way(deadline), statement.check_cancelled)
    lost_to: list[str] = []
    try:
        while True:
            begun = begin(request, statement)
            try:
                done = _with_cached_source(begun, work)
            except HeadwaterError as error:
                if error.condition not in _RETRIED:
                    raise
                lost_to.append(error.parameters.get("version", "unknown"))
                if time.monotonic() >= deadline:
                    raise HeadwaterError(
                        error.condition, {**error.parameters, "tried": _tried(lost_to, time.monotonic() - began)}
                    ) from error
                statement.discard()
                _LOG.info(
                    "%s: attempt %d lost to another writer, running again: %s", request.table, len(lost_to), error
                )
                seconds = time.monotonic() - begun.started
                if place is None:
                    queue.note(True)
                    place = queue.take_place(seconds, _half_way(deadline), statement.check_cancelled)
                else:
                    # Only writers without a place won: other processes, or statements that were already running.
                    queue.lost_again(place, seconds)
                    statement.check_cancelled()
                    time.sleep(backoff_seconds(len(lost_to)))
            else:
                if place is None:
                    queue.note(False)
                return done
    finally:
        if place is not None:
            queue.give_back(place)


def _half_way(deadline: float) -> float:
    now = time.monotonic()
    return now + max(0.0, deadline - now) / 2


def _tried(lost_to: Sequence[str], seconds: float) -> str:
    """For the message of a conflict: how often a statement ran, for how long, and what it lost to."""
    if len(lost_to) == 1:
        return ""
    named = list(dict.fromkeys(lost_to))[-_MOST_VERSIONS:]
    return f", which ran {len(lost_to)} times in {seconds:.1f} s and lost to versions {', '.join(named)}"


def _with_cached_source(attempt: Attempt, work: Callable[[Attempt], T]) -> T:
    """Do the work; again from the start where an executor was lost with rows of the cached source.

    :raises HeadwaterError: ``DELTA_MERGE_MATERIALIZE_SOURCE_FAILED_REPEATEDLY``.
    """
    for _ in range(_SOURCE_ATTEMPTS - 1):
        try:
            return work(attempt)
        except HeadwaterError as error:
            if error.condition != _SOURCE_LOST:
                raise
            _LOG.warning(
                "%s: cached rows of the source were lost with an executor; trying again", attempt.request.table
            )
            attempt.statement.discard()
            attempt = begin(attempt.request, attempt.statement)
    return work(attempt)


def evolved(attempt: Attempt) -> bool:
    """Whether the statement changes the table's columns."""
    return attempt.txn.metadata != attempt.snapshot.metadata


def with_schema(attempt: Attempt, schema_text: str) -> None:
    """Commit a schema with what a write changed in it: high-water marks of identity columns."""
    attempt.txn.update_metadata(replace(attempt.txn.metadata, schema_string=schema_text))
