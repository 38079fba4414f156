"""The end of a statement: its reads, its commit, its metrics, its answer.

Owns what a DELETE, UPDATE, MERGE or REPLACE answers, what its history says of files, and when there is nothing to
commit. Metrics and parameters have the names that readers of the history know from other engines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headwater.bridge.messages.define import CommitAnswer
from headwater.pruning.predicates import Predicate
from headwater.schema.generated import generated_columns
from headwater.schema.keys import enforced_key
from headwater.statements.dml.attempt import Attempt
from headwater.statements.dml.outcome import Effect
from headwater.statements.dml.scan import total_bytes
from headwater.statements.files.quarantine import settle
from headwater.statements.files.rows import Written
from headwater.statements.running.committing import commit, idempotence
from headwater.transaction.commit_info import Provenance


@dataclass(frozen=True)
class FileMetrics:
    """What a statement did to files, for the history. ``added``: with what its own jobs wrote; sizes in bytes."""

    effect: Effect
    added: int
    added_bytes: int
    removed_bytes: int
    change_files: int
    scan_time: int
    rewrite_time: int

    @staticmethod
    def of(
        attempt: Attempt,
        effect: Effect,
        scanned: pa.Table,
        written: Iterable[Written],
        changes: int,
        scan_time: int | None,
    ) -> FileMetrics:
        """:param scanned: the files that the effect's numbers count, as rows of ``snapshot.files``.
        :param written: what jobs wrote beside the effect's copies; ``changes``: how many files of change data.
        :param scan_time: the milliseconds until the rows to change were found; None if none were looked for.
        """
        gone = [number for number in effect.removed if number not in effect.marked]
        jobs = [*written, effect.copied]
        return FileMetrics(
            effect,
            sum(len(job.files) for job in jobs),
            sum(job.bytes for job in jobs),
            total_bytes(scanned.take(pa.array(gone, pa.int64()))),
            changes,
            scan_time or 0,
            0 if scan_time is None else attempt.milliseconds() - scan_time,
        )

    def named(self) -> dict[str, int]:
        """By the names that DELETE and UPDATE have for them."""
        return {
            "numRemovedFiles": self.effect.files_gone,
            "numRemovedBytes": self.removed_bytes,
            "numCopiedRows": self.effect.copied.rows,
            "numAddedFiles": self.added,
            "numAddedBytes": self.added_bytes,
            "numAddedChangeFiles": self.change_files,
            "numDeletionVectorsAdded": self.effect.vectors_added,
            "numDeletionVectorsUpdated": self.effect.vectors_updated,
            "numDeletionVectorsRemoved": self.effect.vectors_removed,
            **self._times(),
        }

    def of_target(self) -> dict[str, int]:
        """By the names that MERGE has for them."""
        return {
            "numTargetRowsCopied": self.effect.copied.rows,
            "numTargetFilesAdded": self.added,
            "numTargetBytesAdded": self.added_bytes,
            "numTargetFilesRemoved": self.effect.files_gone,
            "numTargetBytesRemoved": self.removed_bytes,
            "numTargetChangeFilesAdded": self.change_files,
            "numTargetDeletionVectorsAdded": self.effect.vectors_added,
            "numTargetDeletionVectorsUpdated": self.effect.vectors_updated,
            "numTargetDeletionVectorsRemoved": self.effect.vectors_removed,
            **self._times(),
        }

    def _times(self) -> dict[str, int]:
        return {"scanTimeMs": self.scan_time, "rewriteTimeMs": self.rewrite_time}


def end(
    attempt: Attempt,
    operation: str,
    parameters: Mapping[str, Any],
    metrics: Mapping[str, int],
    counts: Sequence[int] | None,
) -> CommitAnswer:
    """Commit what the transaction holds, if it holds anything.

    :param counts: the statement's result: how many rows it affected, by kind; None if it has none.
    """
    target, name = attempt.target, attempt.request.message.name
    settle(attempt.statement, attempt.txn, target, attempt.violations, operation, name=name)
    # What was turned away is in the history, even if nothing else is.
    if not (attempt.txn.has_changes or attempt.txn.beside or attempt.violations.turned_away):
        return CommitAnswer(version=attempt.snapshot.version, counts=None if counts is None else list(counts))
    request, statement = attempt.request, attempt.statement
    provenance = Provenance(
        operation,
        {**parameters, **request.parameters},
        {**metrics, "executionTimeMs": attempt.milliseconds()},
        request.options.user_metadata,
    )
    application = request.application or idempotence(request.options, statement)
    return commit(attempt.txn, statement, provenance, counts, application=application)


def note_kept_keys(attempt: Attempt) -> None:
    """Note that an UPDATE or a MERGE changes no enforced key, if its clauses tell: its rows need no check then, even if
    another engine wrote two of one key.
    """
    request, schema = attempt.request, attempt.target.schema
    key = enforced_key(attempt.snapshot.definition)
    if key is not None and not request.not_matched:
        clauses = [*request.matched, *request.not_matched_by_source]
        changed = {column.name.lower() for column in generated_columns(schema)}.union(*(c.assigned for c in clauses))
        attempt.txn.keeps_keys = changed.isdisjoint(name.lower() for name in key.columns)


def note_reads(attempt: Attempt, *reads: Sequence[Predicate]) -> None:
    """Note for conflict detection which rows the result depends on: those for which all predicates of one of the reads
    are true, or all rows where the source or a subquery reads the table too.
    """
    if attempt.request.message.reads_target_elsewhere:
        attempt.txn.read_whole_table()
    else:
        for predicates in reads:
            attempt.txn.read_where(predicates)
