"""The statistics of a data file that its Parquet footer holds.

Owns the judgement which values of a footer are those of the table's columns: by the column's name or id, its type in
the file, and the file's writer. Follows the protocol's chapters "Per-file Statistics" and "Column Mapping". Promise: a
value that is given is exact or, for texts, bounds; what a footer does not know for sure is left open, for a query to
find.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isinf, isnan
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headwater.basics.julian import FIRST_DAY, FIRST_MICROSECOND
from headwater.protocol.column_metadata import COLUMN_ID
from headwater.protocol.columns import Leaf, Path
from headwater.protocol.indexed_columns import has_bounds
from headwater.protocol.types import INTEGERS, DataType, DecimalType, PrimitiveType
from headwater.stores.file_calendar import FileCalendar

#: Minimum, maximum and null count as :func:`~headwater.log.statistics.writing.statistics_json` takes them.
Values = tuple[Any, Any, int | None]

#: Factor and divisor that make microseconds.
_UNITS = {"milliseconds": (1000, 1), "microseconds": (1, 1), "nanoseconds": (1, 1000)}
_FIELD_ID = b"PARQUET:field_id"
_PARQUET_JAVA = re.compile(r"parquet-mr version (\d{1,4})\.(\d{1,4})\b")


@dataclass(frozen=True)
class FooterStatistics:
    """What a footer says of a file. ``values``: for each column asked for, None if the footer leaves it open."""

    rows: int
    values: list[Values | None]


def statistics_of(footer: pq.FileMetaData, columns: Sequence[Leaf], *, by_id: bool) -> FooterStatistics:
    """The statistics of some of a table's columns.

    :param by_id: whether columns are found in files by their ids (column mapping mode ``id``).
    """
    chunks = _Chunks(footer, by_id)
    return FooterStatistics(footer.num_rows, [chunks.values(column) for column in columns])


def counts_nan(created_by: str) -> bool:
    """Whether a file's bounds of floating-point columns hold for NaN too, which Spark orders above all other values.

    Most writers leave NaN out of a minimum and a maximum. Parquet's own gives no bounds beside NaN since 1.10.
    """
    found = _PARQUET_JAVA.match(created_by)
    return found is not None and (int(found[1]), int(found[2])) >= (1, 10)


class _Chunks:
    """A footer's columns, and what their chunks say."""

    def __init__(self, footer: pq.FileMetaData, by_id: bool) -> None:
        self._footer = footer
        self._by_id = by_id
        self._calendar = FileCalendar.of(footer)
        self._counts_nan = counts_nan(footer.created_by or "")
        self._groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
        self._places: dict[Any, int | None] = {}
        keys = _ids(footer) if by_id else _names(footer)
        for place, key in enumerate(keys):
            # Two columns of one name: only the reader knows which is meant.
            self._places[key] = None if key in self._places else place

    def values(self, column: Leaf) -> Values | None:
        key = self._key(column)
        if key is None:
            return None
        if key not in self._places:
            return self._values_without_chunks(column, key)
        place = self._places[key]
        return None if place is None else self._merged(place, column.type)

    def _key(self, column: Leaf) -> Any:
        if self._by_id:
            # A file without ids was written before the table had them.
            own = column.field.metadata.get(COLUMN_ID)
            return own if isinstance(own, int) and self._places.keys() - {None} else None
        return None if None in self._places else tuple(name.lower() for name in column.physical_path)

    def _values_without_chunks(self, column: Leaf, key: Any) -> Values | None:
        """A column added after the file was written has only nulls in it; a variant is a group of columns."""
        if not self._by_id and any(known[: len(key)] == key for known in self._places):
            return None if has_bounds(column.type) else (None, None, None)
        if self._by_id and not has_bounds(column.type):
            return None, None, None
        return None, None, self._footer.num_rows

    def _merged(self, place: int, kind: DataType) -> Values | None:
        stored = self._footer.schema.column(place)
        if stored.max_repetition_level:
            return None
        nulls = 0
        lows, highs = [], []
        for group in self._groups:
            chunk = group.column(place)
            found = chunk.statistics
            if found is None or not found.has_null_count:
                return None
            nulls += found.null_count
            if found.null_count == chunk.num_values or not has_bounds(kind):
                continue
            bounds = _bounds(found, stored, kind, self._counts_nan, self._calendar)
            if bounds is None:
                return None
            lows.append(bounds[0])
            highs.append(bounds[1])
        low, high = (min(lows), max(highs)) if lows else (None, None)
        return _raw(low, kind), _raw(high, kind), nulls


def _bounds(
    found: pq.Statistics, stored: pq.ColumnSchema, kind: DataType, counts_nan: bool, calendar: FileCalendar
) -> Any:
    """Minimum and maximum of one chunk in an ordered form; None if they are not surely those of the table's type."""
    if not found.has_min_max:
        return None
    try:
        low, high = found.min_raw, found.max_raw
        if isinstance(kind, DecimalType):
            return _decimals(found, stored)
        assert isinstance(kind, PrimitiveType)
        logical, physical = stored.logical_type.type, stored.physical_type
        if kind.name in INTEGERS:
            plain = physical in ("INT32", "INT64") and (logical == "NONE" or _is_signed(stored))
            return (low, high) if plain else None
        if kind.name in ("float", "double"):
            usable = counts_nan and physical in ("FLOAT", "DOUBLE") and not (isnan(low) or isnan(high))
            return (low, high) if usable else None
        if kind.name == "date":
            usable = logical == "DATE" and calendar.is_exact(low, FIRST_DAY)
            return (low, high) if usable else None
        if kind.name in ("timestamp", "timestamp_ntz"):
            times = _microseconds(low, high, stored, kind.name == "timestamp")
            return times if times is not None and calendar.is_exact(times[0], FIRST_MICROSECOND) else None
        return (low.decode(), high.decode()) if logical == "STRING" and physical == "BYTE_ARRAY" else None
    except (ValueError, TypeError, ArithmeticError, pa.ArrowException):
        return None


def _is_signed(stored: pq.ColumnSchema) -> bool:
    return '"isSigned":true' in stored.logical_type.to_json().replace(" ", "")


def _decimals(found: pq.Statistics, stored: pq.ColumnSchema) -> Any:
    if stored.logical_type.type != "DECIMAL":
        return None
    return found.min, found.max


def _microseconds(low: Any, high: Any, stored: pq.ColumnSchema, is_instant: bool) -> tuple[int, int] | None:
    text = stored.logical_type.to_json().replace(" ", "")
    unit = next((factors for name, factors in _UNITS.items() if f'"timeUnit":"{name}"' in text), None)
    if stored.physical_type != "INT64" or unit is None or ('"isAdjustedToUTC":true' in text) != is_instant:
        return None
    times, over = unit
    return low * times // over, -(-high * times // over)


def _raw(value: Any, kind: DataType) -> Any:
    if value is None:
        return None
    if isinstance(kind, DecimalType):
        return f"{value:f}"
    if isinstance(value, float):
        if isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        # A float keeps its own shortest text: as a double it would have more digits than it is precise.
        return float(str(np.float32(value))) if kind == PrimitiveType("float") else value
    return value


#: For a step into an array or a map, which no name of a column is.
_WITHIN = ""


def _names(footer: pq.FileMetaData) -> list[Path | None]:
    """The lower-case names that lead to each leaf; None if they are not known. The footer's own paths would not do:
    the column ``a.b`` has that of the field ``b`` of ``a``.
    """
    return [path for path, _ in _leaves(footer)]


def _ids(footer: pq.FileMetaData) -> list[int | None]:
    """The field id of each leaf, None if it has none, or lies in an array or map."""
    return [None if field is None else field_id(field) for _, field in _leaves(footer)]


def field_id(field: pa.Field) -> int | None:
    """The id that a Parquet file gives one of its fields."""
    written = (field.metadata or {}).get(_FIELD_ID)
    return None if written is None else int(written)


def _leaves(footer: pq.FileMetaData) -> list[tuple[Path | None, pa.Field | None]]:
    """Names of and field of each leaf, the latter None in arrays and maps; both None where Arrow does not know."""
    found: list[tuple[Path | None, pa.Field | None]] = []
    with suppress(pa.ArrowException):
        found = [leaf for field in footer.schema.to_arrow_schema() for leaf in _leaves_of(field, ())]
    return found if len(found) == footer.num_columns else [(None, None)] * footer.num_columns


def _leaves_of(field: pa.Field, above: Path) -> Iterator[tuple[Path, pa.Field | None]]:
    path = (*above, field.name.lower())
    kind = field.type.storage_type if isinstance(field.type, pa.BaseExtensionType) else field.type
    if pa.types.is_struct(kind):
        for child in kind:
            yield from _leaves_of(child, path)
    elif pa.types.is_map(kind):
        yield from (
            ((*path, _WITHIN), None) for inner in (kind.key_field, kind.item_field) for _ in _leaves_of(inner, ())
        )
    elif pa.types.is_nested(kind):
        yield from (((*path, _WITHIN), None) for _ in _leaves_of(kind.value_field, ()))
    else:
        yield path, field
