"""Rows along a space-filling curve: rows with similar values in several columns are in the same files, so that scans
skip the others.

Owns the query that arranges rows: the number of each value's range among a sample of its column's values, a place on
the curve made of these numbers, and as many tasks as there are to be files, each with a stretch of the curve. The
ranges have about as many rows each, so a value that is frequent, or null, takes as much of the curve as it has rows.
One column needs no curve: its values themselves are the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from headwater.bridge.statement import Statement
from headwater.log.snapshot import Snapshot
from headwater.protocol.columns import Path
from headwater.protocol.types import DataType, PrimitiveType
from headwater.sql.composing import (
    Alias,
    Call,
    Cast,
    Column,
    Expression,
    Field,
    Number,
    Query,
    Rows,
    Text,
    call,
    infix,
    select,
)
from headwater.statements.files.bins import Bin
from headwater.statements.files.copying import Arranged, Packed, copy_bin, copy_bins
from headwater.statements.files.file_lists import relation_over
from headwater.statements.files.rows import Target
from headwater.statements.internal_names import InternalNames
from headwater.transaction.moved_rows import Copy

#: A column has 2 to this number of ranges, where the curve's place has room for it: about 1000, as the format's other
#: writers have.
_BITS = 10
#: The bits of a place: those of a BIGINT that is not negative.
_BITS_OF_PLACE = 63
#: Rows in the sample of a column: about 50 a range, so a range has within a third of its share.
_SAMPLED_ROWS = 50_000
#: The characters of a string that count for its range.
_PREFIX = 256

_LONG, _DOUBLE, _STRING = PrimitiveType("long"), PrimitiveType("double"), PrimitiveType("string")


class Curve(NamedTuple):
    """An order of rows by columns, given by their logical paths, with their types; Hilbert's curve or the Z-order."""

    columns: tuple[tuple[Path, DataType], ...]
    is_hilbert: bool

    @property
    def bits(self) -> int:
        """The bits of each column's part of the place."""
        return min(_BITS, _BITS_OF_PLACE // len(self.columns))


def curve(columns: Sequence[tuple[Path, DataType]], *, is_hilbert: bool) -> Curve:
    """The curve of columns; those beyond the bits that a place has make no difference."""
    return Curve(tuple(columns[:_BITS_OF_PLACE]), is_hilbert)


def files_of(size: int, file_size: int) -> int:
    """How many files rows of so many bytes become."""
    return max(1, -(-size // max(1, file_size)))


def copy_along(
    curve: Curve,
    statement: Statement,
    snapshot: Snapshot,
    files: pa.Table,
    bins: Sequence[Bin],
    target: Target,
    file_size: int,
) -> list[Copy]:
    """Copy bins of files, each along a curve into files of about a size.

    Those that become one file are copied in one job, a task each, without a shuffle.

    :param files: rows of ``snapshot.files``, which the bins' positions are of.
    :param file_size: in bytes.
    :returns: a copy for each bin, in their order.
    :raises HeadwaterError: ``DELTA_NUM_RECORDS_MISMATCH`` if a row would be lost.
    """
    alone = [number for number, each in enumerate(bins) if files_of(each.size, file_size) == 1]
    copies: dict[int, Copy] = {}
    if alone:
        small = [bins[number] for number in alone]
        in_tasks = _arranged(curve, statement, snapshot, None)
        copied = copy_bins(statement, snapshot, files, small, target, in_tasks)
        copies.update(zip(alone, copied, strict=True))
    for number, each in enumerate(bins):
        if number not in copies:
            count = files_of(each.size, file_size)
            over = _arranged(curve, statement, snapshot, count)
            copies[number] = copy_bin(statement, snapshot, files, each, target, over)
    return [copies[number] for number in range(len(bins))]


def _arranged(curve: Curve, statement: Statement, snapshot: Snapshot, tasks: int | None) -> Arranged:
    """The query for rows along a curve.

    :param tasks: how many tasks have a stretch of the curve each; None for the rows of each task by themselves.
    """

    def arranged(packed: Packed, rows: Rows, columns: Sequence[Column]) -> Query:
        place = _place(curve, statement, snapshot, packed)
        names = InternalNames.beside([*snapshot.schema.names, *(column.name for column in columns)])
        key, spread = names.of("place"), names.of("spread")
        selected: list[Expression] = [*columns, Alias(place, key)]
        hint = None
        if tasks is not None:
            # Rows of one place are spread, or a frequent value would make one file too large.
            selected.append(Alias(call("rand", Number(0)), spread))
            hint = f"REPARTITION_BY_RANGE({tasks}, {_quoted(key)}, {_quoted(spread)})"
        inner = select(*selected, rows=rows, hint=hint, sort_by=(Column(key),))
        return select(*columns, rows=inner)

    return arranged


def _quoted(name: str) -> str:
    return f"`{name}`"


def _place(curve: Curve, statement: Statement, snapshot: Snapshot, packed: Packed) -> Expression:
    if len(curve.columns) == 1:
        ((path, _),) = curve.columns
        return Field(path)
    values = [_value(path, kind) for path, kind in curve.columns]
    bounds = _bounds(curve, statement, snapshot, packed, values)
    ids = [call("range_id", value, _constant(found, kind)) for (value, kind), found in zip(values, bounds, strict=True)]
    return call("hilbert" if curve.is_hilbert else "z_order", Number(curve.bits), *ids)


def _constant(values: Sequence[Any], kind: DataType) -> Expression:
    return call("from_json", Text(msgspec.json.encode(values).decode()), Text(f"array<{kind.sql()}>"))


def _bounds(
    curve: Curve,
    statement: Statement,
    snapshot: Snapshot,
    packed: Packed,
    values: Sequence[tuple[Expression, DataType]],
) -> list[list[Any]]:
    """Where the ranges of each column begin, from a sample of its values."""
    rows = sum(packed.live)
    sampled: list[Expression] = [Alias(value, f"c{i}") for i, (value, _) in enumerate(values)]
    some = None
    if rows > _SAMPLED_ROWS:
        some = infix("<", call("rand", Number(0)), infix("/", Number(_SAMPLED_ROWS), Number(rows, is_long=True)))
    sample = select(*sampled, rows=relation_over(statement, snapshot, packed.files), where=some)
    lists: list[Expression] = [
        Alias(call("sort_array", call("collect_list", Column(f"c{i}"))), f"c{i}") for i in range(len(values))
    ]
    counted = Alias(call("count", Number(1)), "rows")
    (found,) = statement.query(select(*lists, counted, rows=sample).text())
    ranges = 1 << curve.bits
    return [quantiles(found[f"c{i}"], found["rows"], ranges) for i in range(len(values))]


def quantiles(values: Sequence[Any], rows: int, ranges: int) -> list[Any]:
    """Where all ranges but the first begin, so that each has about as many rows.

    :param values: in order, without nulls; ``rows`` counts nulls too, which come first.
    """
    if not rows:
        return []
    nulls = rows - len(values)
    at = [rows * number // ranges for number in range(1, ranges)]
    return [None if position < nulls else values[position - nulls] for position in at]


def _value(path: Path, kind: DataType) -> tuple[Expression, DataType]:
    """A column as a value that JSON keeps, in the same order; and its type. Where a type has more than that keeps, near
    values may be equal.
    """
    column = Field(path)
    match kind:
        case PrimitiveType("byte" | "short" | "integer" | "long" | "boolean"):
            return Cast(column, _LONG), _LONG
        case PrimitiveType("date"):
            return Cast(call("unix_date", column), _LONG), _LONG
        case PrimitiveType("timestamp"):
            return call("unix_micros", column), _LONG
        case PrimitiveType("timestamp_ntz"):
            return call("unix_micros", Cast(column, PrimitiveType("timestamp"), or_null=True)), _LONG
        case PrimitiveType("binary"):
            return call("hex", _prefix(column)), _STRING
        case PrimitiveType("string"):
            return _prefix(column), _STRING
    return Cast(column, _DOUBLE), _DOUBLE


def _prefix(column: Expression) -> Call:
    return call("substring", column, Number(1), Number(_PREFIX))
