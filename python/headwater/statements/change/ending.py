"""The end of a statement: its reads, its commit, its metrics, its answer.

Owns what a DELETE, UPDATE or MERGE answers, and when there is nothing to commit. Metrics and parameters have the names
that readers of the history know from other engines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headwater.bridge.messages.define import CommitAnswer
from headwater.pruning.predicates import Predicate
from headwater.statements.change.attempt import Attempt, evolved
from headwater.statements.commit.committing import commit


def end(
    attempt: Attempt,
    operation: str,
    parameters: Mapping[str, Any],
    metrics: Mapping[str, int],
    counts: Sequence[int] | None,
) -> CommitAnswer:
    """Commit what the transaction holds, if it holds anything.

    :param counts: the statement's result: how many rows it affected, by kind; None where it has none.
    """
    if not attempt.txn.has_changes and not evolved(attempt):
        return CommitAnswer(version=attempt.snapshot.version, counts=None if counts is None else list(counts))
    measured = {**metrics, "executionTimeMs": attempt.milliseconds()}
    return commit(
        attempt.txn,
        attempt.statement,
        attempt.request.options,
        operation,
        {**parameters, **attempt.request.parameters},
        measured,
        counts,
        writes_rows=True,
        application=attempt.request.application,
    )


def note_reads(attempt: Attempt, predicates: Sequence[Predicate]) -> None:
    """Note for conflict detection which rows the result depends on: those for which all predicates are true,
    or all rows where the source or a subquery reads the table too.
    """
    if attempt.request.message.reads_target_elsewhere:
        attempt.txn.read_whole_table()
    else:
        attempt.txn.read_where(predicates)
