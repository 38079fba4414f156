"""Bins: which files are compacted into one, and which bins are committed together.

Owns the packing, from paths, sizes and times alone. Promises: the files of a bin lie in one partition, and their rows
stay in the order in which they were written; packing the same files again gives the same bins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from headwater.basics import grouping


class Bin(NamedTuple):
    """Files of one partition: their positions in the table that was packed, in order, and their size in bytes."""

    positions: list[int]
    size: int


def pack(files: pa.Table, capacity: int) -> list[Bin]:
    """Pack files into bins of at most so many bytes; a larger file is a bin of its own.

    :param files: rows with ``path``, ``size``, ``modification_time`` and ``partition_values`` of ``snapshot.files``.
    """
    bins: list[Bin] = []
    order = pc.sort_indices(files, [("modification_time", "ascending"), ("path", "ascending")]).to_pylist()
    sizes = files["size"].to_pylist()
    for positions in by_partition(files, order):
        bins += next_fit(positions, sizes, capacity)
    return bins


def batches(bins: Iterable[Bin], capacity: int) -> Iterator[list[Bin]]:
    """Bins in their order, as many in a batch as hold so many bytes, and at least one."""
    return grouping.next_fit(bins, lambda each: each.size, capacity)


def pack_where_they_lie(files: pa.Table, capacity: int, *, is_clustered: bool) -> list[Bin]:
    """Bins of files that are written again: as :func:`pack`, but each file of a clustered table by itself, so that it
    stays in its cube.
    """
    if is_clustered:
        return [Bin([position], size) for position, size in enumerate(files["size"].to_pylist())]
    return pack(files, capacity)


def by_partition(files: pa.Table, order: Sequence[int]) -> list[list[int]]:
    """Positions of files by their partition; partitions in the order of their first files."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    partitions = files["partition_values"].to_pylist()
    for position in order:
        groups.setdefault(tuple(sorted(partitions[position] or ())), []).append(position)
    return list(groups.values())


def next_fit(positions: Sequence[int], sizes: Sequence[int], capacity: int) -> Iterator[Bin]:
    """Bins of files in an order, each as full as can be."""
    for taken in grouping.next_fit(positions, sizes.__getitem__, capacity):
        yield Bin(taken, sum(sizes[position] for position in taken))
