"""The initial snapshot of a stream: all files of a version, in an order that never changes.

Owns that order, by modification time and path, and the pages of it that micro-batches take. Promise: the order is a
function of the version alone, so that an offset into it means the same files after any restart.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from functools import cached_property
from threading import Lock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.log.snapshot import Snapshot
from headwater.streams.event_time import EventTimes, event_times

#: What a scan needs of a file; its statistics' text, the bulk of a snapshot, is not among it.
LISTED = (
    "path",
    "size",
    "modification_time",
    "deletion_vector",
    "partition_values",
    "base_row_id",
    "default_row_commit_version",
)
#: What orders the files.
_ORDER = ("modification_time", "path")
#: How many initial snapshots of this process's streams are kept in order.
_MOST_KEPT = 32
#: How many files these have in all; the one used last is always kept.
_MOST_FILES = 4_000_000
#: Of how many files the rows are counted: their statistics may have to be parsed, a microsecond each.
_MOST_COUNTED = 100_000
_IDLE_SECONDS = 300.0


class InitialFiles:
    """The files of a version in the order of a stream."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._event_times: dict[str, EventTimes] = {}

    def __len__(self) -> int:
        return self.snapshot.num_files

    @cached_property
    def _positions(self) -> np.ndarray:
        """Where each file is in ``snapshot.files``, in the stream's order."""
        keys = self.snapshot.select(_ORDER)
        times = keys["modification_time"].to_numpy()
        order = np.argsort(times, kind="stable")
        ordered = times[order]
        edges = np.flatnonzero(np.diff(ordered)) + 1
        starts, ends = np.concatenate(([0], edges)), np.concatenate((edges, [len(ordered)]))
        repeated = np.flatnonzero(ends - starts > 1)
        if len(repeated):
            _order_by_path(order, keys["path"], starts[repeated], ends[repeated])
        return order.astype(np.uint32)

    @cached_property
    def sizes(self) -> np.ndarray:
        """The bytes of each file, in order."""
        sizes: np.ndarray = self.snapshot.select(["size"])["size"].to_numpy()[self._positions]
        return sizes

    @cached_property
    def rows(self) -> np.ndarray | None:
        """The live rows of each file, in order, -1 where it does not say; None if it takes long to find them out."""
        if len(self) > _MOST_COUNTED:
            return None
        counts = pc.fill_null(self.snapshot.statistics(())["num_records"], -1).to_numpy()
        vectors = self.snapshot.select(["deletion_vector"])["deletion_vector"]
        deleted = pc.fill_null(pc.struct_field(vectors, "cardinality"), 0).to_numpy()
        rows: np.ndarray = np.where(counts < 0, -1, counts - deleted)[self._positions]
        return rows

    @cached_property
    def listed(self) -> pa.Table:
        """What a scan needs of each file, in the order of ``snapshot.files``."""
        return self.snapshot.select(LISTED)

    def event_times(self, column: str) -> EventTimes:
        """Where the files lie by a column of the stream's event time, in the order of ``snapshot.files``."""
        if column not in self._event_times:
            sizes = self.snapshot.select(["size"])["size"].to_numpy()
            self._event_times[column] = event_times(self.snapshot, column, sizes)
        return self._event_times[column]

    def places(self, first: int, end: int) -> pa.Array:
        """Where the files from the ``first`` to before the ``end`` are in ``snapshot.files``."""
        return pa.array(self._positions[first:end])


def _order_by_path(order: np.ndarray, paths: pa.ChunkedArray, starts: np.ndarray, ends: np.ndarray) -> None:
    """Order the files of each run of one modification time by path, in place."""
    runs = np.zeros(len(order), np.int64)
    runs[starts] = 1
    inside = np.zeros(len(order) + 1, np.int64)
    inside[starts] += 1
    inside[ends] -= 1
    chosen = np.flatnonzero(np.cumsum(inside[:-1]))
    table = pa.table({"run": np.cumsum(runs)[chosen], "path": paths.take(pa.array(order[chosen]))})
    keys = [("path", "ascending")] if len(starts) == 1 else [("run", "ascending"), ("path", "ascending")]
    order[chosen] = order[chosen][pc.sort_indices(table, sort_keys=keys).to_numpy()]


class InitialSnapshots:
    """The initial snapshots that this process's streams read, kept in order between micro-batches. Safe for threads.

    One that no stream has read from for a while is let go; a stream that comes back to it orders it again.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: OrderedDict[tuple[str, str, int], tuple[InitialFiles, float]] = OrderedDict()

    def of(self, snapshot: Snapshot) -> InitialFiles:
        """A snapshot's files in order."""
        key = (snapshot.table_path, snapshot.metadata.id, snapshot.version)
        with self._lock:
            found = self._kept[key][0] if key in self._kept else InitialFiles(snapshot)
            return self._used(key, found)

    def known(self, table_path: str, table_id: str, version: int) -> InitialFiles | None:
        """The files of a version that a stream has read from before; None if this process has not seen it."""
        key = (table_path, table_id, version)
        with self._lock:
            return self._used(key, self._kept[key][0]) if key in self._kept else None

    def release_idle(self) -> None:
        """Let go of what no stream has read from for a while."""
        with self._lock:
            oldest = time.monotonic() - _IDLE_SECONDS
            for key in [key for key, (_, used) in self._kept.items() if used < oldest]:
                del self._kept[key]

    def _used(self, key: tuple[str, str, int], files: InitialFiles) -> InitialFiles:
        self._kept[key] = (files, time.monotonic())
        self._kept.move_to_end(key)
        while len(self._kept) > 1 and (
            len(self._kept) > _MOST_KEPT or sum(len(kept) for kept, _ in self._kept.values()) > _MOST_FILES
        ):
            self._kept.popitem(last=False)
        return files
