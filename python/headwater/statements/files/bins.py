"""Bins: which files are written together into one, and which bins are committed together.

Owns the packing, from paths, sizes and times alone. Promises: the files of a bin lie in one partition, and their rows
stay in the order in which they were written; packing the same files again gives the same bins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc


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
    batch: list[Bin] = []
    size = 0
    for each in bins:
        if batch and size + each.size > capacity:
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += each.size
    if batch:
        yield batch


def by_partition(files: pa.Table, order: Sequence[int]) -> list[list[int]]:
    """Positions of files by their partition; partitions in the order of their first files."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    partitions = files["partition_values"].to_pylist()
    for position in order:
        groups.setdefault(tuple(sorted(partitions[position] or ())), []).append(position)
    return list(groups.values())


def next_fit(positions: Sequence[int], sizes: Sequence[int], capacity: int) -> Iterator[Bin]:
    """Bins of files in an order, each as full as can be."""
    taken: list[int] = []
    size = 0
    for position in positions:
        if taken and size + sizes[position] > capacity:
            yield Bin(taken, size)
            taken, size = [], 0
        taken.append(position)
        size += sizes[position]
    if taken:
        yield Bin(taken, size)
