"""MERGE: rows of a source update, delete and insert rows of a table.

In this order: prune the target's files, by the condition ON and by those of the clauses WHEN NOT MATCHED BY SOURCE;
choose a strategy (:mod:`headwater.statements.dml.strategy`), which may take reading the source's keys, and with them
prune again; cache the source, if the strategy reads it twice; join target and source
in a job that writes new rows and notes the positions of the rows they replace; insert the source's unmatched rows in a
job of its own, if the join does not have them; remove the replaced rows from their files; commit.

EXPLAIN makes the same plan and shows the queries of the same jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from headwater.basics.amounts import size_text
from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.change import ChangeRequest
from headwater.bridge.messages.define import CommitAnswer
from headwater.bridge.statement import Statement
from headwater.log.snapshot import Snapshot
from headwater.pruning import prune_all
from headwater.pruning.predicates import Predicate
from headwater.schema.identity import IdentityColumn, identity_columns
from headwater.sql.composing import STAR, Relation, Rows, select
from headwater.statements.calls import call
from headwater.statements.dml.attempt import Attempt, begin, check_appends_only, run, unless_done
from headwater.statements.dml.descriptions import Explanation
from headwater.statements.dml.ending import FileMetrics, end, note_kept_keys, note_reads
from headwater.statements.dml.identities import advance_identities, generated_identities
from headwater.statements.dml.indexed_keys import indexes_of_source, rows_of_keys
from headwater.statements.dml.join import (
    Joined,
    counting,
    deletes_all_matched,
    join_all,
    join_matched,
    join_unmatched,
    rows_not_noted,
    with_row_numbers,
)
from headwater.statements.dml.key_reads import exact_keys, key_reads, noting
from headwater.statements.dml.outcome import (
    Effect,
    Job,
    kept_rows,
    replace_rows,
    replace_whole_files,
    replaces_whole,
    run_job,
    steps,
)
from headwater.statements.dml.request import Clause, DmlRequest, Key
from headwater.statements.dml.rewrite import Output, Rewrite, compose_rewrite
from headwater.statements.dml.scan import Scan, note_predicates, scan_files, total_bytes
from headwater.statements.dml.source_keys import (
    AskedIndex,
    SourceKeys,
    read_source_keys,
    source_keys_without_jobs,
    usable,
)
from headwater.statements.dml.strategy import SMALL_SOURCE_BYTES, Facts, Inserts, Needed, Strategy, choose
from headwater.statements.dml.update import check_identity_unassigned
from headwater.statements.files.data_footers import live_rows
from headwater.statements.files.indexed_rows import IndexedRows
from headwater.statements.settings import SMALL_TARGET


@call(commits=True, in_transaction=True)
def merge(request: ChangeRequest, statement: Statement) -> CommitAnswer:
    """Merge; the answer's ``counts`` is ``[affected, updated, deleted, inserted]``."""
    return run(DmlRequest(request), statement, unless_done(merge_once, counts=4))


def merge_once(attempt: Attempt) -> CommitAnswer:
    """One attempt at a MERGE."""
    _check(attempt)
    plan = _plan(attempt)
    if plan.strategy.caches_source:
        plan = _with_cached_source(attempt, plan)
    scanned = _scanned(attempt, plan)
    joined, job = _run_join(attempt, plan, scanned)
    if plan.strategy.otherwise is not None and not _has_each_row_once(attempt, scanned, joined, job):
        attempt.statement.discard()
        plan = replace(plan, strategy=plan.strategy.otherwise)
        joined, job = _run_join(attempt, plan, scanned)
    scan_time = attempt.milliseconds()
    inserts_later = _inserts_later(attempt, plan, job)
    _note_reads(attempt, plan, job, inserts_later)
    effect = Effect()
    if plan.strategy.writes_unchanged_rows:
        effect = replace_whole_files(attempt, scanned, job, new=_new_rows(joined, job))
    elif job.positions:
        effect = replace_rows(attempt, scanned, job.positions)
    jobs = [job]
    if inserts_later:
        attempt.statement.last_step("insert rows without a match")
        inserting = _inserting(attempt, plan, scanned, changes=bool(job.changes))
        jobs.append(run_job(attempt, inserting, plan.files))
    if plan.identities:
        advance_identities(attempt, plan.identities, jobs[-1])
    for done in jobs:
        attempt.txn.add(done.written.files)
        for change in done.changes:
            attempt.txn.add_action(change)
    return _end(attempt, plan, jobs, effect, scan_time)


def explain(request: ChangeRequest, statement: Statement, mode: str) -> str:
    """What the statement would do. No job is run: what the source's keys prune may be unknown."""
    attempt = begin(DmlRequest(request), statement)
    _check(attempt)
    plan = _plan(attempt, runs_jobs=False)
    strategy, wanted = plan.strategy, attempt.request
    scanned = _scanned(attempt, plan)
    joined = _joined(attempt, plan, scanned)
    shown = Explanation(attempt, "MERGE", mode)
    shown.files(plan.files.num_rows, total_bytes(plan.files))
    if wanted.not_matched_by_source:
        shown.note(_by_source(attempt, plan))
    if _changes_rows(wanted):
        shown.rewriting(f"{joined.name} of target and source")
    else:
        shown.strategy("insert-only", f"no clause changes rows of the table; {joined.name} of target and source")
    shown.note(f"Jobs: {strategy.name}: {strategy.reason}")
    if plan.reads_keys and (asked := _asked(attempt)):
        shown.note(
            f"Index: when it runs, {asked[0].index.name} says which rows have the source's keys, if that reads less."
        )
    if plan.keys is None and plan.reads_keys:
        shown.note(_unread_keys(attempt, plan))
    if strategy.otherwise is not None:
        shown.note(
            "If the join's job shows that a row of the table would be written twice, or only rows to insert, it is "
            f"repeated: {strategy.otherwise.name}."
        )
    shown.query(_rewrite(attempt, plan, joined))
    if strategy.inserts_apart and wanted.not_matched:
        inserting = _inserting(attempt, plan, scanned, changes=attempt.writes_changes and _changes_rows(wanted))
        shown.query(inserting, "Insert job, left out if each row of the source is known to have a match")
    if _changes_rows(wanted) and not strategy.writes_unchanged_rows:
        shown.copying()
    return shown.text()


def _unread_keys(attempt: Attempt, plan: _Plan) -> str:
    names = ", ".join(key.column for key in usable(attempt.request.keys))
    note = f"When it runs, the source's values of {names} narrow the files further"
    few = choose(replace(plan.facts, bytes_left=0))
    if isinstance(few, Strategy) and few != plan.strategy:
        note += f"; if they leave at most {size_text(plan.facts.small_target_bytes)}, the jobs are: {few.name}"
    return f"{note}."


def _by_source(attempt: Attempt, plan: _Plan) -> str:
    found = plan.facts.by_source_files
    some = "every file" if found == attempt.snapshot.num_files else f"{found} of these files"
    return f"WHEN NOT MATCHED BY SOURCE may select rows of {some}."


def _check(attempt: Attempt) -> None:
    request = attempt.request
    if _changes_rows(request):
        check_appends_only(attempt)
    for clause in [*request.matched, *request.not_matched_by_source]:
        check_identity_unassigned(attempt, clause.assigned)
    given = {name for clause in request.not_matched for name in clause.assigned}
    for column in identity_columns(attempt.target.schema):
        if column.name.lower() in given and not column.allow_explicit_insert:
            raise HeadwaterError("DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED", {"columnName": column.name})


# -- The plan ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Plan:
    """How the statement runs.

    :param facts: what chose the strategy.
    :param files: rows of ``snapshot.files`` that may have matches, or rows that WHEN NOT MATCHED BY SOURCE selects.
    :param source: the relation to join; ``is_cached``: whether it is the cached source.
    :param counts_source: whether the join's job counts the source's rows.
    :param keys: what is known of the source's keys.
    :param identities: identity columns that inserts leave out.
    :param exact: the keys that identify the rows the statement depends on.
    :param indexed: what an index leaves of the files, by the source's keys.
    """

    strategy: Strategy
    facts: Facts
    files: pa.Table
    source: int
    is_cached: bool = False
    counts_source: bool = True
    keys: SourceKeys | None = None
    identities: Sequence[IdentityColumn] = ()
    exact: Sequence[Key] = ()
    indexed: IndexedRows | None = None

    @property
    def reads_keys(self) -> bool:
        """Whether the source's keys are read before it is joined."""
        return self.facts.bytes_left is not None or (self.facts.keys_prune and self.strategy.caches_source)

    @property
    def notes_all_keys(self) -> bool:
        """Whether the join's job is certain to read the whole source, if it finds a match at all."""
        return self.facts.inserts or self.strategy.in_one_task


def _plan(attempt: Attempt, *, runs_jobs: bool = True) -> _Plan:
    """The strategy and the files, before the source is cached.

    :param runs_jobs: False for EXPLAIN: keys that only a job can read are unknown, and prune no files.
    """
    request, statement = attempt.request, attempt.statement
    assert request.message.source is not None
    files, keys, indexed = _files(attempt), None, None
    identities = generated_identities(attempt)
    facts = _facts(attempt, files, fills_identities=bool(identities))
    choice = choose(facts)
    while isinstance(choice, Needed):
        if choice is Needed.SOURCE_KEYS:
            keys = _read_keys(attempt, request.message.source, runs_jobs)
            if keys is not None:
                files, indexed = _left(attempt, request.message.source, keys, runs_jobs)
            facts = replace(facts, bytes_left=total_bytes(files))
        else:
            facts = replace(facts, source_is_small=statement.plan_size(request.message.source) <= SMALL_SOURCE_BYTES)
        choice = choose(facts)
    note_predicates(attempt, files)
    return _Plan(
        strategy=choice,
        facts=facts,
        files=files,
        source=request.message.source,
        counts_source=keys is None and runs_jobs,
        keys=keys,
        identities=identities,
        exact=exact_keys(attempt) if runs_jobs and not identities else (),
        indexed=indexed,
    )


def _files(attempt: Attempt) -> pa.Table:
    """The files with rows that the result may depend on, whatever the source's keys are."""
    return attempt.snapshot.files.filter(_selected(attempt.snapshot, _reads(attempt.request, None)))


def _left(attempt: Attempt, source: int, keys: SourceKeys, runs_jobs: bool) -> tuple[pa.Table, IndexedRows | None]:
    """The files that the source's keys leave of these, and what an index leaves of their rows."""
    request, snapshot = attempt.request, attempt.snapshot
    selected = _selected(snapshot, _reads(request, keys))
    indexed = None
    if runs_jobs:
        indexed = rows_of_keys(attempt.statement, snapshot, source, _asked(attempt), keys, selected)
    return snapshot.files.filter(selected if indexed is None else indexed.files), indexed


def _scanned(attempt: Attempt, plan: _Plan) -> Scan:
    """The target: all rows of the files where the job also writes the unchanged ones."""
    every = plan.strategy.writes_unchanged_rows
    only = None if every or plan.indexed is None else plan.indexed.rows
    return scan_files(attempt, plan.files, every_row=every, only=only)


def _reads(request: DmlRequest, keys: SourceKeys | None) -> list[Sequence[Predicate]]:
    """The rows of the target that the result may depend on: each item's rows are those for which all its predicates are
    true.

    These are the rows that may have a match, if matches matter, and those that a clause WHEN NOT MATCHED BY SOURCE
    selects. The source's keys say nothing of the latter. A row that only such a clause selects has no match, and the
    join, which has the whole condition, finds none.
    """
    may_match = [*request.predicates, *(keys.predicates if keys else ())]
    by_source = _by_source_reads(request)
    return [may_match, *by_source] if request.matched or request.not_matched else by_source


def _by_source_reads(request: DmlRequest) -> list[Sequence[Predicate]]:
    return [clause.predicates for clause in request.not_matched_by_source]


def _selected(snapshot: Snapshot, reads: Sequence[Sequence[Predicate]]) -> pa.BooleanArray:
    """For each file of the version, whether it may have rows of one of the reads."""
    if not all(reads):
        return pa.repeat(pa.scalar(True), snapshot.num_files)
    every = (prune_all(snapshot, predicates) for predicates in reads)
    return reduce(pc.or_, every, pa.repeat(pa.scalar(False), snapshot.num_files))


def _facts(attempt: Attempt, files: pa.Table, *, fills_identities: bool) -> Facts:
    request = attempt.request
    # A source that only reads files reads no fewer of them once Spark has optimised it, which takes its time.
    estimate = request.message.source_bytes if request.message.source_is_scan else None
    return Facts(
        target_files=files.num_rows,
        target_bytes=total_bytes(files),
        source_bytes=request.message.source_bytes,
        source_is_scan=request.message.source_is_scan,
        source_deterministic=request.message.source_deterministic,
        changes_rows=_changes_rows(request),
        inserts=bool(request.not_matched),
        not_matched_by_source=bool(request.not_matched_by_source),
        by_source_files=_selected(attempt.snapshot, _by_source_reads(request)).true_count,
        fills_identities=fills_identities,
        has_keys=bool(usable(request.keys)),
        may_rewrite=(
            _changes_rows(request)
            and not attempt.writes_vectors
            and attempt.judging is None
            and not request.message.runs_python
        ),
        rewrites_whole=replaces_whole(attempt, files),
        condition_deterministic=request.message.condition_deterministic,
        deletes_each_once=attempt.writes_changes and deletes_all_matched(request),
        small_target_bytes=small_target_bytes(attempt.statement),
        source_is_small=True if estimate is not None and estimate <= SMALL_SOURCE_BYTES else None,
    )


def small_target_bytes(statement: Statement) -> int:
    """Bytes up to which all files of a target are read: finding those that can have the source's keys takes longer."""
    return SMALL_TARGET.of(statement)


def _read_keys(attempt: Attempt, source: int, runs_jobs: bool) -> SourceKeys | None:
    statement, keys = attempt.statement, usable(attempt.request.keys)
    if not runs_jobs:
        return source_keys_without_jobs(statement, source, keys)
    statement.step("read the source's keys", 1, 3)
    return read_source_keys(statement, source, keys, _asked(attempt))


def _asked(attempt: Attempt) -> list[AskedIndex]:
    """The indexes that may know the source's keys. A clause WHEN NOT MATCHED BY SOURCE acts on rows with others."""
    return [] if attempt.request.not_matched_by_source else indexes_of_source(attempt)


def _with_cached_source(attempt: Attempt, plan: _Plan) -> _Plan:
    """The plan with the source cached, and with fewer files where its keys are read only now."""
    source = Relation(plan.source)
    query = with_row_numbers(attempt.request, source) if plan.strategy.inserts_apart else select(STAR, rows=source)
    plan = replace(plan, source=attempt.statement.keep(query.text()), is_cached=True)
    if not plan.reads_keys or plan.keys is not None:
        return plan
    keys = _read_keys(attempt, plan.source, True)
    assert keys is not None
    files, indexed = _left(attempt, plan.source, keys, True)
    return replace(plan, keys=keys, files=files, indexed=indexed, counts_source=False)


def _changes_rows(request: DmlRequest) -> bool:
    return bool(request.matched or request.not_matched_by_source)


# -- The jobs ----------------------------------------------------------------------------------------------------------


def _run_join(attempt: Attempt, plan: _Plan, scanned: Scan) -> tuple[Joined, Job]:
    """The join's job.

    :raises HeadwaterError: ``DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE``.
    """
    strategy = plan.strategy
    joined = _joined(attempt, plan, scanned)
    three = strategy.inserts_apart or plan.keys is not None
    number, of = (2, 3) if three else (1, steps(attempt, strategy.writes_unchanged_rows))
    attempt.statement.step("find matching rows", number, of)
    job = run_job(attempt, _rewrite(attempt, plan, joined), plan.files, planned_ahead=strategy.is_planned_ahead)
    if joined.is_unique and job.repeated:
        raise HeadwaterError(
            "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE",
            {"tableName": attempt.request.message.name, "count": job.repeated},
        )
    return joined, job


def _joined(attempt: Attempt, plan: _Plan, scanned: Scan) -> Joined:
    """The join of target and source."""
    request, strategy = attempt.request, plan.strategy
    source = _numbered_source(attempt, plan) if strategy.inserts_apart else Relation(plan.source)
    if plan.counts_source:
        source = counting(source)
    if strategy.inserts_apart:
        return join_matched(request, scanned, source, strategy, changes=attempt.writes_changes)
    source = noting(source, plan.exact) if plan.notes_all_keys else source
    return join_all(request, scanned, source, strategy, changes=attempt.writes_changes)


def _numbered_source(attempt: Attempt, plan: _Plan) -> Rows:
    """The source with a number for each row; in the cached source, rows have theirs."""
    source = Relation(plan.source)
    return source if plan.is_cached else with_row_numbers(attempt.request, source)


def _rewrite(attempt: Attempt, plan: _Plan, joined: Joined) -> Rewrite:
    only_inserts = all(action.clause.kind == "insert" for action in joined.actions)
    output = Output(
        changes=attempt.writes_changes and not only_inserts,
        identities=() if plan.strategy.inserts_apart else plan.identities,
        notes_source_rows=joined.notes_source_rows,
        writes_unchanged_rows=joined.has_unchanged_rows,
        in_one_task=plan.strategy.in_one_task,
    )
    return compose_rewrite(attempt, joined.rows, joined.actions, output)


def _inserting(attempt: Attempt, plan: _Plan, scanned: Scan, *, changes: bool) -> Rewrite:
    """The inserts, where they are a job of their own.

    :param changes: whether they are also written as change data, because the commit has other change data.
    """
    if plan.strategy.inserts is Inserts.FROM_CACHE:
        joined = rows_not_noted(attempt.request, _numbered_source(attempt, plan))
    else:
        joined = join_unmatched(attempt.request, scanned, noting(Relation(plan.source), plan.exact))
    return compose_rewrite(attempt, joined.rows, joined.actions, Output(changes, plan.identities))


def _new_rows(joined: Joined, job: Job) -> int:
    return sum(job.actions.get(action.number, 0) for action in joined.actions if action.writes)


def _has_each_row_once(attempt: Attempt, scanned: Scan, joined: Joined, job: Job) -> bool:
    """Whether a job that had to write the unchanged rows as well wrote each of them once.

    A row that several rows of the source match, of which a clause acts on one or none, comes several times. And where
    rows are only inserted, no file needs to be replaced.
    """
    new = _new_rows(joined, job)
    if not job.positions:
        return new == 0
    return kept_rows(job, new) == sum(live_rows(attempt.snapshot, scanned.files)) - job.replaced


def _inserts_later(attempt: Attempt, plan: _Plan, job: Job) -> bool:
    """Whether a job for the inserts follows: not where each row of the source is known to have a match."""
    if not plan.strategy.inserts_apart or not attempt.request.not_matched:
        return False
    return plan.keys is None or len(job.source) < plan.keys.rows


# -- The result --------------------------------------------------------------------------------------------------------


def _note_reads(attempt: Attempt, plan: _Plan, job: Job, inserts_later: bool) -> None:
    """Note the rows the result depends on: those with the source's keys, where these are known, and those that a clause
    WHEN NOT MATCHED BY SOURCE selects.
    """
    request, strategy = attempt.request, plan.strategy
    cached = plan.source if strategy.inserts is Inserts.FROM_CACHE else None
    if strategy.inserts_apart:
        are_noted = inserts_later
    else:
        has_match = any(job.actions.get(number) for number in range(len(request.matched)))
        are_noted = plan.notes_all_keys and (bool(request.not_matched) or has_match)
    if plan.exact and (cached is not None or are_noted):
        may_match = [*request.predicates, *(plan.keys.predicates if plan.keys else ())]
        attempt.txn.read_keys(key_reads(attempt, plan.exact, cached), may_match)
        note_reads(attempt, *_by_source_reads(request))
    else:
        note_reads(attempt, *_reads(request, plan.keys))


def _end(attempt: Attempt, plan: _Plan, jobs: Sequence[Job], effect: Effect, scan_time: int) -> CommitAnswer:
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
    of_files = FileMetrics.of(
        attempt, effect, plan.files, [job.written for job in jobs], sum(len(job.changes) for job in jobs), scan_time
    )
    metrics = {
        "numSourceRows": plan.keys.rows if plan.keys else jobs[0].source_rows,
        "numTargetRowsInserted": inserted,
        "numTargetRowsUpdated": updated,
        "numTargetRowsMatchedUpdated": matched_updated,
        "numTargetRowsNotMatchedBySourceUpdated": source_updated,
        "numTargetRowsDeleted": deleted,
        "numTargetRowsMatchedDeleted": matched_deleted,
        "numTargetRowsNotMatchedBySourceDeleted": source_deleted,
        "numOutputRows": inserted + updated + effect.copied.rows,
        **of_files.of_target(),
    }
    parameters = {
        "predicate": [request.message.condition_text],
        "matchedPredicates": _predicates(request.matched),
        "notMatchedPredicates": _predicates(request.not_matched),
        "notMatchedBySourcePredicates": _predicates(by_source),
    }
    note_kept_keys(attempt)
    return end(attempt, "MERGE", parameters, metrics, [updated + deleted + inserted, updated, deleted, inserted])


def _clauses(request: DmlRequest) -> int:
    return len(request.matched) + len(request.not_matched) + len(request.not_matched_by_source)


def _predicates(clauses: Sequence[Clause]) -> list[dict[str, str]]:
    described = []
    for clause in clauses:
        condition = {"predicate": clause.condition_text} if clause.condition_text is not None else {}
        described.append({**condition, "actionType": clause.kind})
    return described
