"""MAINTAIN TABLE: does what the findings of a table's health advise, the worst first, within a budget of time.

Owns the run of a plan (:mod:`headwater.statements.maintenance.planning`), what each action compared before and after,
and the marks of ALTER TABLE … PREDICTIVE OPTIMIZATION. Each action is the statement that does the same by itself, with
its commits, its history and its way with other writers. Promises: an action that loses to a writer, fails or is refused
is a row of the report, and the next one goes on; none begins that would not end in time, by its estimate; VACUUM keeps
what the table's retention says, never less; two runs on one table at once do no harm: the slower one finds nothing left
to do, or loses.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JJavaError

from headwater.basics import clock
from headwater.basics.amounts import plural, size_text
from headwater.basics.errors import HeadwaterError, illegal_option, plain_reason
from headwater.bridge.messages.define import (
    AlterTableRequest,
    ClusterBy,
    CommitAnswer,
    RemoveProperty,
    RowsAnswer,
    SetProperty,
)
from headwater.bridge.messages.maintain import (
    AnalyzeTableArguments,
    AnalyzeTableRequest,
    MaintainTableDryRunRequest,
    MaintainTableRequest,
    MarkTableRequest,
    OptimizeArguments,
    OptimizeRequest,
    VacuumArguments,
    VacuumRequest,
)
from headwater.bridge.statement import Statement
from headwater.catalogs.interface import Maintenance
from headwater.catalogs.log_view import is_allowed, is_published, refused_by_catalog
from headwater.key_index.definition import indexes
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.statements.calls import own_statement
from headwater.statements.expressions import number_of
from headwater.statements.maintenance import key_indexes, predicate_use
from headwater.statements.maintenance.budget import Budget, pace_of, rewrite_seconds
from headwater.statements.maintenance.clustering_choice import propose
from headwater.statements.maintenance.compute_statistics import analyze_table
from headwater.statements.maintenance.findings import in_statements
from headwater.statements.maintenance.health import by_section, health, vacuum_figures, whole_log
from headwater.statements.maintenance.layouts import Layout, Settings, own_layout
from headwater.statements.maintenance.optimize import Run
from headwater.statements.maintenance.planning import (
    CLUSTER_BY,
    DONE,
    FAILED,
    LOST,
    MAINTAIN_SCHEMA,
    NOTHING,
    PARTLY,
    PLANNED,
    REFUSED,
    SKIPPED,
    Action,
    over_budget,
    plan,
    with_proposal,
    within,
)
from headwater.statements.maintenance.reorg import Purge
from headwater.statements.maintenance.vacuum import vacuum
from headwater.statements.running.committing import check_target, checkpoint_layout
from headwater.statements.running.opening import open_snapshot
from headwater.statements.running.rerunning import RETRIED
from headwater.statements.settings import PREDICATE_USE
from headwater.statements.tables.alter import alter_table
from headwater.transaction.maintenance import checkpoint
from headwater.transaction.same_table import writing_to_same_table

_LOG = logging.getLogger(__name__)
#: What a catalog that manages a table has to allow for an action; nothing for the others.
_ALLOWED_BY = {
    "OPTIMIZE": Maintenance.DATA_REORGANIZATION,
    "REORG": Maintenance.DATA_REORGANIZATION,
    "VACUUM": Maintenance.DATA_CLEANUP,
}
_AnyRequest = MaintainTableRequest | MaintainTableDryRunRequest


@own_statement("maintain", output=MAINTAIN_SCHEMA, commits=True, in_transaction=False, words="MAINTAIN TABLE")
def maintain_table(request: MaintainTableRequest, statement: Statement) -> CommitAnswer:
    """Maintain a table; a row of :data:`~headwater.statements.maintenance.planning.MAINTAIN_SCHEMA` for each action.

    :raises HeadwaterError: ``DELTA_ILLEGAL_OPTION`` for a budget that is not above 0, those of opening a table and of
        :func:`~headwater.statements.running.committing.check_target`.
    """
    statement.goes_on = True
    run = _Run(request, statement)
    check_target(request.table, statement, run.snapshot)
    done: list[Action] = []
    actions = run.plan()
    if actions and actions[0].kind == CLUSTER_BY and actions[0].outcome == PLANNED:
        # What OPTIMIZE has to do follows from it.
        done, actions = [run.carried_out(actions[0])], run.plan()
    done += [run.carried_out(each) for each in actions if each.kind != CLUSTER_BY or not done]
    if PREDICATE_USE.of(statement):
        predicate_use.tidy(run.snapshot)
    version = open_snapshot(request.table, statement).version
    return CommitAnswer(version=version, rows=[each.row() for each in done])


@own_statement("maintain", output=MAINTAIN_SCHEMA, commits=False, in_transaction=False, words="MAINTAIN TABLE")
def maintain_table_dry_run(request: MaintainTableDryRunRequest, statement: Statement) -> RowsAnswer:
    """What :func:`maintain_table` would do."""
    run = _Run(request, statement)
    return RowsAnswer(rows=[run.prepared(each).row() for each in run.plan()])


@own_statement("maintain", output=None, commits=True, in_transaction=True)
def alter_table_predictive_optimization(request: MarkTableRequest, statement: Statement) -> CommitAnswer:
    """ALTER TABLE … PREDICTIVE OPTIMIZATION: whether scheduled maintenance takes a table."""
    key, mark = properties.PREDICTIVE_OPTIMIZATION.name, request.arguments.mark
    change = RemoveProperty(key=key) if mark is None else SetProperty(key=key, value=mark)
    return alter_table(AlterTableRequest(table=request.table, name=request.name, changes=[change]), statement)


class _Run:
    """One run on a table."""

    def __init__(self, request: _AnyRequest, statement: Statement) -> None:
        self._request, self._statement = request, statement
        self.budget = Budget(_seconds(request, statement))
        self.snapshot = open_snapshot(request.table, statement)

    @property
    def is_disabled(self) -> bool:
        """Whether the table says DISABLE, and the statement does not say FORCE."""
        mark = self.snapshot.definition.get(properties.PREDICTIVE_OPTIMIZATION)
        return mark == "disable" and not self._request.arguments.force

    def plan(self) -> list[Action]:
        """The actions, the worst first, for the newest version."""
        self.snapshot = snapshot = self._newest()
        statement, asked = self._statement, self._request.arguments
        statement.step("plan the maintenance")
        settings, name = Settings.of(statement, snapshot.definition), in_statements(self._request.name)
        facts = health(snapshot, settings, has_depths=False)
        found = plan(
            by_section(facts),
            name,
            asked.only,
            pace=pace_of(snapshot.table_path),
            is_local=snapshot.store.is_local,
        )
        shows = not asked.only or CLUSTER_BY in asked.only
        proposal = propose(snapshot, predicate_use.uses_of(snapshot), settings.max_file_size) if shows else None
        # Of a partitioned table, CLUSTER BY writes all rows again in one commit: a person decides that.
        chooses = asked.chooses_clustering and not snapshot.partition_columns
        found = with_proposal(found, proposal, name, asked.only, chooses=chooses)
        if not self.is_disabled:
            return found
        why = "the table says DISABLE PREDICTIVE OPTIMIZATION; FORCE maintains it once"
        return [each.ended(SKIPPED, why) if each.outcome == PLANNED else each for each in found]

    def prepared(self, action: Action) -> Action:
        """The action as it would begin now, or why the catalog or the budget does not allow it."""
        action = within(action, self.budget)
        needed = _ALLOWED_BY.get(action.kind or "")
        if action.outcome == PLANNED and needed is not None and not is_allowed(self.snapshot, needed):
            return action.ended(REFUSED, refused_by_catalog(action.kind or "", self._request.name, needed).text)
        return action

    def carried_out(self, action: Action) -> Action:
        """Do it, if it is to be done; what became of it."""
        action = self.prepared(action)
        if action.outcome != PLANNED:
            return action
        statement, began = self._statement, time.monotonic()
        statement.check_cancelled()
        try:
            ended = _DO[action.kind or ""](self, action)
        except HeadwaterError as error:
            ended = action.ended(LOST if error.condition in RETRIED else FAILED, error.text)
        except OSError as error:
            ended = action.ended(FAILED, plain_reason(error))
        except Py4JJavaError as error:
            statement.check_cancelled()
            ended = action.ended(FAILED, _first_line(str(error.java_exception.getMessage())))
        seconds = time.monotonic() - began
        if ended.outcome in (LOST, FAILED):
            _LOG.warning("%s: %s: %s (%s)", self.snapshot.table_path, action.kind, ended.outcome, ended.detail)
            statement.discard()
        return ended if ended.seconds is not None else ended.ended(ended.outcome, ended.detail, seconds=seconds)

    def optimize(self, action: Action) -> Action:
        """OPTIMIZE, without conditions: along the table's clustering, or else small files into large ones."""
        return self._rewritten(action, _InParts)

    def reorg(self, action: Action) -> Action:
        """REORG … APPLY (PURGE)."""
        return self._rewritten(action, Purge)

    def _rewritten(self, action: Action, kind: type[Run]) -> Action:
        request = OptimizeRequest(table=self._request.table, name=self._request.name, arguments=OptimizeArguments())
        before = self._newest()
        run = kind(request, self._statement, self.budget)
        metrics = run.to_the_end().rows[0]["metrics"]  # type: ignore[index]
        after = self._newest()
        added, removed = metrics["numFilesAdded"], metrics["numFilesRemoved"]
        figures: dict[str, Any] = {"before": _files(before), "after": _files(after)}
        if not removed:
            if run.cut_at:
                return over_budget(action, rewrite_seconds(run.cut_at, pace_of(before.table_path)), self.budget)
            return action.ended(NOTHING, **figures)
        size = size_text(metrics["filesRemoved"]["totalSize"])
        detail = f"{plural(removed, 'file')} ({size}) became {added:,}, in {plural(metrics['numBatches'], 'commit')}"
        if run.cut_at:
            return action.ended(PARTLY, f"{detail}; the next run goes on", **figures)
        return action.ended(DONE, detail, **figures)

    def analyze(self, action: Action) -> Action:
        """ANALYZE TABLE … COMPUTE DELTA STATISTICS."""
        asked = AnalyzeTableRequest(
            table=self._request.table, name=self._request.name, arguments=AnalyzeTableArguments()
        )
        analyze_table(asked, self._statement)
        after = self._newest().statistics([])["num_records"].null_count
        return action.ended(DONE, after=(after, None))

    def checkpoint(self, action: Action) -> Action:
        """A checkpoint of the newest version."""
        snapshot = self._newest()
        if not is_published(snapshot):
            return action.ended(REFUSED, f"version {snapshot.version} is not published by its catalog yet")
        before = _opened(snapshot)
        self._statement.step("write a checkpoint")
        checkpoint(writing_to_same_table(snapshot), checkpoint_layout(self._statement))
        return action.ended(DONE, f"of version {snapshot.version}", before=before, after=_opened(snapshot, now=True))

    def refresh(self, action: Action) -> Action:
        """REFRESH INDEX of all indexes."""
        snapshot = self._newest()
        built = [key_indexes.build(self._statement, snapshot, each) for each in indexes(snapshot.definition)]
        if not any(each.files for each in built):
            return action.ended(NOTHING)
        rows, size = sum(each.rows for each in built), sum(each.size for each in built)
        return action.ended(DONE, f"{plural(rows, 'row')} in {size_text(size)} of entries", after=(0, None))

    def vacuum(self, action: Action) -> Action:
        """VACUUM, with the table's own retention."""
        request = VacuumRequest(table=self._request.table, name=self._request.name, arguments=VacuumArguments())
        vacuum(request, self._statement)
        snapshot = self._newest()
        left = vacuum_figures(snapshot, whole_log(snapshot)[0], clock.milliseconds())
        return action.ended(DONE, after=(left["filesDeleted"], left["bytesDeleted"]))

    def cluster(self, action: Action) -> Action:
        """ALTER TABLE … CLUSTER BY the columns that are proposed."""
        snapshot = self._newest()
        settings = Settings.of(self._statement, snapshot.definition)
        proposal = propose(snapshot, predicate_use.uses_of(snapshot), settings.max_file_size)
        if proposal is None:
            return action.ended(NOTHING)
        change = ClusterBy(columns=[list(path) for path in proposal.columns])
        request = AlterTableRequest(table=self._request.table, name=self._request.name, changes=[change])
        alter_table(request, self._statement)
        return action.ended(DONE, "OPTIMIZE lays the files out by it")

    def _newest(self) -> Snapshot:
        return open_snapshot(self._request.table, self._statement)


class _InParts(Run):
    """OPTIMIZE without conditions, which clusters as much together as fits into the budget several times."""

    _part: int | None = None

    def layout(self, snapshot: Snapshot) -> Layout:
        settings = Settings.of(self._statement, snapshot.definition)
        if self._part is None:
            self._part = self._budget.part_bytes(snapshot.table_path, settings.max_file_size, settings.largest_cube)
        merged = min(settings.largest_merged_cube, self._part)
        largest = min(settings.largest_cube, self._part)
        return own_layout(snapshot, settings._replace(largest_merged_cube=merged, largest_cube=largest))


_DO: dict[str, Callable[[_Run, Action], Action]] = {
    "OPTIMIZE": _Run.optimize,
    "REORG": _Run.reorg,
    "ANALYZE": _Run.analyze,
    "CHECKPOINT": _Run.checkpoint,
    "REFRESH INDEX": _Run.refresh,
    "VACUUM": _Run.vacuum,
    CLUSTER_BY: _Run.cluster,
}


def _seconds(request: _AnyRequest, statement: Statement) -> float | None:
    """The budget in seconds; None without one.

    :raises HeadwaterError: ``DELTA_ILLEGAL_OPTION``.
    """
    if request.arguments.budget is None:
        return None
    text = number_of(request.arguments.budget, statement)
    try:
        seconds = float(text) * request.arguments.unit
    except ValueError:
        seconds = -1
    if not 0 < seconds < float("inf"):
        raise illegal_option("BUDGET", text, "must be a number above 0")
    return seconds


def _files(snapshot: Snapshot) -> tuple[int, int]:
    return snapshot.num_files, snapshot.size_in_bytes


def _opened(snapshot: Snapshot, *, now: bool = False) -> tuple[int, int]:
    """The files of the log that a reader of a version opens, and their bytes.

    :param now: whether the log is listed again.
    """
    listing = whole_log(snapshot)[0] if now else snapshot.segment.listing
    newest = next((each for each in listing.checkpoints if each.version <= snapshot.version), None)
    since = -1 if newest is None else newest.version
    opened = [*(() if newest is None else newest.files)]
    opened += [file for version, file in listing.commits.items() if since < version <= snapshot.version]
    return len(opened), sum(file.size for file in opened)


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
