"""Aggregates that the log alone can answer.

Owns ``count(*)``, ``count(column)``, ``min`` and ``max`` over a whole table or by its partitions. Follows the
protocol's chapter "Per-file Statistics". Promise: the answer is exactly what a scan would give, or there is none
(``None``) and the query must run. So:

- a predicate must decide every file as a whole, true for all its rows or for none;
- records that a deletion vector takes away are subtracted from counts, and no minimum, maximum or partial null count
  is trusted then;
- minima and maxima are taken of whole numbers and dates only: statistics leave NaN out, cut strings off, round
  timestamps, and may carry decimals as floating-point numbers. Those of partition columns are exact values; there
  strings are answered too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.basics.errors import HeadwaterError
from headwater.protocol.types import PrimitiveType
from headwater.pruning.bounds import Files, ResolvedColumn, plain, resolve_column
from headwater.pruning.evaluation import Outcome, possible
from headwater.pruning.masks import settle
from headwater.pruning.predicates import INTEGRAL_RANGES, Predicate, columns

_EXACT_BOUNDS = {*INTEGRAL_RANGES, "date"}
#: Partition columns that group and compare here as in Spark: no NaN, no zone, no collation.
_EXACT_PARTITIONS = {*_EXACT_BOUNDS, "string", "boolean"}


def aggregate_from_log(
    snapshot: Files,
    group_by: Sequence[str],
    aggregates: Sequence[tuple[str, Sequence[str] | None]],
    predicates: Sequence[Predicate],
) -> pa.Table | None:
    """The exact result of an aggregation, or ``None`` if the log does not hold it.

    :param group_by: names of partition columns; empty for one row over the whole table.
    :param aggregates: ``("count", None)`` for ``count(*)``, else ``("count" | "min" | "max", path)``, the names that
        lead to the column.
    :param predicates: predicates over partition columns, all of which a row must meet.
    :returns: the group columns by their names, then one column per aggregate, in order: counts as int64, others in the
        column's type.
    """
    try:
        return _aggregate(snapshot, group_by, aggregates, predicates)
    except (_NotExact, pa.ArrowException, HeadwaterError, ValueError, ArithmeticError):
        return None


class _NotExact(Exception):
    """The log does not hold the answer."""


def _aggregate(
    snapshot: Files,
    group_by: Sequence[str],
    aggregates: Sequence[tuple[str, Sequence[str] | None]],
    predicates: Sequence[Predicate],
) -> pa.Table:
    groups = [_exact_partition(_resolve(snapshot, (name,))) for name in group_by]
    wanted = [(kind, None if path is None else _resolve(snapshot, path)) for kind, path in aggregates]
    chosen = _chosen(snapshot, predicates)
    files = _LiveFiles(snapshot, chosen, [column for _, column in wanted if column is not None])

    keys = [f"key.{i}" for i in range(len(groups))]
    data: dict[str, Any] = {key: files.partition(column) for key, column in zip(keys, groups, strict=True)}
    data |= {f"value.{i}": files.values(kind, column) for i, (kind, column) in enumerate(wanted)}
    data["records"] = files.records
    folded = [
        (
            f"value.{i}",
            "sum" if kind == "count" else kind,
            pc.ScalarAggregateOptions(min_count=0 if kind == "count" else 1),
        )
        for i, (kind, _) in enumerate(wanted)
    ]
    # A file without rows makes no group.
    live = pa.table(data).filter(pc.greater(files.records, 0))
    result = live.group_by(keys, use_threads=False).aggregate(folded) if keys or folded else live
    names = [*keys, *(f"{name}_{function}" for name, function, _ in folded)]
    labels = [*(c.field.name for c in groups), *(f"{kind}.{i}" for i, (kind, _) in enumerate(wanted))]
    types = [data[name].type for name in (*keys, *(f"value.{i}" for i in range(len(wanted))))]
    return pa.table([result[n].cast(t) for n, t in zip(names, types, strict=True)], names=labels)


def _resolve(snapshot: Files, path: Sequence[str]) -> ResolvedColumn:
    column = resolve_column(snapshot, path)
    if column is None or not column.has_statistics:
        raise _NotExact
    return column


def _type_name(column: ResolvedColumn) -> str:
    kind = column.field.type
    return kind.name if isinstance(kind, PrimitiveType) else ""


def _exact_partition(column: ResolvedColumn) -> ResolvedColumn:
    if not column.is_partition or column.collated or _type_name(column) not in _EXACT_PARTITIONS:
        raise _NotExact
    return column


def _chosen(snapshot: Files, predicates: Sequence[Predicate]) -> pa.BooleanArray:
    """The files whose rows all meet the predicates, where no file is between."""
    partitions = {name.lower() for name in snapshot.partition_columns}
    mentioned = {name.lower() for predicate in predicates for path in columns(predicate) for name in path[:1]}
    if not mentioned <= partitions:
        raise _NotExact
    yes, no, null = (settle(possible(snapshot, predicates, outcome), snapshot.num_files) for outcome in Outcome)
    if pc.any(pc.and_(yes, pc.or_(no, null))).as_py():
        raise _NotExact
    return yes


class _LiveFiles:
    """The chosen files, their counts of live records, and what each contributes to an aggregate."""

    def __init__(self, snapshot: Files, chosen: pa.BooleanArray, columns: Sequence[ResolvedColumn]) -> None:
        self._snapshot = snapshot
        self._chosen = chosen
        self._leaves = sorted({c.physical_path for c in columns if not c.is_partition})
        self._statistics = snapshot.statistics(self._leaves).filter(chosen)
        self._physical = _known(self._statistics["num_records"])
        vectors = snapshot.select(["deletion_vector"])["deletion_vector"].filter(chosen)
        deleted = pc.struct_field(vectors, "cardinality")
        if pc.any(pc.and_(pc.is_valid(vectors), pc.is_null(deleted))).as_py():
            raise _NotExact
        #: int64, how many rows each file has after its deletion vector.
        self.records = pc.subtract(self._physical, deleted.fill_null(0))
        self._loose = pc.or_(pc.is_valid(vectors), pc.invert(self._statistics["tight_bounds"].fill_null(True)))

    def partition(self, column: ResolvedColumn) -> Any:
        return plain(self._snapshot.partition_values(column.field.name)).filter(self._chosen)

    def values(self, kind: str, column: ResolvedColumn | None) -> Any:
        """One value a file, whose sum, minimum or maximum is the aggregate."""
        if kind == "count":
            return self.records if column is None else self._count(column)
        if kind not in ("min", "max") or column is None:
            raise _NotExact
        if column.is_partition:
            return self.partition(_exact_partition(column))
        if column.collated or _type_name(column) not in _EXACT_BOUNDS:
            raise _NotExact
        i = self._leaves.index(column.physical_path)
        self._refuse(self._loose)
        bound, nulls = plain(self._statistics[f"{kind}.{i}"]), self._statistics[f"nulls.{i}"]
        # A bound says nothing if all is null, and all may be null where the nulls were not counted.
        all_null = pc.equal(_known(nulls), self._physical)
        self._refuse(pc.and_(pc.is_null(bound), pc.invert(all_null)))
        return pc.if_else(all_null, pa.scalar(None, bound.type), bound)

    def _count(self, column: ResolvedColumn) -> Any:
        if column.is_partition:
            return pc.if_else(pc.is_null(self.partition(column)), 0, self.records)
        nulls = _known(self._statistics[f"nulls.{self._leaves.index(column.physical_path)}"])
        none, every = pc.equal(nulls, 0), pc.equal(nulls, self._physical)
        self._refuse(pc.and_(self._loose, pc.invert(pc.or_(none, every))))
        return pc.if_else(every, 0, pc.if_else(none, self.records, pc.subtract(self._physical, nulls)))

    def _refuse(self, mask: Any) -> None:
        if pc.any(mask).as_py():
            raise _NotExact


def _known(values: Any) -> Any:
    if values.null_count:
        raise _NotExact
    return values
