"""The job of a DELETE or an UPDATE: one action on the rows for which the statement's condition is true.

Owns the job's plan, which a run and EXPLAIN share, and what the job's result does to the files that it read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyroaring import BitMap64

from headwater.sql.composing import Resolved
from headwater.statements.dml.attempt import Attempt
from headwater.statements.dml.outcome import Effect, Job, replace_rows, replace_whole_files, run_job
from headwater.statements.dml.request import Clause
from headwater.statements.dml.rewrite import Action, Output, Rewrite, compose_rewrite, rows_where
from headwater.statements.dml.scan import Scan, scan_files


@dataclass(frozen=True)
class Replacing:
    """``whole``: whether the job also writes the unchanged rows of the scanned files."""

    scanned: Scan
    clause: Clause
    whole: bool
    rewrite: Rewrite

    def run(self, attempt: Attempt) -> Job:
        """The job's result; the files stay as they are."""
        return run_job(attempt, self.rewrite, self.scanned.files)

    def replace(self, attempt: Attempt, job: Job) -> Effect:
        """Replace the files, or rows of them, by what the job wrote, in the transaction."""
        if self.whole:
            new = job.replaced if self.clause.kind == "update" else 0
            effect = replace_whole_files(attempt, self.scanned, job, new=new)
        else:
            effect = replace_rows(attempt, self.scanned, job.positions)
            attempt.txn.add(job.written.files)
        for change in job.changes:
            attempt.txn.add_action(change)
        return effect


def plan_replacing(
    attempt: Attempt,
    files: pa.Table,
    clause: Clause,
    *,
    whole: bool,
    changes: bool,
    values_prune: bool = True,
    only: Mapping[str, BitMap64] | None = None,
) -> Replacing:
    """The job.

    :param files: the files that may have such rows, as rows of ``snapshot.files``.
    :param changes: whether change data is written.
    :param values_prune: as of :func:`~headwater.statements.dml.scan.scan_files`, like ``only``, of which a job that
        writes unchanged rows makes no use.
    """
    condition = attempt.request.message.condition
    scanned = scan_files(attempt, files, every_row=whole, values_prune=values_prune, only=None if whole else only)
    if whole and condition is not None:
        action = Action(0, clause, guard=Resolved(condition))
        rewrite = compose_rewrite(attempt, scanned.rows, [action], Output(changes, writes_unchanged_rows=True))
    else:
        rewrite = compose_rewrite(attempt, rows_where(scanned.rows, condition), [Action(0, clause)], Output(changes))
    return Replacing(scanned, clause, whole, rewrite)
