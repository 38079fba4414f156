"""The initial snapshot in the order of event time: which times a micro-batch takes.

Owns the division of a version's event times into ranges, each begun where the last one ended. A row belongs to the one
range that has its time; one without a time to the first. Promise: no row of the snapshot is late for a watermark, which
never passes the times of the micro-batches before, whatever the statistics say. They only decide how much a range
holds: a file counts as if its rows lay evenly between its bounds. Each micro-batch that may have a row of it reads it.

Times are microseconds since the epoch, UTC.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.log.snapshot import Snapshot
from headwater.protocol.columns import quote
from headwater.pruning.bounds import resolve_column

#: By how many points a file is spread over its times. A range ends at one of them, so no file is read more often.
_POINTS = 16
#: Maxima of timestamps may be cut off to milliseconds.
_CUT_OFF = 1000


class Range(NamedTuple):
    """The times a micro-batch takes. ``end`` is the first time after it; None is after all."""

    end: int | None
    files: int
    size: int


class EventTimes:
    """Where the files of a version lie in event time.

    :param first: the earliest time of each file, and ``last`` the latest, as far as is known.
    :param sizes: the bytes of each file.
    """

    def __init__(self, first: np.ndarray, last: np.ndarray, sizes: np.ndarray) -> None:
        self._first, self._last, self._sizes = first, last, sizes
        # Divided before it is multiplied: the product of a long span would not fit.
        step = (last - first) // (2 * _POINTS)
        odd = np.arange(1, 2 * _POINTS, 2, dtype=np.int64)
        points = (first[:, None] + step[:, None] * odd[None, :]).ravel()
        order = np.argsort(points, kind="stable")
        self._points = points[order]
        self._bytes = np.cumsum(np.repeat(sizes, _POINTS)[order] / _POINTS)

    def take(self, start: int | None, files: int | None, size: int | None) -> Range:
        """The next range.

        :param start: where the last one ended; None for the first.
        :param files: about how many files' rows it may hold, and ``size`` bytes; None is without limit.
        """
        points = self._points
        begin = 0 if start is None else int(np.searchsorted(points, start, side="left"))
        count = len(points) - begin
        if files is not None:
            count = min(count, files * _POINTS)
        if size is not None:
            before = float(self._bytes[begin - 1]) if begin else 0.0
            most = int(np.searchsorted(self._bytes, before + size, side="right")) - begin
            count = min(count, max(most, _POINTS))
        after = begin + count
        end = int(points[after]) if after < len(points) else None
        lowest = int(points[begin]) if begin < len(points) else None
        if end is not None and lowest is not None and end <= lowest:
            # One time has more rows than fit: it is taken whole.
            after = int(np.searchsorted(points, lowest, side="right"))
            end = int(points[after]) if after < len(points) else None
        chosen = self._within(start, end)
        return Range(end, int(np.count_nonzero(chosen)), int(self._sizes[chosen].sum()))

    def from_on(self, start: int | None) -> np.ndarray:
        """The bytes of each file that may have a row from a time on."""
        sizes: np.ndarray = self._sizes[self._within(start, None)]
        return sizes

    def _within(self, start: int | None, end: int | None) -> np.ndarray:
        chosen = np.ones(len(self._sizes), bool)
        if start is not None:
            chosen &= self._last >= start
        if end is not None:
            chosen &= self._first < end
        return chosen


def event_times(snapshot: Snapshot, column: str, sizes: np.ndarray) -> EventTimes:
    """Where the files of a snapshot lie by a column, in the order of ``snapshot.files``.

    A file whose bounds are unknown may have all the times that others have.
    """
    found = resolve_column(snapshot, [column])
    if found is None:
        low = high = pa.nulls(len(sizes), pa.int64())
    elif found.is_partition:
        low = high = _micros(snapshot.partition_values(column))
    else:
        statistics = snapshot.statistics([found.physical_path])
        low, high = _micros(statistics["min.0"]), pc.add(_micros(statistics["max.0"]), _CUT_OFF)
    earliest, latest = pc.min(low).as_py() or 0, pc.max(high).as_py() or 0
    first = pc.fill_null(low, earliest).to_numpy()
    last = np.maximum(pc.fill_null(high, latest).to_numpy(), first)
    return EventTimes(first, last, sizes)


def _micros(values: pa.ChunkedArray) -> pa.ChunkedArray:
    zone = getattr(values.type, "tz", None)
    return values.cast(pa.timestamp("us", zone)).cast(pa.int64())


def condition(column: str, start: int | None, end: int | None) -> str | None:
    """The SQL condition of the rows of a range; None if it has all."""
    name = quote([column])
    if start is None and end is None:
        return None
    if start is None:
        return f"({name} IS NULL OR {name} < timestamp_micros({end}))"
    first = f"{name} >= timestamp_micros({start})"
    return first if end is None else f"({first} AND {name} < timestamp_micros({end}))"
