"""UPDATE: rows for which a condition is true get new values.

With deletion vectors, one job reads the files that may have such rows, writes the rows with their new values and notes
the positions of the replaced ones. Without them, a job that reads only the condition's columns finds the files that
have such rows, and a second job rewrites these files.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.change import ChangeRequest
from headwater.bridge.messages.define import CommitAnswer
from headwater.bridge.statement import Statement
from headwater.pruning import prune_all
from headwater.schema.identity import identity_columns
from headwater.sql.composing import Resolved
from headwater.statements.calls import call
from headwater.statements.dml.attempt import Attempt, begin, check_appends_only, run, unless_done
from headwater.statements.dml.descriptions import Explanation
from headwater.statements.dml.ending import FileMetrics, end, note_reads
from headwater.statements.dml.outcome import Job, replace_rows, replace_whole_files, replaces_whole, run_job, steps
from headwater.statements.dml.request import Clause, DmlRequest
from headwater.statements.dml.rewrite import Action, Rewrite, compose_rewrite, rows_where
from headwater.statements.dml.scan import Scan, scan_files, total_bytes


@call(commits=True, in_transaction=True)
def update(request: ChangeRequest, statement: Statement) -> CommitAnswer:
    """Update rows; the answer's ``counts`` is ``[updated]``."""
    return run(DmlRequest(request), statement, unless_done(_update, counts=1))


def check_identity_unassigned(attempt: Attempt, assigned: frozenset[str]) -> None:
    """Refuse values for identity columns, which rows get once, when they are inserted.

    :raises HeadwaterError: ``DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED``.
    """
    for column in identity_columns(attempt.target.schema):
        if column.name.lower() in assigned:
            raise HeadwaterError("DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED", {"columnName": column.name})


def _update(attempt: Attempt) -> CommitAnswer:
    check_appends_only(attempt)
    check_identity_unassigned(attempt, attempt.request.matched[0].assigned)
    files = _files(attempt)
    note_reads(attempt, attempt.request.predicates)
    if not files.num_rows:
        return end(attempt, "UPDATE", _parameters(attempt), {}, [0])
    whole = replaces_whole(attempt, files)
    scanned = scan_files(attempt, files, every_row=whole, values_prune=True)
    found = None
    if not whole and _finds_first(attempt):
        attempt.statement.step("find matching rows", 1, 2)
        found = run_job(attempt, _search(attempt, scanned))
        files = files.take(pa.array(sorted(found.positions), pa.int64()))
        if not files.num_rows:
            return end(attempt, "UPDATE", _parameters(attempt), {}, [0])
        scanned, whole = scan_files(attempt, files, every_row=True), True
    scan_time = attempt.milliseconds()
    if found is not None:
        attempt.statement.step("write the files with updated rows", 2, 2)
    else:
        attempt.statement.step("update matching rows", 1, steps(attempt, whole))
    job = run_job(attempt, _rewrite(attempt, scanned, whole), scanned.files)
    if found is not None:
        _check_same(attempt.snapshot.table_path, found, job)
    else:
        scan_time = attempt.milliseconds()
    if whole:
        effect = replace_whole_files(attempt, scanned, job, new=job.replaced)
    else:
        effect = replace_rows(attempt, scanned, job.positions)
        attempt.txn.add(job.written.files)
    for change in job.changes:
        attempt.txn.add_action(change)
    of_files = FileMetrics.of(attempt, effect, files, [job.written], len(job.changes), scan_time)
    metrics = {**of_files.named(), "numUpdatedRows": job.replaced}
    return end(attempt, "UPDATE", _parameters(attempt), metrics, [job.replaced])


def _parameters(attempt: Attempt) -> dict[str, Any]:
    text = attempt.request.message.condition_text
    return {"predicate": [] if text is None else [text]}


def _finds_first(attempt: Attempt) -> bool:
    """Whether a search for the files to rewrite comes first; the condition is then evaluated twice."""
    request = attempt.request
    if attempt.writes_vectors or request.message.runs_python:
        return False
    return request.message.condition is not None and request.message.condition_deterministic


def _search(attempt: Attempt, scanned: Scan) -> Rewrite:
    """The rows for which the condition is true: only noted, not written."""
    rows = rows_where(scanned.rows, attempt.request.message.condition)
    return compose_rewrite(attempt, rows, [Action(0, Clause("delete"))], changes=False)


def _check_same(table_path: str, found: Job, done: Job) -> None:
    """Check that the rows found are the rows updated.

    :raises HeadwaterError: ``HEADWATER_CONDITION_NOT_REPEATABLE``.
    """
    ordered = [found.positions[number] for number in sorted(found.positions)]
    if dict(enumerate(ordered)) != done.positions:
        counts = {"first": found.replaced, "second": done.replaced}
        named = {"operation": "UPDATE", "tableName": table_path}
        raise HeadwaterError("HEADWATER_CONDITION_NOT_REPEATABLE", {**named, **counts})


def _files(attempt: Attempt) -> pa.Table:
    request, snapshot = attempt.request, attempt.snapshot
    if not request.predicates:
        return snapshot.files
    return snapshot.files.filter(prune_all(snapshot, request.predicates))


def _rewrite(attempt: Attempt, scanned: Scan, whole: bool) -> Rewrite:
    condition = attempt.request.message.condition
    clause, changes = attempt.request.matched[0], attempt.writes_changes
    if whole and condition is not None:
        action = Action(0, clause, guard=Resolved(condition))
        return compose_rewrite(attempt, scanned.rows, [action], changes=changes, writes_unchanged_rows=True)
    return compose_rewrite(attempt, rows_where(scanned.rows, condition), [Action(0, clause)], changes=changes)


def explain(request: ChangeRequest, statement: Statement, mode: str) -> str:
    """What the statement would do."""
    attempt = begin(DmlRequest(request), statement)
    check_appends_only(attempt)
    files = _files(attempt)
    shown = Explanation(attempt, "UPDATE", mode)
    shown.files(files.num_rows, total_bytes(files))
    if files.num_rows:
        shown.rewriting("the condition decides row by row")
        whole = replaces_whole(attempt, files)
        scanned = scan_files(attempt, files, every_row=whole, values_prune=True)
        first = not whole and _finds_first(attempt)
        if first:
            shown.query(_search(attempt, scanned), "Search for files with such rows")
            scanned = scan_files(attempt, files, every_row=True)
        shown.query(_rewrite(attempt, scanned, whole or first))
        if not whole and not first:
            shown.copying()
    else:
        shown.strategy("nothing to do", "no file can have a matching row, as the log shows")
    return shown.text()
