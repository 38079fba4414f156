"""Estimates for an optimizer: rows, bounds and null counts of some files.

Owns the sums over per-file statistics. Follows the protocol's chapter "Per-file Statistics". Promises: the row count is
that of the rows left after deletion vectors; bounds may be wider than the truth, but not narrower, NaN left out; what
is not known of one file is not known of all. None of it may decide a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.basics.errors import HeadwaterError
from headwater.protocol.types import DecimalType, PrimitiveType
from headwater.pruning.bounds import Files, ResolvedColumn, plain, resolve_column
from headwater.pruning.predicates import INTEGRAL_RANGES

#: Types whose bounds Spark estimates with.
_BOUNDED = {*INTEGRAL_RANGES, "float", "double", "boolean", "date", "timestamp", "timestamp_ntz"}

#: Minimum, maximum and null count; None is unknown.
Estimate = tuple[Any, Any, int | None]


def estimate(
    snapshot: Files, chosen: pa.BooleanArray | None, names: Sequence[str]
) -> tuple[int, dict[str, Estimate]] | None:
    """The rows of files and, by name, what is known of columns; ``None`` if a file has no row count.

    :param chosen: the files, a boolean each; None for all.
    :param names: top-level columns. Those without statistics are left out.
    """
    columns = {name: column for name in names if (column := _column(snapshot, name)) is not None}
    leaves = sorted({column.physical_path for column in columns.values() if not column.is_partition})
    statistics = _of(snapshot.statistics(leaves), chosen)
    vectors = _of(snapshot.select(["deletion_vector"])["deletion_vector"], chosen)
    records = statistics["num_records"]
    if records.null_count:
        return None
    left = pc.subtract(records, pc.struct_field(vectors, "cardinality").cast(pa.int64()).fill_null(0))
    rows = max(_sum(left), 0)
    found: dict[str, Estimate] = {}
    for name, column in columns.items():
        try:
            if column.is_partition:
                values = _of(plain(snapshot.partition_values(column.field.name)), chosen)
                nulls: Any = pc.if_else(pc.is_null(values), left, 0)
                found[name] = (*_range(column, values, values, True), _sum(nulls))
            else:
                i = leaves.index(column.physical_path)
                nulls = statistics[f"nulls.{i}"]
                all_null = pc.equal(nulls, records).fill_null(False)
                low, high = (plain(statistics[f"{kind}.{i}"]) for kind in ("min", "max"))
                count = None if nulls.null_count else min(_sum(nulls), rows)
                found[name] = (*_range(column, low, high, all_null), count)
        except (pa.ArrowException, HeadwaterError, ValueError, ArithmeticError):
            continue
    return rows, found


def _column(snapshot: Files, name: str) -> ResolvedColumn | None:
    column = resolve_column(snapshot, (name,))
    return column if column is not None and column.has_statistics else None


def _of(values: Any, chosen: pa.BooleanArray | None) -> Any:
    return values if chosen is None else values.filter(chosen)


def _sum(values: Any) -> int:
    total: int | None = pc.sum(values).as_py()
    return total or 0


def _range(column: ResolvedColumn, low: Any, high: Any, may_lack: Any) -> tuple[Any, Any]:
    """The least minimum and the greatest maximum; unknown where one is missing that may not be."""
    kind = column.field.type
    if not isinstance(kind, DecimalType) and not (isinstance(kind, PrimitiveType) and kind.name in _BOUNDED):
        return None, None
    for bound in (low, high):
        if may_lack is not True and pc.any(pc.and_(pc.is_null(bound), pc.invert(may_lack))).as_py():
            return None, None
    return pc.min(low).as_py(), pc.max(high).as_py()
