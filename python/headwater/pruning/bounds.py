"""The bounds of a column's values in each file.

Owns the way from statistics, partition values and literals to bounds: for each file two values that every value of
the operand lies between, and how many are null. Follows the protocol's chapters "Per-file Statistics" and "Partition
Value Serialization". Promise: bounds may be wider than the truth, never narrower:

1. A maximum of eight characters or more may be a cut-off prefix: strings "are cut off at a fixed prefix length", and
   not every writer pads the maximum up again. Values that start with such a maximum count as inside.
2. The bounds of floating-point columns may leave NaN out, which Spark orders above every other value.
3. A timestamp partition value without a zone was written in its writer's zone, and a date becomes a timestamp in the
   session's: both are widened by the largest offset a zone may have.
4. Null counts are used only where they are 0 or all records, the two cases that loose bounds keep exact.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from headwater.protocol.types import (
    INTERVAL_FIELDS,
    PRIMITIVES,
    DataType,
    DecimalType,
    PrimitiveType,
    StructField,
    StructType,
)
from headwater.pruning.masks import MAYBE, Mask
from headwater.pruning.predicates import BOOLEAN, INTEGRAL_RANGES, Cast, Column, Literal, Operand, Value, Year, type_of

#: The shortest maximum, in characters, that is taken for a possibly cut-off one.
CUT_OFF = 8
#: Types whose order here is Spark's; binary and collated strings are not among them.
ORDERED = {*INTEGRAL_RANGES, "float", "double", "string", "boolean", "date", "timestamp", "timestamp_ntz"}
_FLOATING = ("float", "double")
#: Java allows zone offsets up to 18 hours.
_LARGEST_OFFSET = pa.scalar(timedelta(hours=18), pa.duration("us"))
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}


def may_be_cut_off_from(text: str, maximum: str) -> bool:
    """Whether a maximum of strings may be what is left of a longer text."""
    return len(maximum) >= CUT_OFF and text.startswith(maximum)


class Files(Protocol):
    """What this package asks of a snapshot."""

    @property
    def schema(self) -> StructType: ...
    @property
    def partition_columns(self) -> Sequence[str]: ...
    @property
    def files(self) -> pa.Table: ...
    @property
    def num_files(self) -> int: ...
    def select(self, names: Sequence[str]) -> pa.Table: ...
    def statistics(self, leaves: Sequence[tuple[str, ...]]) -> pa.Table: ...
    def partition_values(self, name: str) -> pa.Array: ...


@dataclass(frozen=True)
class Bounds:
    """Bounds of an operand in each file: arrays of one value a file, or scalars where every file has the same."""

    type: DataType
    low: Any
    high: Any
    #: Whether a row of the file may be null; whether every row of it is.
    some_null: Callable[[], Mask]
    all_null: Callable[[], Mask]
    #: ``high`` may be a cut-off prefix.
    cut_off: bool = False
    #: NaN may be there beyond ``high``.
    nan: bool = False

    @property
    def is_literal(self) -> bool:
        return isinstance(self.low, pa.Scalar)


@dataclass(frozen=True)
class ResolvedColumn:
    """A column found in the schema."""

    field: StructField
    #: The names inside statistics that lead to it.
    physical_path: tuple[str, ...]
    is_partition: bool
    #: Strings that are ordered and equated by other rules than the statistics follow: a collation's, or those of
    #: ``char(n)``, which pad what they are compared with.
    collated: bool

    @property
    def has_statistics(self) -> bool:
        kind = self.field.type
        return isinstance(kind, DecimalType) or (
            isinstance(kind, PrimitiveType)
            and kind.name in PRIMITIVES
            and kind.name not in ("void", "variant", *INTERVAL_FIELDS)  # the protocol: intervals skip no file
        )


def resolve_column(snapshot: Files, path: Sequence[str]) -> ResolvedColumn | None:
    """The column of that logical path; ``None`` if there is no such, or it is not reached by structs alone."""
    partitions = {name.lower() for name in snapshot.partition_columns}
    parent: DataType = snapshot.schema
    physical: list[str] = []
    collated = False
    field = None
    for name in path:
        field = parent.find(name) if isinstance(parent, StructType) else None
        if field is None:
            return None
        physical.append(field.physical_name)
        padded = str(field.metadata.get("__CHAR_VARCHAR_TYPE_STRING", "")).lower().startswith("char")
        collated = collated or padded or "__COLLATIONS" in field.metadata
        parent = field.type
    if field is None:
        return None
    is_partition = len(path) == 1 and field.name.lower() in partitions
    return ResolvedColumn(field, tuple(physical), is_partition, collated)


class BoundsReader:
    """Bounds of operands over one snapshot; asks it once for the statistics of all the columns of a predicate."""

    def __init__(self, snapshot: Files, paths: Sequence[tuple[str, ...]]) -> None:
        self._snapshot = snapshot
        self._columns = {path: resolve_column(snapshot, path) for path in paths}
        leaves = {c.physical_path for c in self._columns.values() if c and c.has_statistics and not c.is_partition}
        self._leaves = sorted(leaves)
        self._statistics = snapshot.statistics(self._leaves) if leaves else None

    def read(self, operand: Operand) -> Bounds | None:
        """The operand's bounds; ``None`` if nothing is known of it."""
        match operand:
            case Literal(name, None):
                return Bounds(type_of(name), MAYBE, MAYBE, lambda: True, lambda: True)
            case Literal(name, value):
                return literal_bounds(type_of(name), values_of(type_of(name), [value])[0])
            case Cast(child, name):
                inner = self.read(child)
                return None if inner is None else cast_bounds(inner, type_of(name))
            case Year(child):
                inner = self.read(child)
                if inner is None or inner.type != PrimitiveType("date"):
                    return None
                return replace(inner, type=PrimitiveType("integer"), low=pc.year(inner.low), high=pc.year(inner.high))
            case Column(path):
                column = self._columns.get(path)
                if column is None or not column.has_statistics:
                    return None
                return self._partition(column) if column.is_partition else self._data(column)

    def _partition(self, column: ResolvedColumn) -> Bounds:
        values = plain(self._snapshot.partition_values(column.field.name))

        def null() -> Mask:
            return pc.is_null(values)

        kind = column.field.type
        if not is_ordered(column):
            return Bounds(kind, MAYBE, MAYBE, null, null)
        low = high = values
        if kind == PrimitiveType("timestamp"):
            low, high = pc.subtract_checked(values, _LARGEST_OFFSET), pc.add_checked(values, _LARGEST_OFFSET)
        elif isinstance(kind, PrimitiveType) and kind.name in _FLOATING:
            low = high = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
        elif kind == BOOLEAN:
            low = high = values.cast(pa.int8())
        return Bounds(kind, low, high, null, null)

    def _data(self, column: ResolvedColumn) -> Bounds:
        assert self._statistics is not None
        table, i = self._statistics, self._leaves.index(column.physical_path)
        nulls, records = table[f"nulls.{i}"], table["num_records"]
        kind = column.field.type
        low = high = MAYBE
        if is_ordered(column):
            low, high = plain(table[f"min.{i}"]), plain(table[f"max.{i}"])
            if kind == BOOLEAN:
                low, high = low.cast(pa.int8()), high.cast(pa.int8())
        return Bounds(
            kind,
            low,
            high,
            some_null=lambda: pc.not_equal(nulls, 0),
            all_null=lambda: pc.equal(nulls, records),
            cut_off=kind == PrimitiveType("string"),
            nan=isinstance(kind, PrimitiveType) and kind.name in _FLOATING,
        )


def literal_bounds(kind: DataType, scalar: pa.Scalar) -> Bounds:
    """The bounds of a value that is not null."""
    return Bounds(kind, scalar, scalar, lambda: False, lambda: False)


def values_of(kind: DataType, values: Sequence[Value]) -> pa.Array:
    """The values of literals, none of them null, in Arrow's type; booleans as int8.

    :raises ValueError: a value is none of the type; so are Arrow's errors and arithmetic ones.
    """
    if kind == BOOLEAN:
        return pa.array(values, pa.bool_()).cast(pa.int8())
    if isinstance(kind, DecimalType):
        return pa.array([Decimal(str(value)) for value in values], kind.to_arrow())
    if isinstance(kind, PrimitiveType) and kind.name in _FLOATING:
        return pa.array([float(value) for value in values if value is not None], kind.to_arrow())
    if kind == PrimitiveType("binary"):
        return pa.array([base64.b64decode(str(value), validate=True) for value in values], kind.to_arrow())
    expected = str if kind == PrimitiveType("string") else int
    if any(type(value) is not expected for value in values):
        raise ValueError(f"a value is no {kind.to_json()}")
    return pa.array(values, kind.to_arrow())


def is_ordered(column: ResolvedColumn) -> bool:
    """Whether Arrow compares the column's values as Spark does."""
    kind = column.field.type
    if column.collated:
        return False
    return isinstance(kind, DecimalType) or (isinstance(kind, PrimitiveType) and kind.name in ORDERED)


def plain(values: Any) -> Any:
    """The values without dictionary encoding."""
    return values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values


def cast_bounds(bounds: Bounds, target: DataType) -> Bounds | None:
    """The bounds after a cast that keeps the order of values and makes none null; ``None`` for any other cast."""
    source = bounds.type
    if source == target:
        return bounds
    if bounds.low is MAYBE or not isinstance(source, PrimitiveType | DecimalType):
        return None
    if isinstance(target, DecimalType):
        if isinstance(source, DecimalType):
            whole, scale = source.precision - source.scale, source.scale
        elif source.name in _DIGITS:
            whole, scale = _DIGITS[source.name], 0
        else:
            return None
        fits = target.precision - target.scale >= whole and target.scale >= scale
        return _converted(bounds, target, lambda v: pc.cast(v, target.to_arrow())) if fits else None
    if not isinstance(source, PrimitiveType) or not isinstance(target, PrimitiveType):
        return None
    arrow = target.to_arrow()
    pair = (source.name, target.name)
    if source.name in INTEGRAL_RANGES:
        wider = target.name in _FLOATING or INTEGRAL_RANGES.get(target.name, 0) >= INTEGRAL_RANGES[source.name]
        return _converted(bounds, target, lambda v: pc.cast(v, arrow, safe=False)) if wider else None
    if pair == ("float", "double"):
        return _converted(bounds, target, lambda v: pc.cast(v, arrow))
    if pair in (("date", "timestamp"), ("timestamp_ntz", "timestamp"), ("timestamp", "timestamp_ntz")):
        moved = _converted(bounds, target, lambda v: pc.cast(v, pa.timestamp("us")))
        return _widened(moved, lambda v: pc.cast(v, arrow))
    if pair == ("timestamp", "date"):
        return _widened(_converted(bounds, target, lambda v: pc.cast(v, pa.timestamp("us"))), _day)
    if pair == ("date", "timestamp_ntz"):
        return _converted(bounds, target, lambda v: pc.cast(v, arrow))
    if pair == ("timestamp_ntz", "date"):
        return _converted(bounds, target, _day)
    return None


def _day(values: Any) -> Any:
    return pc.cast(values, pa.date32())  # rounds down, before 1970 too


def _converted(bounds: Bounds, target: DataType, convert: Callable[[Any], Any]) -> Bounds:
    low = convert(bounds.low)
    return replace(bounds, type=target, low=low, high=low if bounds.high is bounds.low else convert(bounds.high))


def _widened(bounds: Bounds, convert: Callable[[Any], Any]) -> Bounds:
    low = convert(pc.subtract_checked(bounds.low, _LARGEST_OFFSET))
    return replace(bounds, low=low, high=convert(pc.add_checked(bounds.high, _LARGEST_OFFSET)))
