"""How a MERGE brings target and source together.

Owns the choice of join, which follows from the clauses: no outer join where only matched rows matter, an anti join
where only unmatched rows of the source do; and the conditions under which the clauses of each kind are considered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.statements.change.request import Clause, DmlRequest, expression, relation
from headwater.statements.change.rewrite import Action
from headwater.statements.change.scan import Scan


@dataclass(frozen=True)
class Joined:
    """The rows a rewrite is about (SQL), and the actions on them.

    :param unique: whether a row of the target may come but once; else several matches are as good as one.
    :param source_rows: whether the rows tell which row of the source they come from.
    :param keeps: whether rows of the target without an action are among them too.
    """

    name: str
    rows: str
    actions: Sequence[Action]
    unique: bool = True
    source_rows: bool = False
    keeps: bool = False


def deletes_all_matched(request: DmlRequest) -> bool:
    """Whether the one thing done to matched rows is to delete them all: then it does not matter how many match."""
    matched = request.matched
    return len(matched) == 1 and matched[0].kind == "delete" and matched[0].condition is None


def counted(source: str) -> str:
    """SQL of the rows of a source, which the job counts."""
    return f"(SELECT * FROM {source} WHERE count_row())"


def join(
    request: DmlRequest, scanned: Scan, source: str, *, changes: bool, alone: bool = False, keeps: bool = False
) -> Joined:
    """All clauses over one join.

    :param source: SQL of a relation.
    :param alone: whether one task is to do it all: for little data, sooner done than sent about.
    :param keeps: whether rows of the target without an action come too.
    """
    on, names = _on(request), request.names
    target = f"{_read(scanned.positioned, alone)} AS target"
    matched, inserts, unmatched = request.matched, request.not_matched, request.not_matched_by_source
    if inserts and not matched and not unmatched:
        return Joined("anti join", _unmatched(request, scanned, source, alone), _numbered(inserts, None, 0))
    if not keeps and not inserts and not unmatched and deletes_all_matched(request):
        rows = f"(SELECT * FROM {target}\nLEFT SEMI JOIN {_read(source, alone)} AS source ON {on})"
        return Joined("semi join", rows, _numbered(matched, None, 0))
    all_rows = bool(unmatched) or keeps
    kind = "FULL OUTER" if inserts and all_rows else "RIGHT OUTER" if inserts else "LEFT OUTER" if all_rows else "INNER"
    present = f"(SELECT *, true AS {names.present} FROM {_read(source, alone)}) AS source"
    rows = f"(SELECT * FROM {target}\n{kind} JOIN {present} ON {on})"
    both = None if kind == "INNER" else f"{names.file} IS NOT NULL AND {names.present}"
    actions = [
        *_numbered(matched, both, 0),
        *_numbered(inserts, f"{names.file} IS NULL", len(matched)),
        *_numbered(unmatched, f"{names.present} IS NULL", len(matched) + len(inserts)),
    ]
    unique = not deletes_all_matched(request)
    if not unique and changes:
        rows = _once(request, rows)
    return Joined(f"{kind.lower()} join", rows, actions, unique, keeps=keeps)


def numbered(request: DmlRequest, source: int) -> str:
    """SQL of a relation with a number for each of its rows, which is another one whenever they are read anew."""
    return f"(SELECT *, monotonically_increasing_id() AS {request.names.source} FROM {relation(source)})"


def join_matched(
    request: DmlRequest, scanned: Scan, source: str, *, changes: bool, broadcast: bool, keeps: bool = False
) -> Joined:
    """All clauses but inserts, over rows that tell which rows of the source found a match.

    :param source: SQL of a relation with the column ``names.source``.
    :param broadcast: whether the source is small enough to be sent to every task whole.
    :param keeps: whether rows of the target without an action come too.
    """
    names = request.names
    matched, inserts, unmatched = request.matched, request.not_matched, request.not_matched_by_source
    outer = bool(unmatched) or keeps
    kind = "LEFT OUTER" if outer else "INNER"
    hint = "/*+ BROADCAST(source) */ " if broadcast else ""
    target = f"{scanned.positioned} AS target"
    rows = f"(SELECT {hint}* FROM {target}\n{kind} JOIN {source} AS source ON {_on(request)})"
    unique = not deletes_all_matched(request)
    once = not unique and changes
    if once:
        # A row is told once to be deleted; the other rows of the source that matched it are noted all the same.
        rows = _counted(request, rows)
    guards = [*([f"{names.source} IS NOT NULL"] if outer else []), *([f"{names.match} = 1"] if once else [])]
    actions = [
        *_numbered(matched, " AND ".join(guards) or None, 0),
        *_numbered(unmatched, f"{names.source} IS NULL", len(matched) + len(inserts)),
    ]
    return Joined(f"{kind.lower()} join", rows, actions, unique, source_rows=True, keeps=keeps)


def unmatched_source(request: DmlRequest, source: int) -> Joined:
    """The inserts alone: the rows of the source that the job before found no match for.

    :param source: a relation with the column ``names.source``, the same as then.
    """
    unmatched = f"NOT is_matched({request.names.source})"
    rows = f"(SELECT *, {_nowhere(request)} FROM {relation(source)} WHERE {unmatched})"
    return Joined("rows without a match", rows, _numbered(request.not_matched, None, len(request.matched)))


def join_unmatched(request: DmlRequest, scanned: Scan, source: str) -> Joined:
    """The inserts alone, found by a join of their own.

    :param source: SQL of a relation.
    """
    rows = _unmatched(request, scanned, source, False)
    return Joined("anti join", rows, _numbered(request.not_matched, None, len(request.matched)))


def _unmatched(request: DmlRequest, scanned: Scan, source: str, alone: bool) -> str:
    target = f"{_read(scanned.positioned, alone)} AS target"
    rows = f"{_read(source, alone)} AS source\nLEFT ANTI JOIN {target} ON {_on(request)}"
    return f"(SELECT *, {_nowhere(request)} FROM {rows})"


def _nowhere(request: DmlRequest) -> str:
    """The position of a row that is not of the target."""
    return f"CAST(NULL AS INT) AS {request.names.file}, CAST(NULL AS BIGINT) AS {request.names.row}"


def _once(request: DmlRequest, rows: str) -> str:
    """Each row of the target once, however many rows of the source match it."""
    names = request.names
    return f"(SELECT * FROM {_counted(request, rows)}\nWHERE {names.file} IS NULL OR {names.match} = 1)"


def _counted(request: DmlRequest, rows: str) -> str:
    """The matches of each row of the target are numbered, from one."""
    names = request.names
    number = f"row_number() OVER (PARTITION BY {names.file}, {names.row} ORDER BY {names.row})"
    return f"(SELECT *, {number} AS {names.match} FROM {rows})"


def _read(rows: str, alone: bool) -> str:
    return f"(SELECT /*+ COALESCE(1) */ * FROM {rows})" if alone else rows


def _on(request: DmlRequest) -> str:
    assert request.condition is not None
    return expression(request.condition)


def _numbered(clauses: Sequence[Clause], guard: str | None, first: int) -> list[Action]:
    return [Action(number, clause, guard) for number, clause in enumerate(clauses, first)]
