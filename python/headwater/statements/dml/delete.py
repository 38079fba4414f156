"""DELETE: removes the rows for which a condition is true.

Owns which files are removed without being read, as the log shows that all of their rows match, and which are scanned
for the rows to delete. Rows for which the condition is null are not deleted.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headwater.bridge.messages.change import ChangeRequest
from headwater.bridge.messages.define import CommitAnswer
from headwater.bridge.statement import Statement
from headwater.protocol.partition_values import texts_of
from headwater.pruning import leaves_rows, prune_all
from headwater.statements.calls import call
from headwater.statements.dml.attempt import Attempt, begin, check_appends_only, run, unless_done
from headwater.statements.dml.descriptions import Explanation
from headwater.statements.dml.ending import FileMetrics, end, note_reads
from headwater.statements.dml.outcome import Effect, replaces_whole, steps
from headwater.statements.dml.replacing import Replacing, plan_replacing
from headwater.statements.dml.request import Clause, DmlRequest
from headwater.statements.dml.scan import note_predicates, total_bytes
from headwater.statements.files.data_footers import live_rows
from headwater.statements.files.file_lists import physical_name
from headwater.statements.files.indexed_rows import IndexedRows, by_predicates
from headwater.statements.running.committing import removals


@call(commits=True, in_transaction=True)
def delete(request: ChangeRequest, statement: Statement) -> CommitAnswer:
    """Delete rows; the answer's ``counts`` is ``[deleted]``."""
    return run(DmlRequest(request), statement, unless_done(_delete, counts=1))


@dataclass(frozen=True)
class _Plan:
    """``whole``: files that are removed without being read; ``mixed``: those to be scanned. Rows of
    ``snapshot.files``. ``indexed``: what an index leaves of the latter."""

    whole: pa.Table
    mixed: pa.Table
    indexed: IndexedRows | None = None

    def job(self, attempt: Attempt) -> Replacing:
        """Removes rows of the files to be scanned."""
        whole, changes = replaces_whole(attempt, self.mixed), _writes_changes(attempt)
        only = None if self.indexed is None else self.indexed.rows
        return plan_replacing(attempt, self.mixed, Clause("delete"), whole=whole, changes=changes, only=only)


def _delete(attempt: Attempt) -> CommitAnswer:
    check_appends_only(attempt)
    plan = _plan(attempt)
    note_reads(attempt, attempt.request.predicates)
    deleted = sum(live_rows(attempt.snapshot, plan.whole))
    attempt.txn.remove(removals(plan.whole))
    effect, changes, scan_time = Effect(), 0, None
    if plan.mixed.num_rows:
        replacing = plan.job(attempt)
        attempt.statement.step("find rows to delete", 1, steps(attempt, replacing.whole))
        job = replacing.run(attempt)
        scan_time = attempt.milliseconds()
        deleted += job.replaced
        effect = replacing.replace(attempt, job)
        changes = len(job.changes)
    of_files = FileMetrics.of(attempt, effect, plan.mixed, [], changes, scan_time)
    metrics = {
        **of_files.named(),
        "numRemovedFiles": plan.whole.num_rows + effect.files_gone,
        "numRemovedBytes": total_bytes(plan.whole) + of_files.removed_bytes,
        "numDeletedRows": deleted,
    }
    text = attempt.request.message.condition_text
    parameters = {"predicate": [] if text is None else [text]}
    return end(attempt, "DELETE", parameters, metrics, [deleted])


def _plan(attempt: Attempt) -> _Plan:
    request, snapshot = attempt.request, attempt.snapshot
    files = snapshot.files
    if request.message.condition is None:
        return _Plan(files, files.slice(0, 0))
    whole = _whole_partitions(attempt)
    if whole is not None:
        return _Plan(whole, files.slice(0, 0))
    if not request.predicates:
        return _Plan(files.slice(0, 0), files)
    concerned = prune_all(snapshot, request.predicates)
    note_predicates(attempt, files.filter(concerned))
    indexed = by_predicates(attempt.statement, snapshot, request.predicates, concerned)
    if indexed is not None:
        concerned = indexed.files
    if not request.exact:
        return _Plan(files.slice(0, 0), files.filter(concerned), indexed)
    staying = leaves_rows(snapshot, request.predicates)
    whole = files.filter(pc.and_not(concerned, staying))
    mixed = files.filter(pc.and_(concerned, staying))
    if mixed.num_rows and _writes_changes(attempt):
        # Where a commit has change data files, readers of changes read nothing else: these need every deleted row.
        return _Plan(files.slice(0, 0), files.filter(concerned), indexed)
    return _Plan(whole, mixed, indexed)


def _whole_partitions(attempt: Attempt) -> pa.Table | None:
    """The files to remove by a condition over partition values alone; None for other conditions."""
    request, snapshot = attempt.request, attempt.snapshot
    if request.message.condition is None or not snapshot.partition_columns:
        return None

    def matching(partitions: list[list[str | None]]) -> list[bool] | None:
        assert request.message.condition is not None
        return attempt.statement.matching_partitions(request.message.target, request.message.condition, partitions)

    if matching([]) is None:
        return None
    names = [physical_name(snapshot, name) for name in snapshot.partition_columns]
    columns = [texts_of(snapshot.files["partition_values"], name) for name in names]
    values = list(zip(*(column.to_pylist() for column in columns), strict=True))
    distinct = list(dict.fromkeys(values))
    found = matching([list(partition) for partition in distinct]) or []
    deleted = {partition for partition, is_matching in zip(distinct, found, strict=True) if is_matching}
    return snapshot.files.filter(pa.array([partition in deleted for partition in values], pa.bool_()))


def _writes_changes(attempt: Attempt) -> bool:
    """With deletion vectors, the log itself shows which rows were deleted."""
    return attempt.writes_changes and not attempt.writes_vectors


def explain(request: ChangeRequest, statement: Statement, mode: str) -> str:
    """What the statement would do."""
    attempt = begin(DmlRequest(request), statement)
    check_appends_only(attempt)
    plan = _plan(attempt)
    shown = Explanation(attempt, "DELETE", mode)
    shown.files(plan.whole.num_rows + plan.mixed.num_rows, total_bytes(plan.whole) + total_bytes(plan.mixed))
    if plan.whole.num_rows:
        shown.strategy("metadata only", f"every row of {shown.count(plan.whole)} matches, as the log shows")
    shown.index(plan.indexed)
    if plan.mixed.num_rows:
        replacing = plan.job(attempt)
        shown.rewriting(f"rows of {shown.count(plan.mixed)} are examined")
        shown.query(replacing.rewrite)
        if not replacing.whole:
            shown.copying()
    if not plan.whole.num_rows and not plan.mixed.num_rows:
        shown.strategy("nothing to do", "no file can have a matching row, as the log shows")
    return shown.text()
