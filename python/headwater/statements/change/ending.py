"""The end of a statement: its commit, its metrics, its answer.

Owns what a DELETE, UPDATE or MERGE answers with, and when there is nothing to commit. The names of metrics and
parameters are those that other engines' readers of the history know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headwater.statements.change.attempt import Attempt, evolved
from headwater.statements.committing import commit
from headwater.statements.opening import Options


def end(
    attempt: Attempt,
    operation: str,
    parameters: Mapping[str, Any],
    metrics: Mapping[str, int],
    counts: Sequence[int],
) -> dict[str, Any]:
    """Commit what the transaction holds, if it holds anything.

    :param counts: the statement's result: how many rows it affected, and of which kind.
    """
    answer: dict[str, Any] = {"counts": list(counts)}
    if not attempt.txn.has_changes and not evolved(attempt):
        return {"version": attempt.snapshot.version, **answer}
    measured = {**metrics, "executionTimeMs": attempt.milliseconds()}
    return commit(attempt.txn, attempt.statement, Options(None), operation, parameters, measured, answer)


def read(attempt: Attempt, predicates: Sequence[str]) -> None:
    """Note what of the table the statement's result depends on: rows for which all predicates (in UTC) are true."""
    if attempt.request.reads_target_elsewhere:
        attempt.txn.read_whole_table()
    else:
        attempt.txn.read_where(list(predicates), "UTC")
