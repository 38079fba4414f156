"""Which files a query with a LIMIT needs.

Owns the choice of files for ``LIMIT n``, and for ``ORDER BY column LIMIT n``. Follows the protocol's chapter "Per-file
Statistics". Promises: the files that are left hold n rows of the result if the table does; with an order, they hold
every row that may be among the first n, ties included. So:

- only rows that certainly meet the query's filters count: those of files whose rows all do, less the deleted ones;
- a null count is trusted only where no deletion vector makes it loose;
- only whole numbers, dates and timestamps order files: bounds leave NaN out and cut strings off.

What is not known keeps the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.basics.errors import HeadwaterError
from headwater.protocol.types import PrimitiveType
from headwater.pruning.bounds import Bounds, BoundsReader, Files, resolve_column
from headwater.pruning.evaluation import leaves_rows, prune_all
from headwater.pruning.predicates import INTEGRAL_RANGES, Column, Predicate

_ORDERED = {*INTEGRAL_RANGES, "date", "timestamp", "timestamp_ntz"}


@dataclass(frozen=True)
class Order:
    """The first column that a query sorts by.

    :param column: the name of a top-level column.
    :param descending: largest values first.
    :param nulls_first: nulls before all values.
    """

    column: str
    descending: bool
    nulls_first: bool


def first_rows(
    snapshot: Files, predicates: Sequence[Predicate], limit: int, order: Order | None = None
) -> pa.BooleanArray:
    """The files to read for the first ``limit`` rows that meet the predicates: a boolean a file, no nulls."""
    kept = prune_all(snapshot, predicates)
    try:
        chosen = _any(snapshot, predicates, limit) if order is None else _first(snapshot, predicates, limit, order)
    except (pa.ArrowException, HeadwaterError, ValueError, ArithmeticError):
        return kept
    return kept if chosen is None else pc.and_(kept, pa.array(chosen))


def _certain(snapshot: Files, predicates: Sequence[Predicate]) -> np.ndarray:
    """How many rows of each file certainly meet the predicates: 0 where that is not known."""
    records = snapshot.statistics([])["num_records"]
    vectors = snapshot.select(["deletion_vector"])["deletion_vector"]
    # Where a vector's cardinality is not known, the whole difference is null, and no row counts.
    deleted = pc.if_else(pc.is_valid(vectors), pc.struct_field(vectors, "cardinality").cast(pa.int64()), 0)
    left = _numbers(pc.subtract(records, deleted))
    if predicates:
        left = np.where(leaves_rows(snapshot, predicates).to_numpy(zero_copy_only=False), 0, left)
    certain: np.ndarray = np.maximum(left, 0)
    return certain


def _any(snapshot: Files, predicates: Sequence[Predicate], limit: int) -> np.ndarray | None:
    """The files with most rows, as many as hold ``limit``."""
    rows = _certain(snapshot, predicates)
    order = np.argsort(-rows, kind="stable")
    held = np.cumsum(rows[order])
    needed = int(np.searchsorted(held, limit))  # the first place where they are enough
    if needed >= len(rows):
        return None
    chosen = np.zeros(len(rows), bool)
    if limit > 0:
        chosen[order[: needed + 1]] = True
    return chosen


def _first(snapshot: Files, predicates: Sequence[Predicate], limit: int, order: Order) -> np.ndarray | None:
    """The files that may hold a row before, or equal to, a value that ``limit`` rows certainly reach."""
    column = resolve_column(snapshot, (order.column,))
    if column is None or column.collated or not column.has_statistics or limit <= 0:
        return None
    kind = column.field.type
    if not isinstance(kind, PrimitiveType) or kind.name not in _ORDERED:
        return None
    bounds = BoundsReader(snapshot, [(order.column,)]).read(Column((order.column,)))
    if bounds is None or bounds.low is None or bounds.high is None:
        return None
    nulls = None
    if not column.is_partition:
        nulls = snapshot.statistics([column.physical_path])["nulls.0"]
    rows = _not_null(snapshot, bounds, nulls, _certain(snapshot, predicates))
    # Descending, the rows of a file reach its minimum at least; ascending, its maximum at most.
    reached, best = (bounds.low, bounds.high) if order.descending else (bounds.high, bounds.low)
    sign = -1 if order.descending else 1
    known, best_known = _valid(reached), _valid(best)
    rows = np.where(known, rows, 0)
    reached_numbers, best_numbers = _numbers(reached), _numbers(best)
    places = np.argsort(reached_numbers, kind="stable")[::sign]
    held = np.cumsum(rows[places])
    needed = int(np.searchsorted(held, limit))
    if needed >= len(places):
        return None
    threshold = reached_numbers[places[needed]]
    before = best_numbers >= threshold if order.descending else best_numbers <= threshold
    keeps = before | ~best_known
    if order.nulls_first:
        some_null = bounds.some_null()
        keeps |= True if some_null is None else _truth(some_null, unknown=True)
    return np.asarray(keeps & ~_truth(bounds.all_null(), unknown=False) if not order.nulls_first else keeps)


def _not_null(snapshot: Files, bounds: Bounds, nulls: Any, rows: np.ndarray) -> np.ndarray:
    """How many of the rows certainly have a value."""
    if nulls is None:  # a partition column
        return np.where(_truth(bounds.some_null(), unknown=True), 0, rows)
    tight = snapshot.statistics([])["tight_bounds"].fill_null(True)
    loose = pc.or_(pc.is_valid(snapshot.select(["deletion_vector"])["deletion_vector"]), pc.invert(tight))
    counted = np.where(_truth(loose, unknown=True) | ~_valid(nulls), 0, rows - _numbers(nulls))
    return np.where(_valid(nulls) & (_numbers(nulls) == 0), rows, np.maximum(counted, 0))


def _valid(values: Any) -> np.ndarray:
    found: np.ndarray = (
        pc.is_valid(values).to_numpy(zero_copy_only=False)
        if isinstance(values, pa.Array)
        else (pc.is_valid(values).to_numpy())
    )
    return found


def _truth(mask: Any, *, unknown: bool) -> np.ndarray:
    filled = mask.fill_null(unknown)
    found: np.ndarray = filled.to_numpy(zero_copy_only=False) if isinstance(filled, pa.Array) else filled.to_numpy()
    return found


def _numbers(values: Any) -> np.ndarray:
    """Whole numbers, dates or timestamps as int64, null as 0."""
    whole = values.cast(pa.int32()) if pa.types.is_date32(values.type) else values
    if pa.types.is_timestamp(whole.type):
        whole = whole.cast(pa.timestamp("us", whole.type.tz)).cast(pa.int64())
    numbers = whole.cast(pa.int64()).fill_null(0)
    found: np.ndarray = numbers.to_numpy(zero_copy_only=False) if isinstance(numbers, pa.Array) else numbers.to_numpy()
    return found
