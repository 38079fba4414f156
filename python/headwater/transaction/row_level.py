"""Row-level concurrency in one file: two writers mark different rows deleted, and both commit.

Owns what a transaction knows of the rows that it marks deleted, and how the marks are carried over to a file that
another writer has marked meanwhile. Follows the protocol's chapter "Deletion Vectors": a file with another vector is
another logical file, removed and added again. Promise: marks are only carried to a vector that holds none of them. If
two writers mark the same row, one of them gets a conflict.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from pyroaring import BitMap64

from headwater.log import deletion_vectors
from headwater.log.files import canonical_path
from headwater.protocol.actions import AddFile, DeletionVector, RemoveFile
from headwater.stores import Store
from headwater.transaction.conflicts import WinningCommit

#: Reads the positions a vector holds, and writes new vectors.
ReadVector = Callable[[DeletionVector], BitMap64]
WriteVectors = Callable[[Sequence[BitMap64]], Sequence[DeletionVector]]


class VectorFiles:
    """The deletion vectors of a table."""

    def __init__(self, table_path: str, store: Store) -> None:
        self._table_path, self._store = table_path, store

    def read(self, vector: DeletionVector) -> BitMap64:
        """The positions that a vector holds."""
        return deletion_vectors.read(vector, self._table_path, self._store)

    def write(self, vectors: Sequence[BitMap64]) -> Sequence[DeletionVector]:
        """New vectors, in one file."""
        return deletion_vectors.write_file(vectors, self._table_path, self._store)


@dataclass(frozen=True)
class Mark:
    """Rows marked deleted in one file: the file as it was, as it will be, the positions that are new, all its rows."""

    remove: RemoveFile
    add: AddFile | None
    positions: BitMap64
    rows: int


class Marks:
    """A transaction's marks, by file."""

    def __init__(self) -> None:
        self._by_path: dict[str, Mark] = {}

    def put(self, mark: Mark) -> None:
        """Note the marks of a file; the last call counts."""
        self._by_path[canonical_path(mark.remove.path)] = mark

    @property
    def all(self) -> Collection[Mark]:
        """The marks, one for each file."""
        return self._by_path.values()

    @property
    def removes(self) -> list[RemoveFile]:
        return [mark.remove for mark in self._by_path.values()]

    @property
    def adds(self) -> list[AddFile]:
        return [mark.add for mark in self._by_path.values() if mark.add is not None]

    @property
    def paths(self) -> Collection[str]:
        """The canonical paths of the files."""
        return self._by_path.keys()

    def of(self, path: str) -> Mark:
        """The marks of a file, by its canonical path."""
        return self._by_path[path]

    def drop(self, path: str) -> None:
        """Forget the marks of a file."""
        del self._by_path[path]

    def after(
        self,
        winner: WinningCommit,
        read: ReadVector,
        write: WriteVectors,
        disputed: Collection[str] = frozenset(),
    ) -> WinningCommit:
        """Carry the marks over to the files as a winner left them, where it marked other rows of them.

        :param disputed: canonical paths of files in which that is a conflict nevertheless.
        :returns: what of the winner is still to be checked: without what it did to these files.
        """
        added = {canonical_path(file.path): file for file in winner.adds if file.deletion_vector is not None}
        carried: dict[str, tuple[AddFile, BitMap64]] = {}
        for removed in winner.removes:
            path = canonical_path(removed.path)
            mine, theirs = self._by_path.get(path), added.get(path)
            if mine is None or theirs is None or path in disputed or not same_vector(mine.remove, removed):
                continue
            assert theirs.deletion_vector is not None
            gone = read(theirs.deletion_vector)
            before = read(removed.deletion_vector) if removed.deletion_vector is not None else BitMap64()
            # Rows that the winner brought back are rows this transaction has not read.
            if not gone & mine.positions and before <= gone:
                carried[path] = (theirs, gone | mine.positions)
        if not carried:
            return winner
        self._carry(carried, write)
        return replace(
            winner,
            adds=[file for file in winner.adds if canonical_path(file.path) not in carried],
            removes=[file for file in winner.removes if canonical_path(file.path) not in carried],
        )

    def _carry(self, carried: dict[str, tuple[AddFile, BitMap64]], write: WriteVectors) -> None:
        staying = {path: gone for path, (_, gone) in carried.items() if len(gone) < self._by_path[path].rows}
        vectors = dict(zip(staying, write(list(staying.values())), strict=True)) if staying else {}
        for path, (theirs, _) in carried.items():
            mine = self._by_path[path]
            add = replace(mine.add or theirs, deletion_vector=vectors[path]) if path in vectors else None
            remove = replace(mine.remove, deletion_vector=theirs.deletion_vector)
            self._by_path[path] = replace(mine, remove=remove, add=add)


def marked_file(file: AddFile, vector: DeletionVector, rows: int) -> AddFile:
    """A file with a deletion vector. Its bounds are those of all its rows, deleted ones included.

    :param rows: how many rows it holds, which the protocol wants beside a vector.
    """
    stats = {"numRecords": rows, **(json.loads(file.stats) if file.stats else {}), "tightBounds": False}
    text = json.dumps(stats, separators=(",", ":"), ensure_ascii=False)
    return replace(file, stats=text, deletion_vector=vector)


def same_vector(mine: RemoveFile, theirs: RemoveFile) -> bool:
    """Whether both started from the same state of the file."""
    ids = [file.deletion_vector.unique_id if file.deletion_vector else None for file in (mine, theirs)]
    return ids[0] == ids[1]
