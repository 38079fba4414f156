"""The JSON text of statistics that a checkpoint holds as typed columns alone.

Owns the way from ``stats_parsed`` back to ``stats``, for tables with ``delta.checkpoint.writeStatsAsJson = false``: a
commit that adds a file of the table again, and a checkpoint with text, need the text. Follows the protocol's chapter
"Per-file Statistics". Promise: what is known of a file stays known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from headwater.log.statistics.writing import statistics_json
from headwater.protocol.types import DataType, DecimalType, PrimitiveType

#: Bounds are short already: no writer puts longer ones into a checkpoint than into a commit.
_UNCUT = 1 << 30
_SECTIONS = ("minValues", "maxValues", "nullCount")
Path = tuple[str, ...]


def texts_of(
    column: pa.StructArray,
    is_instant: Callable[[Path], bool],
    certain: Callable[[pa.Array], pa.Array] = lambda values: values,
) -> pa.Array:
    """The text of each row's statistics; null where the row says nothing.

    :param column: ``stats_parsed``.
    :param is_instant: whether times without a zone, at a path below the column, are instants in UTC nevertheless.
    :param certain: what of a leaf's values may be used.
    """
    sections = {
        name: {path: certain(leaf) for path, leaf in _leaves(_field(column, name)).items()} for name in _SECTIONS
    }
    paths = list(dict.fromkeys(path for section in sections.values() for path in section))
    kinds = [_kind(sections, path, is_instant) for path in paths]
    values = [
        [_raw(sections[name].get(path), len(column)) for name in _SECTIONS] for path in paths
    ]  # by leaf, section and row
    counts = _raw(_field(column, "numRecords"), len(column))
    tight = _raw(_field(column, "tightBounds"), len(column))
    leaves = list(zip(paths, kinds, strict=True))
    texts: list[str | None] = []
    for row, count in enumerate(counts):
        known = [[section[row] for section in leaf] for leaf in values]
        if count is None and not any(value is not None for leaf in known for value in leaf):
            texts.append(None)
            continue
        texts.append(statistics_json(count, leaves, known, tight_bounds=tight[row], string_length=_UNCUT))
    return pa.array(texts, pa.string())


def _field(column: pa.StructArray, name: str) -> pa.Array | None:
    position = column.type.get_field_index(name)
    return None if position < 0 else column.flatten()[position]


def _leaves(column: pa.Array | None, path: Path = ()) -> dict[Path, pa.Array]:
    return {} if column is None else dict(_walk(column, path))


def _walk(column: pa.Array, path: Path) -> Iterator[tuple[Path, pa.Array]]:
    if not pa.types.is_struct(column.type):
        yield path, column
        return
    for field, child in zip(column.type, column.flatten(), strict=True):
        yield from _walk(child, (*path, field.name))


def _kind(sections: dict[str, dict[Path, pa.Array]], path: Path, is_instant: Callable[[Path], bool]) -> DataType:
    """The type whose spelling a column's bounds have; one without bounds where it has none."""
    for section in ("minValues", "maxValues"):
        if path in sections[section]:
            return _type_of(sections[section][path].type, is_instant((section, *path)))
    return PrimitiveType("binary")


def _type_of(kind: pa.DataType, is_instant: bool) -> DataType:
    types = pa.types
    if types.is_decimal(kind):
        return DecimalType(kind.precision, kind.scale)
    if types.is_timestamp(kind):
        return PrimitiveType("timestamp" if kind.tz is not None or is_instant else "timestamp_ntz")
    if types.is_integer(kind):
        return PrimitiveType("long")
    if types.is_floating(kind):
        return PrimitiveType("double")
    if types.is_date32(kind):
        return PrimitiveType("date")
    return PrimitiveType("string" if types.is_string(kind) or types.is_large_string(kind) else "binary")


def _raw(column: pa.Array | None, rows: int) -> list[Any]:
    """Values as a file's footer has them: see :func:`~headwater.log.statistics.writing.statistics_json`."""
    if column is None:
        return [None] * rows
    kind = column.type
    if pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
    values: list[Any] = column.to_pylist()
    if pa.types.is_decimal(kind):
        return [None if value is None else f"{value:f}" for value in values]
    if pa.types.is_floating(kind):
        # Infinities are text in JSON.
        return [
            value if value is None or abs(value) != float("inf") else "Infinity" if value > 0 else "-Infinity"
            for value in values
        ]
    return values
