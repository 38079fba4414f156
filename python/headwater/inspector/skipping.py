"""Data skipping made visible: how the files' ranges of a column overlap, which files a predicate reads, and why not the
others.

Owns the figures and the words; which files are read is what :mod:`headwater.pruning` says, as for any statement.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import date, datetime, timedelta, timezone
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.inspector.plain import short, text_of
from headwater.inspector.table import View
from headwater.log.snapshot import Snapshot
from headwater.protocol.columns import format_name
from headwater.pruning import overlap, prune
from headwater.pruning.bounds import resolve_column
from headwater.pruning.depth import Overlap
from headwater.pruning.predicates import (
    And,
    Cast,
    Column,
    Comparison,
    Constant,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Operand,
    Or,
    Predicate,
    StartsWith,
    Unknown,
    Value,
    Year,
    columns,
)
from headwater.sql.conditions import parse_condition
from headwater.statements.maintenance.health import clustering_figures, columns_with_bounds

#: Points of a curve, and ranges that are drawn.
_POINTS, _RANGES = 200, 160
#: Files of each kind that an answer names.
_NAMED = 50
_MOST_CHARACTERS = 4000


class _Drawn(NamedTuple):
    overlap: Overlap
    #: Which of the overlap's files are drawn, in the order of their minimum.
    chosen: np.ndarray


def column_overlap(view: View, path: tuple[str, ...]) -> dict[str, Any]:
    """How the ranges of a column lie: its depth, the curve of open files, and some of the ranges themselves.

    Places are from 0 to 1: where a value stands among the distinct minima and maxima.
    """
    drawn = _drawn(view, path)
    if drawn is None:
        return {"column": format_name(path), "files": view.snapshot.num_files, "known": 0, "ranges": [], "curve": []}
    found, chosen = drawn
    last = max(len(found.open_files) - 1, 1)
    lows, highs = (bound.take(pa.array(chosen)) for bound in (found.low, found.high))
    return {
        "column": format_name(path),
        "files": view.snapshot.num_files,
        "known": len(found.positions),
        "withoutBounds": found.depth.without_bounds,
        "average": found.depth.average,
        "maximum": found.depth.maximum,
        "distinct": len(found.open_files),
        "low": text_of(pc.min(found.low)) if len(found.low) else None,
        "high": text_of(pc.max(found.high)) if len(found.high) else None,
        "curve": _curve(found.open_files),
        "ranges": [
            {"from": round(float(a) / last, 5), "to": round(float(b) / last, 5), "low": text_of(x), "high": text_of(y)}
            for a, b, x, y in zip(found.low_rank[chosen], found.high_rank[chosen], lows, highs, strict=True)
        ],
    }


def column_depths(view: View) -> dict[str, Any]:
    """The depth of every column that has bounds, and how far the table is clustered."""
    snapshot = view.snapshot
    depths = []
    for path in columns_with_bounds(snapshot):
        drawn = _drawn(view, tuple(path))
        if drawn is not None:
            average, maximum, without_bounds = drawn.overlap.depth
            named = {"column": format_name(path), "average": average, "maximum": maximum}
            depths.append({**named, "withoutBounds": without_bounds})
    return {"depths": depths, "clustering": clustering_figures(snapshot, snapshot.select(["tags"]))}


def _drawn(view: View, path: tuple[str, ...]) -> _Drawn | None:
    def make(snapshot: Snapshot) -> _Drawn | None:
        found = overlap(snapshot, path)
        if found is None:
            return None
        order = np.lexsort((found.high_rank, found.low_rank))
        if len(order) > _RANGES:
            order = order[np.linspace(0, len(order) - 1, _RANGES).astype(np.int64)]
        return _Drawn(found, order)

    return view.once(("overlap", path), make)


def _curve(open_files: np.ndarray) -> list[int]:
    """The most open files in each of some equal parts."""
    if len(open_files) <= _POINTS:
        return [int(count) for count in open_files]
    starts = np.linspace(0, len(open_files), _POINTS + 1).astype(np.int64)[:-1]
    return [int(count) for count in np.maximum.reduceat(open_files, starts)]


def explain(view: View, text: str, drawn: tuple[str, ...] | None = None) -> dict[str, Any]:
    """Which files a condition reads, and for each of its parts how many it skips.

    :param drawn: the column whose ranges the page shows: for each of them, whether the file is read.
    """
    snapshot = view.snapshot
    condition = parse_condition(text[:_MOST_CHARACTERS], snapshot)
    size = snapshot.select(["size"])["size"].to_numpy()
    parts = list(_conjuncts(condition.predicate))
    masks = [_mask(snapshot, part) for part in parts]
    read = np.logical_and.reduce(masks)
    skipping = np.sum([~mask for mask in masks], axis=0)
    answer = {
        "notUnderstood": [short(part) for part in condition.not_understood],
        "files": len(read),
        "filesRead": int(read.sum()),
        "filesSkipped": int((~read).sum()),
        "bytes": int(size.sum()),
        "bytesRead": int(size[read].sum()),
        "parts": [
            {
                "text": short(_words(part), 500),
                "by": _means(part, snapshot),
                "skips": int((~mask).sum()),
                "alone": int((~mask & (skipping == 1)).sum()),
            }
            for part, mask in zip(parts, masks, strict=True)
        ],
        "read": _named_files(snapshot, np.flatnonzero(read), parts, masks),
        "skipped": _named_files(snapshot, np.flatnonzero(~read), parts, masks),
        "columns": [format_name(path) for path in sorted(columns(condition.predicate))],
    }
    if drawn is not None and (ranges := _drawn(view, drawn)) is not None:
        answer["drawn"] = read[ranges.overlap.positions[ranges.chosen]].tolist()
    return answer


def _mask(snapshot: Snapshot, predicate: Predicate) -> np.ndarray:
    mask: np.ndarray = prune(snapshot, predicate).to_numpy(zero_copy_only=False)
    return mask


def _conjuncts(predicate: Predicate) -> Sequence[Predicate]:
    if isinstance(predicate, And):
        return [part for child in predicate.children for part in _conjuncts(child)]
    return [predicate]


def _means(part: Predicate, snapshot: Snapshot) -> str:
    """What of a file decides about a part of the condition."""
    if isinstance(part, Unknown):
        return "not understood: it skips no file"
    partitions = {name.lower() for name in snapshot.partition_columns}
    asked = columns(part)
    if asked and all(len(path) == 1 and path[0].lower() in partitions for path in asked):
        return "partition values"
    return "null counts" if isinstance(part, IsNull) else "minimum and maximum"


def _named_files(
    snapshot: Snapshot, positions: np.ndarray, parts: Sequence[Predicate], masks: Sequence[np.ndarray]
) -> list[dict[str, Any]]:
    """Some of the files, each with what the log says of the columns that decided."""
    if len(positions) > _NAMED:
        positions = positions[np.linspace(0, len(positions) - 1, _NAMED).astype(np.int64)]
    rows = pa.array(positions)
    files = snapshot.select(["path", "size"]).take(rows)
    paths = sorted({path for part in parts for path in columns(part)})
    known = {path: _bounds(snapshot, path, rows) for path in paths}
    found = []
    for number, position in enumerate(positions):
        because = next((part for part, mask in zip(parts, masks, strict=True) if not mask[position]), None)
        asked = sorted(columns(because)) if because is not None else paths
        found.append(
            {
                "path": short(files["path"][number].as_py(), 500),
                "size": files["size"][number].as_py(),
                "because": None if because is None else short(_words(because), 500),
                "bounds": [f"{format_name(path)}: {known[path][number]}" for path in asked],
            }
        )
    return found


def _bounds(snapshot: Snapshot, path: tuple[str, ...], rows: pa.Array) -> list[str]:
    """What is known of a column in some files, in words."""
    column = resolve_column(snapshot, path)
    if column is None or not column.has_statistics:
        return ["nothing is known"] * len(rows)
    if column.is_partition:
        values = snapshot.partition_values(column.field.name).take(rows)
        return [text_of(value) or "null" for value in values]
    statistics = snapshot.statistics([column.physical_path]).take(rows)
    found = []
    for low, high, nulls, records in zip(
        *(statistics[name] for name in ("min.0", "max.0", "nulls.0", "num_records")), strict=True
    ):
        a, b = text_of(low), text_of(high)
        if nulls.is_valid and records.is_valid and nulls.as_py() == records.as_py():
            found.append("only nulls")
        elif a is None and b is None:
            found.append("no statistics")
        else:
            some = "" if not nulls.is_valid else ", no nulls" if nulls.as_py() == 0 else f", {nulls.as_py():,} nulls"
            found.append(f"{'?' if a is None else a} to {'?' if b is None else b}{some}")
    return found


def _words(predicate: Predicate) -> str:
    """A predicate as SQL, for people."""
    match predicate:
        case Unknown():
            return "…"
        case Constant(value):
            return "NULL" if value is None else str(value).upper()
        case Comparison(operator, Literal() as left, right):
            turned = {"<": ">", "<=": ">="}.get(operator, operator)
            return f"{_operand(right)} {turned} {_operand(left)}"
        case Comparison(operator, left, right):
            return f"{_operand(left)} {operator} {_operand(right)}"
        case IsNull(child):
            return f"{_operand(child)} IS NULL"
        case In(child, kind, values):
            return f"{_operand(child)} IN ({', '.join(_literal(kind, value) for value in values[:20])})"
        case StartsWith(child, prefix):
            return f"{_operand(child)} LIKE '{prefix}%'"
        case Like(child, pattern):
            return f"{_operand(child)} LIKE '{pattern}'"
        case Not(Comparison("=", left, right)):
            return f"{_operand(left)} <> {_operand(right)}"
        case Not(IsNull(child)):
            return f"{_operand(child)} IS NOT NULL"
        case Not(child):
            return f"NOT ({_words(child)})"
        case And(children) | Or(children):
            word = " AND " if isinstance(predicate, And) else " OR "
            return word.join(f"({_words(each)})" if isinstance(each, And | Or) else _words(each) for each in children)


def _operand(operand: Operand) -> str:
    match operand:
        case Column(path):
            return format_name(path)
        case Literal(kind, value):
            return _literal(kind, value)
        case Cast(child, _):
            return _operand(child)
        case Year(child):
            return f"year({_operand(child)})"


def _literal(kind: str, value: Value) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    try:
        if kind == "date" and isinstance(value, int):
            return f"DATE'{date(1970, 1, 1) + timedelta(days=value)}'"
        if kind.startswith("timestamp") and isinstance(value, int):
            time = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=value)
            return f"TIMESTAMP'{time.replace(tzinfo=None)}'"
    except OverflowError:
        return str(value)
    if kind == "binary" and isinstance(value, str):
        return f"X'{base64.b64decode(value).hex()}'"
    return "'" + value.replace("'", "\\'") + "'" if kind == "string" and isinstance(value, str) else str(value)
