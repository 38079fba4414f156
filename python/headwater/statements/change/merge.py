"""MERGE: rows of a source update, delete and add rows of the table.

Owns the strategy. In general one join of the target's files with the source is one job, which writes new rows and notes
the rows they replace. A small source is sent to all readers of a large target, which is then never shuffled; the rows
of the source that found no match are inserted by a second job over the source alone. Which files are read at all is
first narrowed by the source's own keys; where little is left to read, it is one join after all. Of a table without
deletion vectors, the rows that stay are written by a job after the join's, but by the join's own where little is left,
or where all of a table that is not large is read anyway; that few of its files might have done is then found out too
late. Where both sides are tiny, one task does it all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from headwater.bridge.statement import Statement
from headwater.errors import HeadwaterError
from headwater.log.snapshot import Snapshot
from headwater.protocol.types import schema_string
from headwater.pruning import prune_all
from headwater.schema.identity import IdentityColumn, identity_columns
from headwater.statements.change.attempt import Attempt, begin, check_appends_only, run, with_schema
from headwater.statements.change.ending import end, read
from headwater.statements.change.explanation import Explanation
from headwater.statements.change.join import (
    Joined,
    counted,
    deletes_all_matched,
    join,
    join_matched,
    join_unmatched,
    numbered,
    unmatched_source,
)
from headwater.statements.change.key_reads import exact_keys, noting, reads
from headwater.statements.change.outcome import (
    Effect,
    Job,
    kept_rows,
    live_rows,
    replace_files,
    replace_rows,
    replaces_whole,
    run_job,
    steps,
)
from headwater.statements.change.request import Clause, DmlRequest, Key, relation
from headwater.statements.change.rewrite import Rewrite, compose
from headwater.statements.change.scan import Scan, scan, total_bytes
from headwater.statements.change.source_keys import SourceKeys, ask, usable
from headwater.statements.change.update import check_identity_unassigned
from headwater.statements.write.rows import SMALL_JOB_BYTES, advanced_identities

#: A target of less is joined at once: a look at the source's keys would cost more than it saves.
_SMALL_TARGET = "spark.headwater.merge.smallTargetBytes"
_SMALL_TARGET_BYTES = 8 << 20
#: A source of less is kept for the statement and sent to every task whole.
_SMALL_SOURCE_BYTES = 64 << 20
#: Files of less, all of which are read anyway, are written anew at once: to find out which of them need not be, and to
#: read the others again, would take longer.
_REWRITTEN_BYTES = 32 << 20


def merge(request: dict[str, Any], statement: Statement) -> dict[str, Any]:
    """Merge; the answer's ``counts`` is ``[affected, updated, deleted, inserted]``."""
    return run(DmlRequest.of(request), statement, _merge)


@dataclass
class _Plan:
    """``files``: rows of ``snapshot.files`` that may have matches. ``source``: the relation to join. ``split``: whether
    inserts are a job of their own; ``kept``: whether the source has numbers for its rows then, as it was kept for both
    jobs. ``broadcast``: whether it is sent to every task. ``alone``: whether one task does it all. ``keeps``: whether
    the join's job writes the rows that stay, too. ``exact``: the keys that show whether rows of another writer matter.
    """

    files: pa.Table
    source: int
    split: bool = False
    kept: bool = False
    broadcast: bool = False
    alone: bool = False
    keeps: bool = False
    keys: SourceKeys | None = None
    identities: Sequence[IdentityColumn] = field(default_factory=list)
    exact: Sequence[Key] = ()


def _merge(attempt: Attempt) -> dict[str, Any]:
    request = attempt.request
    _check(attempt)
    plan = _plan(attempt)
    plan.exact = [] if plan.identities else exact_keys(attempt)
    scanned = scan(attempt, plan.files, every_row=plan.keeps)
    joined, job = _run(attempt, plan, scanned)
    if plan.keeps and not _kept_all(attempt, scanned, joined, job):
        attempt.statement.discard()
        plan = replace(plan, keeps=False)
        joined, job = _run(attempt, plan, scanned)
    scan_time = attempt.milliseconds()
    inserts_later = plan.split and bool(request.not_matched) and (plan.keys is None or len(job.source) < plan.keys.rows)
    _note_reads(attempt, plan, job, inserts_later)
    effect = Effect()
    if plan.keeps:
        effect = replace_files(attempt, scanned, job, _new_rows(joined, job))
    elif job.positions:
        effect = replace_rows(attempt, scanned, job.positions)
    jobs = [job]
    if inserts_later:
        attempt.statement.last_step("insert rows without a match")
        inserting = _inserting(attempt, plan, scanned, changes=bool(job.changes))
        jobs.append(run_job(attempt, inserting, plan.files))
    if plan.identities:
        _advance(attempt, plan.identities, jobs[-1])
    for done in jobs:
        attempt.txn.add(done.written.files)
        for change in done.changes:
            attempt.txn.add_action(change)
    return _end(attempt, plan, jobs, effect, scan_time)


def _note_reads(attempt: Attempt, plan: _Plan, job: Job, inserts_later: bool) -> None:
    """What of the table the result depends on: the rows with the source's keys, where these are known."""
    request = attempt.request
    predicates = [*request.predicates, *(plan.keys.predicates if plan.keys else ())]
    noted = inserts_later if plan.split else _notes_all(attempt, plan) and (bool(request.not_matched) or job.replaced)
    if plan.exact and (plan.kept or noted):
        attempt.txn.read_keys(reads(attempt, plan.exact, plan.source if plan.kept else None), predicates)
    else:
        read(attempt, [] if request.not_matched_by_source else predicates)


def _notes_all(attempt: Attempt, plan: _Plan) -> bool:
    """Whether the join's job is sure to read all of the source, if it finds a match at all."""
    return bool(attempt.request.not_matched) or plan.alone


def _run(attempt: Attempt, plan: _Plan, scanned: Scan) -> tuple[Joined, Job]:
    """The join's job.

    :raises HeadwaterError: ``DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE``.
    """
    joined = _joined(attempt, plan, scanned)
    number, of = (2, 3) if plan.split or plan.keys else (1, steps(attempt, plan.keeps))
    attempt.statement.step("find matching rows", number, of)
    job = run_job(attempt, _rewrite(attempt, plan, joined), plan.files, planned_ahead=plan.broadcast)
    if joined.unique and job.repeated:
        raise HeadwaterError(
            "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE",
            {"tableName": attempt.request.name, "count": job.repeated},
        )
    return joined, job


def _new_rows(joined: Joined, job: Job) -> int:
    return sum(job.actions.get(action.number, 0) for action in joined.actions if action.writes)


def _kept_all(attempt: Attempt, scanned: Scan, joined: Joined, job: Job) -> bool:
    """Whether a job that was to write the rows that stay, too, did no more and no less.

    A row that several rows of the source match, of which a clause acts on one or none, comes several times. And where
    rows are but inserted, the file they would be in has no need to go.
    """
    new = _new_rows(joined, job)
    if not job.positions:
        return new == 0
    return kept_rows(job, new) == live_rows(attempt, scanned.files) - job.replaced


def _check(attempt: Attempt) -> None:
    request = attempt.request
    if request.matched or request.not_matched_by_source:
        check_appends_only(attempt)
    for clause in [*request.matched, *request.not_matched_by_source]:
        check_identity_unassigned(attempt, clause.assigned)
    given = {name for clause in request.not_matched for name in clause.assigned}
    for column in identity_columns(attempt.target.schema):
        if column.name.lower() in given and not column.allow_explicit_insert:
            raise HeadwaterError("DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED", {"columnName": column.name})


def _plan(attempt: Attempt) -> _Plan:
    """The strategy: which files, and how the source is read."""
    request, snapshot, statement = attempt.request, attempt.snapshot, attempt.statement
    assert request.source is not None
    files = snapshot.files
    everywhere = bool(request.not_matched_by_source)
    if request.predicates and not everywhere:
        files = files.filter(prune_all(snapshot, request.predicates, "UTC"))
    identities = _generated_identities(attempt)
    others = bool(request.matched or request.not_matched_by_source)
    if not identities and (at_once := _at_once(attempt, files)) is not None:
        return at_once
    plan = _Plan(files, request.source, identities=identities)
    # The size of the snapshot that sources and subqueries see must be known before they are looked at.
    scan(attempt, files.slice(0, 0))
    keys = usable(request.keys) if not everywhere and files.num_rows > 1 else []

    def prune() -> None:
        statement.step("read the source's keys", 1, 3)
        plan.keys = ask(statement, plan.source, keys)
        plan.files = _pruned(snapshot, files, request.predicates, plan.keys.predicates)

    if keys and request.source_is_scan:
        prune()
        if not identities and not _is_large(plan.files, statement):
            return _narrowed(attempt, plan)
    small = _is_small_source(attempt)
    split = bool(request.not_matched) and (small or (bool(identities) and others))
    # Spark calls a source deterministic that has other rows each time it is read: a LIMIT, say, without an order.
    unsteady = not request.source_is_scan and (bool(keys) or small)
    if split or not request.source_deterministic or unsteady:
        source = numbered(request, request.source) if split else relation(request.source)
        plan.source = statement.keep(f"SELECT * FROM {source}")
        plan.split, plan.kept, plan.broadcast = split, split, small
    if keys and plan.keys is None:
        prune()
    return plan


def _at_once(attempt: Attempt, files: pa.Table) -> _Plan | None:
    """All of the source is read by one job, and the inserts are part of it; None where the target is too large."""
    request = attempt.request
    assert request.source is not None
    if _is_large(files, attempt.statement):
        rewritten = (
            bool(request.not_matched_by_source) and _may_keep(attempt) and total_bytes(files) <= _REWRITTEN_BYTES
        )
        return _Plan(files, request.source, keeps=True) if rewritten else None
    alone = total_bytes(files) + (request.source_bytes or 0) <= SMALL_JOB_BYTES
    replaces = bool(request.matched or request.not_matched_by_source)
    return _Plan(files, request.source, alone=alone, keeps=alone and replaces and replaces_whole(attempt, files))


def _narrowed(attempt: Attempt, plan: _Plan) -> _Plan:
    """The same, where the source's keys left little to read: what is read is written anew."""
    request = attempt.request
    # A row that several delete, told once to be deleted, would come again as one that stays.
    told_once = attempt.writes_changes and deletes_all_matched(request)
    if _may_keep(attempt) and request.condition_deterministic and not told_once:
        plan.keeps = plan.split = plan.broadcast = _is_small_source(attempt)
    return plan


def _may_keep(attempt: Attempt) -> bool:
    """Whether the join's job may write the rows that stay, too."""
    request = attempt.request
    changes_rows = bool(request.matched or request.not_matched_by_source)
    return changes_rows and not attempt.writes_vectors and not request.runs_python


def _is_small_source(attempt: Attempt) -> bool:
    request = attempt.request
    assert request.source is not None
    # What reads files reads no more of them once it is optimised, which takes its time.
    told = request.source_bytes if request.source_is_scan else None
    if told is not None and told <= _SMALL_SOURCE_BYTES:
        return True
    return attempt.statement.plan_size(request.source) <= _SMALL_SOURCE_BYTES


def _is_large(files: pa.Table, statement: Statement) -> bool:
    return total_bytes(files) > statement.whole_number(_SMALL_TARGET, _SMALL_TARGET_BYTES)


def _pruned(snapshot: Snapshot, files: pa.Table, predicates: Sequence[str], keys: Sequence[str]) -> pa.Table:
    return snapshot.files.filter(prune_all(snapshot, [*predicates, *keys], "UTC")) if keys else files


def _generated_identities(attempt: Attempt) -> list[IdentityColumn]:
    """Identity columns that inserts leave out."""
    if not attempt.request.not_matched:
        return []
    given = {name for clause in attempt.request.not_matched for name in clause.assigned}
    return [c for c in identity_columns(attempt.target.schema) if c.name.lower() not in given]


def _joined(attempt: Attempt, plan: _Plan, scanned: Scan, *, counts: bool = True) -> Joined:
    """How target and source are brought together.

    :param counts: whether the job is to count the source's rows, where they are not known.
    """
    changes = attempt.writes_changes
    source = relation(plan.source) if plan.kept or not plan.split else numbered(attempt.request, plan.source)
    if counts and plan.keys is None:
        source = counted(source)
    if not plan.split and _notes_all(attempt, plan):
        source = noting(source, plan.exact)
    if plan.split:
        return join_matched(
            attempt.request, scanned, source, changes=changes, broadcast=plan.broadcast, keeps=plan.keeps
        )
    return join(attempt.request, scanned, source, changes=changes, alone=plan.alone, keeps=plan.keeps)


def _rewrite(attempt: Attempt, plan: _Plan, joined: Joined) -> Rewrite:
    only_inserts = all(action.clause.kind == "insert" for action in joined.actions)
    return compose(
        attempt,
        joined.rows,
        joined.actions,
        changes=attempt.writes_changes and not only_inserts,
        identities=() if plan.split else plan.identities,
        source_rows=joined.source_rows,
        keeps=joined.keeps,
    )


def _inserting(attempt: Attempt, plan: _Plan, scanned: Scan, *, changes: bool) -> Rewrite:
    """The inserts, where they are a job of their own."""
    request, source = attempt.request, plan.source
    if plan.kept:
        joined = unmatched_source(request, source)
    else:
        joined = join_unmatched(request, scanned, noting(relation(source), plan.exact))
    return compose(attempt, joined.rows, joined.actions, changes=changes, identities=plan.identities)


def _advance(attempt: Attempt, identities: Sequence[IdentityColumn], job: Job) -> None:
    schema = advanced_identities(attempt.target, identities, job.raw)
    if schema is not None:
        with_schema(attempt, schema_string(schema))


def _end(attempt: Attempt, plan: _Plan, jobs: Sequence[Job], effect: Effect, scan_time: int) -> dict[str, Any]:
    request = attempt.request
    acted = {number: sum(job.actions.get(number, 0) for job in jobs) for number in range(_clauses(request))}
    matched, unmatched = len(request.matched), len(request.matched) + len(request.not_matched)

    def rows(kind: str, clauses: Sequence[Clause], first: int) -> int:
        return sum(acted[i] for i, clause in enumerate(clauses, first) if clause.kind == kind)

    by_source = request.not_matched_by_source
    matched_updated = rows("update", request.matched, 0)
    source_updated = rows("update", by_source, unmatched)
    source_deleted = rows("delete", by_source, unmatched)
    # Several matches of a row that is deleted count once.
    matched_deleted = sum(job.replaced for job in jobs) - matched_updated - source_updated - source_deleted
    inserted = rows("insert", request.not_matched, matched)
    updated, deleted = matched_updated + source_updated, matched_deleted + source_deleted
    written = [*(file for job in jobs for file in job.written.files), *effect.copied.files]
    gone = [number for number in effect.removed if number not in effect.marked]
    metrics = {
        "numSourceRows": plan.keys.rows if plan.keys else jobs[0].source_rows,
        "numTargetRowsInserted": inserted,
        "numTargetRowsUpdated": updated,
        "numTargetRowsMatchedUpdated": matched_updated,
        "numTargetRowsNotMatchedBySourceUpdated": source_updated,
        "numTargetRowsDeleted": deleted,
        "numTargetRowsMatchedDeleted": matched_deleted,
        "numTargetRowsNotMatchedBySourceDeleted": source_deleted,
        "numTargetRowsCopied": effect.copied.rows,
        "numOutputRows": inserted + updated + effect.copied.rows,
        "numTargetFilesAdded": len(written),
        "numTargetBytesAdded": sum(file.size for file in written),
        "numTargetFilesRemoved": effect.files_gone,
        "numTargetBytesRemoved": total_bytes(plan.files.take(pa.array(gone, pa.int64()))),
        "numTargetChangeFilesAdded": sum(len(job.changes) for job in jobs),
        "numTargetDeletionVectorsAdded": effect.vectors_added,
        "numTargetDeletionVectorsUpdated": effect.vectors_updated,
        "numTargetDeletionVectorsRemoved": effect.vectors_removed,
        "scanTimeMs": scan_time,
        "rewriteTimeMs": attempt.milliseconds() - scan_time,
    }
    parameters = {
        "predicate": [request.condition_text],
        "matchedPredicates": _predicates(request.matched),
        "notMatchedPredicates": _predicates(request.not_matched),
        "notMatchedBySourcePredicates": _predicates(by_source),
    }
    return end(attempt, "MERGE", parameters, metrics, [updated + deleted + inserted, updated, deleted, inserted])


def _clauses(request: DmlRequest) -> int:
    return len(request.matched) + len(request.not_matched) + len(request.not_matched_by_source)


def _predicates(clauses: Sequence[Clause]) -> list[dict[str, str]]:
    told = []
    for clause in clauses:
        condition = {"predicate": clause.condition_text} if clause.condition_text is not None else {}
        told.append({**condition, "actionType": clause.kind})
    return told


def explain(request: dict[str, Any], statement: Statement, mode: str) -> str:
    """What the statement would do. The source is not read, so its keys narrow nothing here."""
    attempt = begin(DmlRequest.of(request), statement)
    _check(attempt)
    wanted, snapshot = attempt.request, attempt.snapshot
    assert wanted.source is not None
    files = snapshot.files
    if wanted.predicates and not wanted.not_matched_by_source:
        files = files.filter(prune_all(snapshot, wanted.predicates, "UTC"))
    shown = Explanation(attempt, "MERGE", mode)
    shown.files(files.num_rows, total_bytes(files))
    scanned = scan(attempt, files)
    at_once = _at_once(attempt, files)
    plan = at_once or _Plan(files, wanted.source)
    joined = _joined(attempt, plan, scanned, counts=False)
    if not wanted.matched and not wanted.not_matched_by_source:
        shown.strategy("insert-only", "no clause changes rows of the table: an anti join finds what is new")
    else:
        shown.rewriting(f"{joined.name} of target and source")
    keys = usable(wanted.keys)
    if keys and not wanted.not_matched_by_source and at_once is None:
        names = ", ".join(key.column for key in keys)
        shown.note(f"When it runs, the source's values of {names} narrow the files further.")
    shown.query(_rewrite(attempt, plan, joined))
    if (wanted.matched or wanted.not_matched_by_source) and not plan.keeps:
        shown.copying()
    return shown.text()
