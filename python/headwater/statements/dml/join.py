"""How a MERGE joins target and source.

Owns the kind of join, which follows from the clauses: no outer join where only matched rows matter, an anti join where
only unmatched rows of the source do; and the conditions under which the clauses of each kind are considered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.protocol.types import PrimitiveType
from headwater.sql.composing import (
    NULL,
    STAR,
    TRUE,
    Alias,
    Cast,
    Column,
    Expression,
    IsNull,
    Join,
    Named,
    Not,
    Number,
    Over,
    Query,
    Resolved,
    Rows,
    call,
    equal,
    every,
    infix,
    is_not_null,
    select,
)
from headwater.statements.dml.request import Clause, DmlRequest
from headwater.statements.dml.rewrite import Action
from headwater.statements.dml.scan import Scan
from headwater.statements.dml.strategy import Strategy

_TARGET, _SOURCE = "target", "source"


@dataclass(frozen=True)
class Joined:
    """The rows a rewrite is about, and the actions on them.

    :param name: the kind of join, for people.
    :param is_unique: whether a second match of a target's row is an error; else several matches are as good as one.
    :param notes_source_rows: whether the rows have the number of their source row.
    :param has_unchanged_rows: whether rows of the target without an action are among them.
    """

    name: str
    rows: Rows
    actions: Sequence[Action]
    is_unique: bool = True
    notes_source_rows: bool = False
    has_unchanged_rows: bool = False


def deletes_all_matched(request: DmlRequest) -> bool:
    """Whether all matched rows are deleted, and nothing else happens to them: then several matches are no error."""
    matched = request.matched
    return len(matched) == 1 and matched[0].kind == "delete" and matched[0].condition is None


def counting(source: Rows) -> Rows:
    """The rows of a source, which the job counts."""
    return select(STAR, rows=source, where=call("count_row"))


def with_row_numbers(request: DmlRequest, source: Rows) -> Query:
    """The rows of a source with a number each, in ``names.source``; another one each time they are read."""
    return select(STAR, Alias(call("monotonically_increasing_id"), request.names.source), rows=source)


def join_all(request: DmlRequest, scanned: Scan, source: Rows, strategy: Strategy, *, changes: bool) -> Joined:
    """All clauses over one join.

    :param changes: whether change data is written.
    """
    in_one_task, unchanged_rows = strategy.in_one_task, strategy.writes_unchanged_rows
    names = request.names
    file, present = Column(names.file), Column(names.present)
    target = Named(_one_task(scanned.rows) if in_one_task else scanned.rows, _TARGET)
    source = _one_task(source) if in_one_task else source
    matched, inserts, unmatched = request.matched, request.not_matched, request.not_matched_by_source
    if inserts and not matched and not unmatched:
        return Joined("anti join", _without_match(request, target, source), _actions(inserts, None, 0))
    if not unchanged_rows and not inserts and not unmatched and deletes_all_matched(request):
        rows: Rows = select(STAR, rows=Join(target, "LEFT SEMI", Named(source, _SOURCE), _on(request)))
        return Joined("semi join", rows, _actions(matched, None, 0))
    all_rows = bool(unmatched) or unchanged_rows
    kind = "FULL OUTER" if inserts and all_rows else "RIGHT OUTER" if inserts else "LEFT OUTER" if all_rows else "INNER"
    marked = Named(select(STAR, Alias(TRUE, names.present), rows=source), _SOURCE)
    rows = select(STAR, rows=Join(target, kind, marked, _on(request)))
    both = None if kind == "INNER" else every(is_not_null(file), present)
    actions = [
        *_actions(matched, both, 0),
        *_actions(inserts, IsNull(file), len(matched)),
        *_actions(unmatched, IsNull(present), len(matched) + len(inserts)),
    ]
    is_unique = not deletes_all_matched(request)
    if not is_unique and changes:
        rows = _each_once(request, rows)
    return Joined(f"{kind.lower()} join", rows, actions, is_unique, has_unchanged_rows=unchanged_rows)


def join_matched(request: DmlRequest, scanned: Scan, source: Rows, strategy: Strategy, *, changes: bool) -> Joined:
    """All clauses but inserts, over rows that have the number of the source row they matched.

    :param source: rows with the column ``names.source``.
    :param changes: whether change data is written.
    """
    broadcast, unchanged_rows = strategy.broadcasts, strategy.writes_unchanged_rows
    names = request.names
    matched, inserts, unmatched = request.matched, request.not_matched, request.not_matched_by_source
    is_outer = bool(unmatched) or unchanged_rows
    kind = "LEFT OUTER" if is_outer else "INNER"
    joined = Join(Named(scanned.rows, _TARGET), kind, Named(source, _SOURCE), _on(request))
    rows: Rows = select(STAR, rows=joined, hint=f"BROADCAST({_SOURCE})" if broadcast else None)
    is_unique = not deletes_all_matched(request)
    counts_matches = not is_unique and changes
    if counts_matches:
        # Change data has a deleted row once; the other rows of the source that matched it are still noted.
        rows = _with_match_numbers(request, rows)
    guard = every(
        is_not_null(Column(names.source)) if is_outer else None,
        equal(Column(names.match), Number(1)) if counts_matches else None,
    )
    actions = [
        *_actions(matched, guard, 0),
        *_actions(unmatched, IsNull(Column(names.source)), len(matched) + len(inserts)),
    ]
    name = f"broadcast {kind.lower()} join" if broadcast else f"{kind.lower()} join"
    return Joined(name, rows, actions, is_unique, notes_source_rows=True, has_unchanged_rows=unchanged_rows)


def rows_not_noted(request: DmlRequest, source: Rows) -> Joined:
    """The inserts alone: the rows of the source for which the job before noted no match.

    :param source: rows with the column ``names.source``, numbered as they were in that job.
    """
    is_matched = call("is_matched", Column(request.names.source))
    rows = select(STAR, *_no_position(request), rows=source, where=Not(is_matched))
    return Joined("rows without a match", rows, _actions(request.not_matched, None, len(request.matched)))


def every_source_row(request: DmlRequest, source: Rows) -> Joined:
    """The inserts alone, of each row of the source, whether it has a match or not."""
    rows = select(STAR, *_no_position(request), rows=source)
    return Joined("rows of the source", rows, _actions(request.not_matched, None, len(request.matched)))


def join_unmatched(request: DmlRequest, scanned: Scan, source: Rows) -> Joined:
    """The inserts alone, found by an anti join."""
    rows = _without_match(request, Named(scanned.rows, _TARGET), source)
    return Joined("anti join", rows, _actions(request.not_matched, None, len(request.matched)))


def _without_match(request: DmlRequest, target: Rows, source: Rows) -> Rows:
    joined = Join(Named(source, _SOURCE), "LEFT ANTI", target, _on(request))
    return select(STAR, *_no_position(request), rows=joined)


def _no_position(request: DmlRequest) -> list[Expression]:
    """The position of a row that is not of the target."""
    return [
        Alias(Cast(NULL, PrimitiveType("integer")), request.names.file),
        Alias(Cast(NULL, PrimitiveType("long")), request.names.row),
    ]


def _each_once(request: DmlRequest, rows: Rows) -> Rows:
    """Each row of the target once, however many rows of the source match it."""
    is_first = equal(Column(request.names.match), Number(1))
    first = infix("OR", IsNull(Column(request.names.file)), is_first)
    return select(STAR, rows=_with_match_numbers(request, rows), where=first)


def _with_match_numbers(request: DmlRequest, rows: Rows) -> Rows:
    """The matches of each row of the target numbered, from one."""
    file, row = Column(request.names.file), Column(request.names.row)
    return select(STAR, Alias(Over(call("row_number"), (file, row), row), request.names.match), rows=rows)


def _one_task(rows: Rows) -> Rows:
    return select(STAR, rows=rows, hint="COALESCE(1)")


def _on(request: DmlRequest) -> Expression:
    assert request.message.condition is not None
    return Resolved(request.message.condition)


def _actions(clauses: Sequence[Clause], guard: Expression | None, first: int) -> list[Action]:
    return [Action(number, clause, guard) for number, clause in enumerate(clauses, first)]
