"""One attempt at a statement, and the next one after it lost to another writer.

Owns what an attempt works on: a snapshot that still has the columns the statement was analysed against, a transaction
on it, the table as the statement leaves it. Promise: an attempt that ends in an error has committed nothing, and the
files it wrote are deleted as far as they can be.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from headwater.bridge.statement import Statement
from headwater.commands.committing import transaction
from headwater.commands.dml.request import DmlRequest
from headwater.commands.read import check_same_columns
from headwater.commands.rows import Target
from headwater.commands.tables import open_same, open_snapshot
from headwater.commands.write import set_schema
from headwater.errors import HeadwaterError
from headwater.log.snapshot import Snapshot
from headwater.schema import properties
from headwater.schema.types import StructType, parse_schema
from headwater.transaction import Transaction

_LOG = logging.getLogger(__name__)
_RETRIES = "spark.headwater.dml.retries"
_DEFAULT_RETRIES = 3
#: Conflicts with rows of others; from a newer snapshot the statement may well succeed.
_RETRIED = frozenset({"DELTA_CONCURRENT_APPEND", "DELTA_CONCURRENT_DELETE_READ", "DELTA_CONCURRENT_DELETE_DELETE"})
_LONGEST_WAIT_SECONDS = 0.2

T = TypeVar("T")


@dataclass
class Attempt:
    """What a statement works on this time."""

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
        """Whether replaced rows are marked deleted in deletion vectors, instead of files being written anew."""
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
    named: dict[str, Any] = {"table": request.table, "tableId": request.table_id, "version": request.version}
    snapshot = open_same(named, statement)
    check_same_columns(named, statement, snapshot)
    analysed = _analysed(request, statement, snapshot)
    _check_no_new_columns(analysed, snapshot)
    txn = transaction(request.table, statement, snapshot)
    wanted = parse_schema(request.table_schema)
    if wanted != analysed:
        set_schema(txn, wanted)
    return Attempt(request, statement, snapshot, txn, started)


def _check_no_new_columns(analysed: StructType, snapshot: Snapshot) -> None:
    """That the table has no other columns, in no other order: a statement that rewrites rows has a value for each
    column it was analysed with, and none for one that came later, which a query would simply not read.

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
    """Do the work, again from a newer snapshot where another writer's rows were in the way.

    :raises HeadwaterError: the last conflict, once ``spark.headwater.dml.retries`` attempts have lost.
    """
    retries = statement.whole_number(_RETRIES, _DEFAULT_RETRIES)
    for attempt in range(retries + 1):
        begun = begin(request, statement)
        try:
            return work(begun)
        except HeadwaterError as error:
            if error.condition not in _RETRIED or attempt == retries:
                raise
            statement.discard()
            _LOG.info("%s: attempt %d lost to another writer and is made again: %s", request.table, attempt + 1, error)
            time.sleep(random.uniform(0, _LONGEST_WAIT_SECONDS) * attempt)
    raise AssertionError("unreachable")


def evolved(attempt: Attempt) -> bool:
    """Whether the statement changes the table's columns."""
    return attempt.txn.metadata != attempt.snapshot.metadata


def with_schema(attempt: Attempt, schema_text: str) -> None:
    """Commit a schema that a write moved on, as identity columns do."""
    attempt.txn.update_metadata(replace(attempt.txn.metadata, schema_string=schema_text))
