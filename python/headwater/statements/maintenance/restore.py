"""RESTORE: an older version of the table becomes its newest version.

Owns the difference between the two versions' files, and which parts of the definition go back. Only the log changes: no
data is copied. Follows the protocol's chapters "Action Reconciliation", "Protocol Evolution", "Identity Columns", "Row
Tracking" and "Domain Metadata". Promises: nothing is committed unless every file that comes back is there; the protocol
only grows, so older versions stay readable; what must never be given twice (identity values, row ids, column ids) goes
on from where it is now. A writer that commits meanwhile is no reason to fail: what it did is undone too.
"""

from __future__ import annotations

import logging
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.define import CommitAnswer
from headwater.bridge.messages.maintain import RestoreRequest
from headwater.bridge.statement import Statement
from headwater.definition.changes import returned
from headwater.log import deletion_vectors
from headwater.log.files import FILE_SCHEMA, file_of, keys_of, vector_of
from headwater.log.history import version_at
from headwater.log.snapshot import Snapshot
from headwater.protocol.row_tracking import DOMAIN as ROW_TRACKING_DOMAIN
from headwater.protocol.row_tracking import high_water_mark
from headwater.protocol.types import PrimitiveType, StructType
from headwater.statements.calls import own_statement
from headwater.statements.expressions import Time, number_of, time_of
from headwater.statements.files.file_lists import absolute_paths
from headwater.statements.running.committing import commit, removals, transaction
from headwater.statements.running.opening import check_files_retained, open_snapshot
from headwater.statements.running.rerunning import run_again_after_losses
from headwater.statements.settings import IGNORE_MISSING_FILES
from headwater.transaction.commit_info import Provenance

_LOG = logging.getLogger(__name__)
#: How many missing files an error names.
_MOST_NAMED = 10
#: Files that are looked for between two looks whether the statement was cancelled.
_AT_ONCE = 100_000
_LONG = PrimitiveType("long")

#: The row of the answer, under the names that users of the format know; sizes in bytes.
RESTORE_SCHEMA = StructType.of(
    table_size_after_restore=_LONG,
    num_of_files_after_restore=_LONG,
    num_removed_files=_LONG,
    num_restored_files=_LONG,
    removed_files_size=_LONG,
    restored_files_size=_LONG,
)


@own_statement("restore", output=RESTORE_SCHEMA, commits=True, in_transaction=False, words="RESTORE")
def restore(request: RestoreRequest, statement: Statement) -> CommitAnswer:
    """Bring a table back to a version, or to its version at a time; no commit where it is that version already.

    :raises HeadwaterError: ``DELTA_CANNOT_RESTORE_TABLE_VERSION``, ``DELTA_CANNOT_RESTORE_TIMESTAMP_GREATER``,
        ``DELTA_CANNOT_RESTORE_TIMESTAMP_EARLIER``, ``DELTA_TIMESTAMP_INVALID``,
        ``DELTA_TIME_TRAVEL_INVALID_BEGIN_VALUE``,
        ``HEADWATER_RESTORE_FILES_MISSING``, those of a commit.
    """
    goal = goal_of(request.arguments, statement)

    def attempt() -> CommitAnswer:
        newest = open_snapshot(request.table, statement)
        wanted = _wanted(goal, newest, statement)
        return _restore(newest, wanted, goal, request, statement)

    return run_again_after_losses(request.table, statement, attempt)


class Goal(NamedTuple):
    """What a statement names: a version or a time."""

    version: int | None
    time: Time | None

    @property
    def parameters(self) -> dict[str, object]:
        """For the history."""
        return {"version": self.version, "timestamp": None if self.time is None else self.time.text}


class Arguments(Protocol):
    """A version or a time, Spark SQL each; the other is None."""

    version: str | None
    timestamp: str | None


def goal_of(arguments: Arguments, statement: Statement) -> Goal:
    """The version or the time of AS OF.

    :raises HeadwaterError: ``DELTA_TIMESTAMP_INVALID``, ``DELTA_TIME_TRAVEL_INVALID_BEGIN_VALUE``.
    """
    if arguments.version is not None:
        version = number_of(arguments.version, statement)
        if not version.isdecimal():
            raise HeadwaterError("DELTA_TIME_TRAVEL_INVALID_BEGIN_VALUE", {"version": version})
        return Goal(int(version), None)
    text = arguments.timestamp or ""
    time = time_of(text, statement)
    if time is None:
        raise HeadwaterError("DELTA_TIMESTAMP_INVALID", {"expr": text.strip("'\"")})
    return Goal(None, time)


def version_of(goal: Goal, newest: Snapshot, statement: Statement) -> Snapshot:
    """The version of a table that a statement names.

    :raises HeadwaterError: ``DELTA_VERSION_NOT_FOUND``, ``DELTA_TIMESTAMP_GREATER_THAN_COMMIT``,
        ``DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION``, those of
        :func:`~headwater.statements.running.opening.check_files_retained`.
    """
    if goal.time is not None:
        milliseconds = goal.time.microseconds // 1000
        version = version_at(newest.table_path, newest.store, milliseconds, snapshot=newest)
    else:
        assert goal.version is not None
        version = goal.version
    if version == newest.version:
        return newest
    wanted = open_snapshot(newest.table_path, statement, version)
    check_files_retained(wanted, newest, statement)
    return wanted


def _wanted(goal: Goal, newest: Snapshot, statement: Statement) -> Snapshot:
    """The version to restore."""
    try:
        return version_of(goal, newest, statement)
    except HeadwaterError as error:
        named = error.parameters
        if error.condition == "DELTA_VERSION_NOT_FOUND":
            found = {
                "version": named["userVersion"],
                "startVersion": named["earliest"],
                "endVersion": newest.version,
            }
            raise HeadwaterError("DELTA_CANNOT_RESTORE_TABLE_VERSION", found) from None
        for condition, ours, bound in (
            ("DELTA_TIMESTAMP_GREATER_THAN_COMMIT", "DELTA_CANNOT_RESTORE_TIMESTAMP_GREATER", "latestTimestamp"),
            (
                "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION",
                "DELTA_CANNOT_RESTORE_TIMESTAMP_EARLIER",
                "earliestTimestamp",
            ),
        ):
            if error.condition == condition:
                found = {"requestedTimestamp": named["providedTimestamp"], bound: named[bound]}
                raise HeadwaterError(ours, found) from None
        raise


def _restore(
    newest: Snapshot, wanted: Snapshot, goal: Goal, request: RestoreRequest, statement: Statement
) -> CommitAnswer:
    restored, removed, renumbered = _differences(newest, wanted)
    metrics = {
        "tableSizeAfterRestore": wanted.size_in_bytes,
        "numOfFilesAfterRestore": wanted.num_files,
        "numRemovedFiles": removed.num_rows,
        "numRestoredFiles": restored.num_rows,
        "removedFilesSize": pc.sum(removed["size"]).as_py() or 0,
        "restoredFilesSize": pc.sum(restored["size"]).as_py() or 0,
    }
    rows = [dict(zip((field.name for field in RESTORE_SCHEMA), metrics.values(), strict=True))]
    if wanted.version == newest.version:
        return CommitAnswer(version=newest.version, rows=rows)
    txn = transaction(request.table, statement, newest)
    _LOG.info(
        "%s: restoring version %d: %d files are restored, %d removed",
        *(newest.table_path, wanted.version, restored.num_rows, removed.num_rows),
    )
    if not IGNORE_MISSING_FILES.of(statement):
        _check_present(wanted, restored, request.name, statement)
    # Whatever another writer commits meanwhile is not part of the version that comes back.
    txn.follow_directly()
    txn.brings_back = True
    txn.redefine(returned(newest.definition, wanted.definition))
    txn.keep_row_ids_above(high_water_mark(wanted.domain_metadata.get(ROW_TRACKING_DOMAIN)))
    if txn.takes_bulk:
        txn.replace(removed, restored)
    else:
        txn.remove(removals(removed))
        txn.add(file_of(row, data_change=True) for row in restored.to_pylist())
        txn.add_again(file_of(row) for row in renumbered.to_pylist())
    return commit(txn, statement, Provenance("RESTORE", goal.parameters, metrics), rows=rows)


def _differences(newest: Snapshot, wanted: Snapshot) -> tuple[pa.Table, pa.Table, pa.Table]:
    """The files that come back and those that go; and those of both that had row ids and have lost them since. A file
    with another deletion vector is another file.
    """
    columns = ("path", "deletion_vector", "base_row_id")
    now, then = newest.select(columns), wanted.select(columns)
    keys_now, keys_then = keys_of(now), keys_of(then)
    is_there = pc.is_in(keys_then, value_set=keys_now)
    restored = _filtered(wanted, pc.invert(is_there))
    removed = _filtered(newest, pc.invert(pc.is_in(keys_now, value_set=keys_then)))
    if then["base_row_id"].null_count == len(then):
        return restored, removed, FILE_SCHEMA.empty_table()
    without_ids = keys_now.filter(pc.is_null(now["base_row_id"]))
    renumbered = pc.and_(pc.is_valid(then["base_row_id"]), pc.is_in(keys_then, value_set=without_ids))
    return restored, removed, _filtered(wanted, renumbered)


def _filtered(snapshot: Snapshot, mask: pa.ChunkedArray) -> pa.Table:
    """Some of a snapshot's files. The text of their statistics is only read where there are any."""
    return snapshot.files.filter(mask) if pc.any(mask).as_py() else FILE_SCHEMA.empty_table()


def _check_present(wanted: Snapshot, restored: pa.Table, name: str, statement: Statement) -> None:
    """Look for the files that come back, and for those of their deletion vectors.

    :raises HeadwaterError: ``HEADWATER_RESTORE_FILES_MISSING``, with some of them and their number.
    """
    paths = absolute_paths(wanted, restored["path"]).to_pylist() + _vector_files(wanted, restored)
    missing: list[str] = []
    for start in range(0, len(paths), _AT_ONCE):
        statement.check_cancelled()
        missing += wanted.store.missing(paths[start : start + _AT_ONCE])
    if missing:
        more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
        raise HeadwaterError(
            "HEADWATER_RESTORE_FILES_MISSING",
            {
                "version": wanted.version,
                "tableName": name,
                "count": len(missing),
                "total": len(paths),
                "files": ", ".join(missing[:_MOST_NAMED]) + more,
            },
        )


def _vector_files(snapshot: Snapshot, files: pa.Table) -> list[str]:
    """The files that deletion vectors lie in, each once."""
    vectors = map(vector_of, files["deletion_vector"].drop_null().to_pylist())
    locations = (
        deletion_vectors.absolute_location(vector, snapshot.table_path)
        for vector in vectors
        if vector is not None and vector.storage_type != deletion_vectors.INLINE
    )
    return list(dict.fromkeys(locations))
