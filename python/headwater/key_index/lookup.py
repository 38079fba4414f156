"""Which rows of a version may have some keys.

Owns the reading of entries. Promise: for each file that an answer says is covered, the answer has every row with one of
the keys, and perhaps others. What cannot be read is not covered.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from pyroaring import BitMap64

from headwater.basics.errors import HeadwaterError
from headwater.key_index.definition import KeyIndex
from headwater.key_index.hashing import SHIFT
from headwater.key_index.segments import (
    PART_SCHEMA,
    Part,
    Segment,
    entries_of,
    folder_of,
    footer_of,
    note_damage,
    open_part,
    segments,
)
from headwater.log import deletion_vectors
from headwater.log.files import vector_of
from headwater.log.snapshot import Snapshot
from headwater.protocol.partition_values import texts_of
from headwater.stores import Store
from headwater.stores.interface import in_parallel

_Longs = np.ndarray[Any, np.dtype[np.int64]]
#: More entries than this are not compared: they are sorted in memory, 24 bytes each.
_MOST_COUNTED = 20_000_000
#: Parts that are read at once: each has a row group in memory, of some 12 MB.
_AT_ONCE = 8
_NO_LONGS = np.empty(0, np.int64)


class Place(NamedTuple):
    """A row: the file's row in ``snapshot.files``, and the position in it."""

    file: int
    position: int


class Found(NamedTuple):
    """An answer.

    :param covered: for each file of the version, whether the index knows all its keys.
    :param rows: the positions of rows that may have one of the keys, by the file's row in ``snapshot.files``; files
        that are covered and not in here have none.
    """

    covered: np.ndarray[Any, np.dtype[np.bool_]]
    rows: dict[int, BitMap64]

    @property
    def may_match(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """For each file of the version, whether a row of it may have one of the keys."""
        mask = ~self.covered
        mask[list(self.rows)] = True
        return mask


def look_up(
    snapshot: Snapshot, index: KeyIndex, hashes: Iterable[int], wanted: Any = None, most_bytes: int | None = None
) -> Found | None:
    """The rows that may have one of some keys.

    :param hashes: those of the keys.
    :param wanted: a boolean for each file of the version, whether the answer is of interest; None for all.
    :param most_bytes: how many bytes of entries may be read.
    :returns: None if nothing is covered, or if more would be read.
    """
    keys = np.unique(np.fromiter(hashes, np.int64))
    interesting = np.ones(snapshot.num_files, bool) if wanted is None else np.asarray(wanted)
    store, folder = snapshot.store, folder_of(snapshot.table_path, index.name)
    answer = Found(np.zeros(snapshot.num_files, bool), {})
    chosen = list[tuple[Segment, _Longs, list[tuple[Part, list[int]]]]]()
    cost = 0
    for segment in sorted(segments(snapshot, index), key=lambda each: -each.manifest.rows):
        # What another segment answers is not asked again.
        rows = np.where(segment.files >= 0, segment.files, 0)
        use = (segment.files >= 0) & interesting[rows] & ~answer.covered[rows]
        if not use.any():
            continue
        try:
            groups = [(part, _groups(footer_of(store, folder, part), keys)) for part in segment.manifest.parts]
            cost += sum(_bytes(footer_of(store, folder, part), some) for part, some in groups)
        except (OSError, ValueError, HeadwaterError) as error:
            note_damage(segment, error)
            continue
        chosen.append((segment, np.where(use, segment.files, -1), groups))
        answer.covered[segment.files[use]] = True
    if not chosen or (most_bytes is not None and cost > most_bytes):
        return None
    for segment, files, groups in chosen:
        try:
            asked = [(part, some) for part, some in groups if some]
            hits = list[tuple[_Longs, _Longs]]()
            for start in range(0, len(asked), _AT_ONCE):
                some = asked[start : start + _AT_ONCE]
                hits += in_parallel(lambda each: _hits(store, folder, *each, keys), some)
            if any(len(f) and not 0 <= f.min() <= f.max() < len(files) for f, _ in hits):
                raise ValueError("it has entries of files that its manifest does not name")
            if any(len(r) and r.min() < 0 for _, r in hits):
                raise ValueError("it has entries of rows that no file can have")
        except (OSError, ValueError, HeadwaterError) as error:
            note_damage(segment, error)
            answer.covered[files[files >= 0]] = False
            continue
        for f, r in hits:
            _add(answer.rows, files[f], r)
    return answer if answer.covered.any() else None


def repeated(snapshot: Snapshot, index: KeyIndex, beside: Sequence[str] = ()) -> list[list[Place]] | None:
    """The rows of the files that an index covers whose hash others have as well, by their hash: a list for each. A few
    of 20 million different keys have the same one. None if there are too many entries, or if they cannot be read.

    :param beside: partition columns that are part of the key, by logical name.
    """
    store, folder = snapshot.store, folder_of(snapshot.table_path, index.name)
    found = segments(snapshot, index)
    if sum(segment.manifest.rows for segment in found) > _MOST_COUNTED:
        return None
    groups, counted = _groups_of_files(snapshot, beside), np.zeros(snapshot.num_files, bool)
    columns: list[list[_Longs]] = [[_NO_LONGS], [_NO_LONGS], [_NO_LONGS]]
    for segment in found:
        files = np.where(segment.files >= 0, segment.files, 0)
        use = (segment.files >= 0) & ~counted[files]
        counted[files[use]] = True
        try:
            tables = [entries_of(store, folder, part, len(files)) for part in segment.manifest.parts]
        except (OSError, ValueError, HeadwaterError) as error:
            note_damage(segment, error)
            return None
        for table in tables:
            h, f, r = (table[name].to_numpy() for name in PART_SCHEMA.names)
            kept = use[f]
            parts = (h[kept] << SHIFT) | groups[files[f[kept]]], files[f[kept]], r[kept]
            for column, values in zip(columns, parts, strict=True):
                column.append(values)
    h, f, r = (np.concatenate(column) for column in columns)
    order = np.argsort(h, kind="stable")
    h = h[order]
    same = np.flatnonzero(h[1:] == h[:-1])
    of_hash = defaultdict[int, list[Place]](list)
    gone = dict[int, BitMap64]()
    for at in sorted({*same.tolist(), *(same + 1).tolist()}):
        file, row = int(f[order[at]]), int(r[order[at]])
        if file not in gone:
            vector = vector_of(snapshot.files["deletion_vector"][file].as_py())
            gone[file] = deletion_vectors.read(vector, snapshot.table_path, store) if vector else BitMap64()
        if row not in gone[file]:
            of_hash[int(h[at])].append(Place(file, row))
    return [places for places in of_hash.values() if len(places) > 1]


def _groups_of_files(snapshot: Snapshot, columns: Sequence[str]) -> _Longs:
    """A number for each file of a version, the same for those with the same values of partition columns. There are so
    few that a collision of two groups' numbers only counts a key too many.
    """
    names = [snapshot.partition_field(column).physical_name for column in columns]
    if not names:
        return np.zeros(snapshot.num_files, np.int64)
    texts = zip(*(texts_of(snapshot.files["partition_values"], name).to_pylist() for name in names), strict=True)
    numbers: dict[tuple[str | None, ...], int] = {}
    return np.array([numbers.setdefault(text, len(numbers)) for text in texts], np.int64) % (1 << SHIFT)


def _groups(footer: pq.FileMetaData, keys: _Longs) -> list[int]:
    """The row groups of a part that may have some of the hashes."""
    found = []
    for number in range(footer.num_row_groups):
        known = footer.row_group(number).column(0).statistics
        if known is None or not known.has_min_max:
            found.append(number)
            continue
        at = int(np.searchsorted(keys, known.min))
        if at < len(keys) and keys[at] <= known.max:
            found.append(number)
    return found


def _bytes(footer: pq.FileMetaData, groups: Iterable[int]) -> int:
    return sum(footer.row_group(number).total_byte_size for number in groups)


def _hits(store: Store, folder: str, part: Part, groups: list[int], keys: _Longs) -> tuple[_Longs, _Longs]:
    """File and position of the entries with one of the hashes.

    :raises OSError: the part cannot be read.
    :raises ValueError: it is damaged.
    """
    files, positions = [np.empty(0, np.int32)], [np.empty(0, np.int64)]
    with open_part(store, folder, part) as opened:
        for group in groups:
            h = opened.read_row_group(group, columns=["h"], use_threads=False)["h"].to_numpy()
            found = keys[(keys >= h[0]) & (keys <= h[-1])] if len(h) else keys[:0]
            first = np.searchsorted(h, found)
            hit = h[first] == found
            if not hit.any():
                continue
            first, last = first[hit], np.searchsorted(h, found[hit], "right")
            rest = opened.read_row_group(group, columns=["f", "r"], use_threads=False)
            at = np.concatenate([np.arange(a, b) for a, b in zip(first, last, strict=True)])
            files.append(rest["f"].to_numpy()[at])
            positions.append(rest["r"].to_numpy()[at])
    return np.concatenate(files), np.concatenate(positions)


def _add(rows: dict[int, BitMap64], files: _Longs, positions: _Longs) -> None:
    if not len(files):
        return
    order = np.argsort(files, kind="stable")
    files, positions = files[order], positions[order]
    starts = np.flatnonzero(np.diff(files, prepend=-2))
    for start, end in zip(starts, [*starts[1:], len(files)], strict=True):
        if files[start] >= 0:
            found = BitMap64(positions[start:end].tolist())
            number = int(files[start])
            rows[number] = rows[number] | found if number in rows else found
