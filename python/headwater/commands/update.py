"""UPDATE: rows that a condition is true for get new values.

One job reads the files that may have such rows, writes the rows with their new values and notes which rows they
replace.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from headwater.bridge.statement import Statement
from headwater.commands.dml.attempt import Attempt, begin, check_appends_only, run
from headwater.commands.dml.ending import end, read
from headwater.commands.dml.explanation import Explanation
from headwater.commands.dml.outcome import replace_file, replace_rows, replaces_whole, run_job
from headwater.commands.dml.request import DmlRequest, expression
from headwater.commands.dml.rewrite import Action, Rewrite, compose
from headwater.commands.dml.scan import Scan, scan, total_bytes
from headwater.errors import HeadwaterError
from headwater.pruning import prune_all
from headwater.schema.identity import identity_columns


def update(request: dict[str, Any], statement: Statement) -> dict[str, Any]:
    """Update rows; the answer's ``counts`` is ``[updated]``."""
    return run(DmlRequest.of(request), statement, _update)


def check_identity_unassigned(attempt: Attempt, assigned: frozenset[str]) -> None:
    """Identity columns are given once, when a row comes.

    :raises HeadwaterError: ``DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED``.
    """
    for column in identity_columns(attempt.target.schema):
        if column.name.lower() in assigned:
            raise HeadwaterError("DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED", {"columnName": column.name})


def _update(attempt: Attempt) -> dict[str, Any]:
    check_appends_only(attempt)
    check_identity_unassigned(attempt, attempt.request.matched[0].assigned)
    files = _files(attempt)
    read(attempt, attempt.request.predicates)
    if not files.num_rows:
        return end(attempt, "UPDATE", {}, {}, [0])
    scanned = scan(attempt, files)
    whole = replaces_whole(attempt, files)
    job = run_job(attempt, _rewrite(attempt, scanned, whole))
    scan_time = attempt.milliseconds()
    if whole:
        effect = replace_file(attempt, scanned, job)
    else:
        effect = replace_rows(attempt, scanned, job.positions)
        attempt.txn.add(job.written.files)
    for change in job.changes:
        attempt.txn.add_action(change)
    gone = [number for number in effect.removed if number not in effect.marked]
    metrics = {
        "numRemovedFiles": effect.files_gone,
        "numRemovedBytes": total_bytes(files.take(pa.array(gone, pa.int64()))),
        "numCopiedRows": effect.copied.rows,
        "numUpdatedRows": job.replaced,
        "numAddedFiles": len(job.written.files) + len(effect.copied.files),
        "numAddedBytes": job.written.bytes + effect.copied.bytes,
        "numAddedChangeFiles": len(job.changes),
        "numDeletionVectorsAdded": effect.vectors_added,
        "numDeletionVectorsUpdated": effect.vectors_updated,
        "numDeletionVectorsRemoved": effect.vectors_removed,
        "scanTimeMs": scan_time,
        "rewriteTimeMs": attempt.milliseconds() - scan_time,
    }
    text = attempt.request.condition_text
    return end(attempt, "UPDATE", {"predicate": f'["{text}"]' if text else None}, metrics, [job.replaced])


def _files(attempt: Attempt) -> pa.Table:
    request, snapshot = attempt.request, attempt.snapshot
    if not request.predicates:
        return snapshot.files
    return snapshot.files.filter(prune_all(snapshot, request.predicates, "UTC"))


def _rewrite(attempt: Attempt, scanned: Scan, whole: bool) -> Rewrite:
    condition = attempt.request.condition
    clause, changes = attempt.request.matched[0], attempt.writes_changes
    if whole and condition is not None:
        action = Action(0, clause, expression(condition))
        return compose(attempt.request, attempt.target, scanned.positioned, [action], changes=changes, keeps=True)
    rows = scanned.positioned if condition is None else f"{scanned.positioned}\nWHERE {expression(condition)}"
    return compose(attempt.request, attempt.target, rows, [Action(0, clause)], changes=changes)


def explain(request: dict[str, Any], statement: Statement, mode: str) -> str:
    """What the statement would do."""
    attempt = begin(DmlRequest.of(request), statement)
    check_appends_only(attempt)
    files = _files(attempt)
    shown = Explanation(attempt, "UPDATE", mode)
    shown.files(files.num_rows, total_bytes(files))
    if files.num_rows:
        shown.rewriting("the condition decides row by row")
        whole = replaces_whole(attempt, files)
        shown.query(_rewrite(attempt, scan(attempt, files), whole))
        if not whole:
            shown.copying()
    else:
        shown.strategy("nothing to do", "no file can have a matching row, as the log tells")
    return shown.text()
