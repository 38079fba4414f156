"""UPDATE: changes the rows for which a condition is true.

With deletion vectors, one job reads the files that may have such rows, writes the rows with their new values and notes
the positions of the replaced ones. Without them, a job that reads only the condition's columns finds the files that
have such rows, and a second job rewrites these files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.change import ChangeRequest
from headwater.bridge.messages.define import CommitAnswer
from headwater.bridge.statement import Statement
from headwater.pruning import prune_all
from headwater.schema.identity import identity_columns
from headwater.statements.calls import call
from headwater.statements.dml.attempt import Attempt, begin, check_appends_only, run, unless_done
from headwater.statements.dml.descriptions import Explanation
from headwater.statements.dml.ending import FileMetrics, end, note_kept_keys, note_reads
from headwater.statements.dml.outcome import Job, replaces_whole, steps
from headwater.statements.dml.replacing import Replacing, plan_replacing
from headwater.statements.dml.request import Clause, DmlRequest
from headwater.statements.dml.scan import note_predicates, total_bytes
from headwater.statements.files.indexed_rows import IndexedRows, by_predicates


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
    plan = _plan(attempt)
    files, found = plan.files, None
    note_reads(attempt, attempt.request.predicates)
    note_kept_keys(attempt)
    if plan.searches:
        attempt.statement.step("find matching rows", 1, 2)
        found = plan.search(attempt).run(attempt)
        files = files.take(pa.array(sorted(found.positions), pa.int64()))
    if not files.num_rows:
        return end(attempt, "UPDATE", _parameters(attempt), {}, [0])
    replacing, scan_time = plan.job(attempt, files), attempt.milliseconds()
    if found is not None:
        attempt.statement.step("write the files with updated rows", 2, 2)
    else:
        attempt.statement.step("update matching rows", 1, steps(attempt, replacing.whole))
    job = replacing.run(attempt)
    if found is not None:
        _check_same(attempt.snapshot.table_path, found, job)
    else:
        scan_time = attempt.milliseconds()
    effect = replacing.replace(attempt, job)
    of_files = FileMetrics.of(attempt, effect, files, [job.written], len(job.changes), scan_time)
    metrics = {**of_files.named(), "numUpdatedRows": job.replaced}
    return end(attempt, "UPDATE", _parameters(attempt), metrics, [job.replaced])


def _parameters(attempt: Attempt) -> dict[str, Any]:
    text = attempt.request.message.condition_text
    return {"predicate": [] if text is None else [text]}


@dataclass(frozen=True)
class _Plan:
    """How the statement runs.

    :param files: those that may have rows to update, as rows of ``snapshot.files``.
    :param searches: whether a search leaves some of them first; the condition is then evaluated twice.
    :param indexed: what an index leaves of the files.
    """

    files: pa.Table
    searches: bool
    indexed: IndexedRows | None = None

    @property
    def only(self) -> Mapping[str, BitMap64] | None:
        """The rows to read of some files."""
        return None if self.indexed is None else self.indexed.rows

    def search(self, attempt: Attempt) -> Replacing:
        """The rows for which the condition is true: only noted, not written."""
        return plan_replacing(attempt, self.files, Clause("delete"), whole=False, changes=False, only=self.only)

    def job(self, attempt: Attempt, files: pa.Table) -> Replacing:
        """Updates the rows of the files that the search has left."""
        return plan_replacing(
            attempt,
            files,
            attempt.request.matched[0],
            whole=self.searches or replaces_whole(attempt, files),
            changes=attempt.writes_changes,
            values_prune=not self.searches,
            only=self.only,
        )


def _plan(attempt: Attempt) -> _Plan:
    request, snapshot = attempt.request, attempt.snapshot
    files, indexed = snapshot.files, None
    if request.predicates:
        concerned = prune_all(snapshot, request.predicates)
        note_predicates(attempt, files.filter(concerned))
        indexed = by_predicates(attempt.statement, snapshot, request.predicates, concerned)
        files = files.filter(concerned if indexed is None else indexed.files)
    message = request.message
    may_repeat = message.condition is not None and message.condition_deterministic and not message.runs_python
    # Files whose rows are all turned away stay as they are.
    may_repeat = may_repeat and attempt.judging is None
    needs_files = not attempt.writes_vectors and files.num_rows > 0 and not replaces_whole(attempt, files)
    return _Plan(files, searches=may_repeat and needs_files, indexed=indexed)


def _check_same(table_path: str, found: Job, done: Job) -> None:
    """Check that the rows found are the rows updated.

    :raises HeadwaterError: ``HEADWATER_CONDITION_NOT_REPEATABLE``.
    """
    ordered = [found.positions[number] for number in sorted(found.positions)]
    if dict(enumerate(ordered)) != done.positions:
        counts = {"first": found.replaced, "second": done.replaced}
        named = {"operation": "UPDATE", "tableName": table_path}
        raise HeadwaterError("HEADWATER_CONDITION_NOT_REPEATABLE", {**named, **counts})


def explain(request: ChangeRequest, statement: Statement, mode: str) -> str:
    """What the statement would do."""
    attempt = begin(DmlRequest(request), statement)
    check_appends_only(attempt)
    plan = _plan(attempt)
    shown = Explanation(attempt, "UPDATE", mode)
    shown.files(plan.files.num_rows, total_bytes(plan.files))
    shown.index(plan.indexed)
    if plan.files.num_rows:
        shown.rewriting("the condition decides row by row")
        if plan.searches:
            shown.query(plan.search(attempt).rewrite, "Search for files with such rows")
        replacing = plan.job(attempt, plan.files)
        shown.query(replacing.rewrite)
        if not replacing.whole:
            shown.copying()
    else:
        shown.strategy("nothing to do", "no file can have a matching row, as the log shows")
    return shown.text()
