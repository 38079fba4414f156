"""How well a column's values are laid out over files: how many files a lookup of a value must read.

Owns the depth of a column, from per-file statistics alone. Follows the protocol's chapter "Per-file Statistics".
Promise: as bounds may be wider than the truth, a depth is what data skipping reaches, or a little more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.pruning.bounds import Bounds, BoundsReader, Files
from headwater.pruning.masks import MAYBE, inverse, settle
from headwater.pruning.predicates import Column


class Depth(NamedTuple):
    """How many files may hold a value of a column.

    :param average: over the distinct values that are a minimum or a maximum of a file; None if no file has bounds.
    :param maximum: at the value that most files may hold; None as above.
    :param without_bounds: files of which nothing is known, and which count at each value.
    """

    average: float | None
    maximum: int | None
    without_bounds: int


def depths(snapshot: Files, paths: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], Depth]:
    """The depth of columns by their logical paths; those without an order that statistics follow are left out."""
    reader = BoundsReader(snapshot, paths)
    found = {}
    for path in paths:
        bounds = reader.read(Column(path))
        if bounds is not None and bounds.low is not MAYBE:
            found[path] = _depth(bounds, snapshot.num_files)
    return found


class Overlap(NamedTuple):
    """How the ranges of a column's files lie over each other.

    :param depth: over all of them.
    :param positions: the files that have bounds, by their places in the snapshot.
    :param low: of each of them the minimum, and ``high`` the maximum.
    :param low_rank: of each the place of its minimum among the distinct values, from 0; ``high_rank``, the maximum's.
    :param open_files: for each distinct value in order, how many of the ranges hold it.
    """

    depth: Depth
    positions: np.ndarray
    low: pa.Array
    high: pa.Array
    low_rank: np.ndarray
    high_rank: np.ndarray
    open_files: np.ndarray


def overlap(snapshot: Files, path: tuple[str, ...]) -> Overlap | None:
    """The ranges of a column by its logical path; None for one without an order that statistics follow."""
    bounds = BoundsReader(snapshot, [path]).read(Column(path))
    return None if bounds is None or bounds.low is MAYBE else _overlap(bounds, snapshot.num_files)


def _depth(bounds: Bounds, num_files: int) -> Depth:
    return _overlap(bounds, num_files).depth


def _overlap(bounds: Bounds, num_files: int) -> Overlap:
    known = pc.and_(pc.is_valid(bounds.low), pc.is_valid(bounds.high))
    may_have_values = settle(inverse(bounds.all_null()), num_files)
    unknown = pc.sum(pc.and_(pc.invert(known), may_have_values)).as_py() or 0
    low, high = (_filtered(bound, known) for bound in (bounds.low, bounds.high))
    positions = np.flatnonzero(known.to_numpy(zero_copy_only=False))
    if not len(low):
        none = np.empty(0, np.int64)
        return Overlap(Depth(None, None, unknown), none, low, high, none, none, none)
    unsigned = pc.rank(pa.concat_arrays([low, high]), sort_keys="ascending", tiebreaker="dense").to_numpy()
    ranks = unsigned.astype(np.int64) - 1  # NumPy 1 does not count unsigned numbers
    first, last = ranks[: len(low)], ranks[len(low) :]
    # Of statistics that are wrong, the greatest value of all may be a minimum.
    begins, ends = (np.bincount(each, minlength=ranks.max() + 1) for each in (first, last))
    open_files = np.cumsum(begins)
    # A file whose range ends at a value still has it.
    open_files[1:] -= np.cumsum(ends)[:-1]
    depth = Depth(float(open_files.mean()) + unknown, int(open_files.max()) + unknown, unknown)
    return Overlap(depth, positions, low, high, first, last, open_files)


def _filtered(values: Any, known: Any) -> pa.Array:
    values = values.filter(known)
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
