"""What maintenance a table needs: actions, the worst first, each with its reason, its statement and its cost.

Owns the way from findings (:mod:`headwater.statements.maintenance.findings`) to actions, their order, the estimate of
their time, and which are not worth their cost yet. MAINTAIN TABLE and ``headwater maintain`` share it. Promise: a plan
follows from the log alone; it needs neither Spark nor a JVM.

*Order.* Warnings come before notes. Among them, the action comes first that improves the larger share of the table:
of its files for OPTIMIZE, ANALYZE and REFRESH INDEX, of its rows for REORG, of its bytes for VACUUM. VACUUM counts
half: garbage costs space, but no reader's time.

*Deferred.* A finding of the level ``note`` may come back with each small append. OPTIMIZE then waits until it saves a
file for each :data:`_BYTES_PER_FILE` that it reads, and VACUUM until a hundredth of the bytes is garbage: otherwise a
schedule of every few minutes would write the same rows, or list the same folder, again and again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headwater.basics.amounts import plural, seconds_text, size_text
from headwater.protocol.types import PrimitiveType, StructType
from headwater.statements.maintenance.budget import USUAL_PACE, Budget, rewrite_seconds
from headwater.statements.maintenance.clustering_choice import Proposal
from headwater.statements.maintenance.findings import LEVELS, Finding, findings, statement

#: The action that sets the clustering columns of a proposal.
CLUSTER_BY = "CLUSTER BY"
#: The action for the findings of a name. The others are reported as advice.
ACTIONS = {
    "smallFiles": "OPTIMIZE",
    "deletedRows": "REORG",
    "statistics": "ANALYZE",
    "checkpoint": "CHECKPOINT",
    "vacuum": "VACUUM",
    "indexes": "REFRESH INDEX",
}
#: The actions that are done in batches, so that a part of them fits into any budget that a batch fits into.
DIVISIBLE = frozenset({"OPTIMIZE", "REORG"})
#: Outcomes, as the report has them.
PLANNED, DONE, PARTLY, NOTHING, DEFERRED, TOO_LONG, LOST, REFUSED, FAILED, SKIPPED, PROPOSED, ADVICE = (
    "planned",
    "done",
    "partly done",
    "nothing to do",
    "deferred",
    "over budget",
    "lost to writers",
    "refused",
    "failed",
    "skipped",
    "proposed",
    "advice",
)

# Chosen, not measured: seconds to read a footer, to list, look up and delete a file, and to write an entry of a
# checkpoint; in another store than the local one, a request takes longer.
_FOOTER_SECONDS, _LISTED_SECONDS, _ENTRY_SECONDS, _ELSEWHERE = 0.005, 0.0005, 0.000_01, 4
_LEAST_SECONDS = 0.5
#: Bytes that OPTIMIZE may read for each file that it saves, where a table has few small ones. Chosen, not measured.
_BYTES_PER_FILE = 256 << 20
_LEAST_GARBAGE = 0.01
_STRING, _LONG, _DOUBLE = PrimitiveType("string"), PrimitiveType("long"), PrimitiveType("double")

#: The rows of a report. Sizes are in bytes, ``share`` is the part of the table that gets better. Files and bytes are of
#: what the action is about: the table for OPTIMIZE and REORG, files without statistics for ANALYZE, files without
#: entries (once for each index) for REFRESH INDEX, files that no version needs for VACUUM, files of the log that a
#: reader opens for CHECKPOINT.
MAINTAIN_SCHEMA = StructType.of(
    action=_STRING,
    level=_STRING,
    share=_DOUBLE,
    reason=_STRING,
    statement=_STRING,
    outcome=_STRING,
    detail=_STRING,
    filesBefore=_LONG,
    filesAfter=_LONG,
    bytesBefore=_LONG,
    bytesAfter=_LONG,
    estimatedSeconds=_DOUBLE,
    seconds=_DOUBLE,
)


@dataclass(frozen=True)
class Action:
    """One line of a report.

    :param kind: what is done; None for advice that maintenance cannot follow.
    :param statement: what does the same by itself; None if there is nothing to copy.
    :param weight: the share of the table that gets better.
    :param estimate: seconds.
    :param before: files and bytes; ``after``: the same after it.
    """

    kind: str | None
    level: str
    reason: str
    statement: str | None
    weight: float = 0.0
    estimate: float | None = None
    outcome: str = PLANNED
    detail: str | None = None
    before: tuple[int | None, int | None] = (None, None)
    after: tuple[int | None, int | None] = (None, None)
    seconds: float | None = None

    def ended(self, outcome: str, detail: str | None = None, **more: Any) -> Action:
        """The action with what became of it."""
        return replace(self, outcome=outcome, detail=detail, **more)

    def row(self) -> dict[str, Any]:
        """The row of :data:`MAINTAIN_SCHEMA`."""
        return {
            "action": self.kind,
            "level": self.level,
            "share": round(self.weight, 4),
            "reason": self.reason,
            "statement": self.statement,
            "outcome": self.outcome,
            "detail": self.detail,
            "filesBefore": self.before[0],
            "filesAfter": self.after[0],
            "bytesBefore": self.before[1],
            "bytesAfter": self.after[1],
            "estimatedSeconds": None if self.estimate is None else round(self.estimate, 2),
            "seconds": None if self.seconds is None else round(self.seconds, 2),
        }


_Sections = Mapping[str, Mapping[str, Any]]


def plan(
    sections: _Sections,
    table: str,
    only: Sequence[str] = (),
    *,
    pace: float = USUAL_PACE,
    is_local: bool = True,
) -> list[Action]:
    """The actions that a table needs, the worst first, then what nobody but a person can do.

    :param sections: the figures of :func:`~headwater.statements.maintenance.health.health`, by section and name.
    :param table: what statements call the table.
    :param only: the actions that are asked for; empty for all, and for advice.
    :param pace: bytes per second that a rewrite reads.
    """
    made = [_action(each, sections, table, pace, 1 if is_local else _ELSEWHERE) for each in findings(sections, table)]
    wanted = [each for each in made if not only or each.kind in only]
    return sorted(wanted, key=lambda each: (each.kind is None, LEVELS.index(each.level), -each.weight))


def _action(found: Finding, sections: _Sections, table: str, pace: float, slower: int) -> Action:
    kind = ACTIONS.get(found.name)
    made = Action(kind, found.level, found.text, statement(found.name, table))
    files, rows, would, log = sections["files"], sections["rows"], sections["optimize"], sections["log"]
    number, size = files["files"], files["bytes"]
    match kind:
        case "OPTIMIZE":
            saved, read = would["filesRemoved"] - would["filesAdded"], would["bytesRead"]
            is_clustered = bool(sections.get("clustering", {}).get("columns"))
            weight = read / max(size, 1) if is_clustered else saved / number
            made = replace(made, weight=weight, estimate=rewrite_seconds(read, pace), before=(number, size))
            # Clustering bounds by itself how often it writes a row: it merges parts of like sizes.
            if not is_clustered and found.level != LEVELS[0] and read > _BYTES_PER_FILE * max(saved, 1):
                detail = f"it would read {size_text(read)} to save {plural(saved, 'file')}, so it waits for more"
                return made.ended(DEFERRED, detail)
        case "REORG":
            marked, deleted = rows["filesWithDeletedRows"], rows["deletedRows"]
            estimate = rewrite_seconds(size * marked // number, pace) + number * _FOOTER_SECONDS * slower
            weight = deleted / (deleted + rows["rows"])
            made = replace(made, weight=weight, estimate=estimate, before=(number, size))
        case "ANALYZE":
            without = rows["filesWithoutStatistics"]
            estimate = _LEAST_SECONDS + number * _FOOTER_SECONDS * slower
            made = replace(made, weight=without / number, estimate=estimate, before=(without, None))
        case "REFRESH INDEX":
            missing = [each.get("filesMissing", 0) for each in sections["indexes"].values()]
            # Each index reads the files by itself.
            estimate = _LEAST_SECONDS + rewrite_seconds(size * sum(missing) // number, pace)
            made = replace(made, weight=max(missing) / number, estimate=estimate, before=(sum(missing), None))
        case "CHECKPOINT":
            estimate = _LEAST_SECONDS + (number + log["tombstones"]) * _ENTRY_SECONDS
            made = replace(made, weight=1.0, estimate=estimate)
        case "VACUUM":
            gone, garbage = sections["vacuum"]["filesDeleted"], sections["vacuum"]["bytesDeleted"]
            estimate = 2 * _LEAST_SECONDS + (number + 2 * gone) * _LISTED_SECONDS * slower
            weight = garbage / (garbage + size) / 2 if garbage else 0.0
            made = replace(made, weight=weight, estimate=estimate, before=(gone, garbage))
            if found.level != LEVELS[0] and garbage < _LEAST_GARBAGE * size:
                return made.ended(DEFERRED, "it is less than a hundredth of the table's bytes, so it waits for more")
        case None:
            return made.ended(ADVICE)
    return made


def with_proposal(
    actions: Sequence[Action], proposal: Proposal | None, table: str, only: Sequence[str] = (), *, chooses: bool = False
) -> list[Action]:
    """The actions with a clustering that queries would gain by.

    :param chooses: whether it is to be set, which comes first, so that OPTIMIZE lays the files out by it; else it is
        only proposed, after the actions.
    """
    if proposal is None or only and CLUSTER_BY not in only:
        return list(actions)
    made = Action(CLUSTER_BY, LEVELS[1], proposal.reason, proposal.statement(table), proposal.share, _LEAST_SECONDS)
    if chooses:
        return [made, *actions]
    return [*actions, made.ended(PROPOSED, "with CHOOSE CLUSTERING, maintenance sets it")]


def within(action: Action, budget: Budget) -> Action:
    """The action, or what becomes of it if it would not end in the time that is left."""
    if action.outcome != PLANNED or action.estimate is None or budget.allows(action.estimate):
        return action
    if action.kind in DIVISIBLE:
        return action
    return over_budget(action, action.estimate, budget)


def over_budget(action: Action, seconds: float, budget: Budget) -> Action:
    """The action with what a larger budget would have to be."""
    text = f"it takes about {seconds_text(seconds)}, and {seconds_text(budget.left)} of the budget are left"
    return action.ended(TOO_LONG, f"{text}: give it a larger budget, or one of its own")
