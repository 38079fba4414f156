"""Rows that a compaction moves: their old and new positions, so that concurrent marks can follow them.

Owns the record of a compaction in its commit, and the two ways in which marks follow moved rows. A compaction that
loses to a statement that marked rows of its inputs marks them in its outputs; a statement that loses to a compaction
marks its rows where they are now. Neither runs its job again. Follows the protocol's chapters "Deletion Vectors" and
"Commit Provenance Information", which lets a ``commitInfo`` hold more than it names.

The record is small: the files themselves are the commit's ``add`` and ``remove`` actions, which it counts through in
their order. Promises: a copy holds the live rows of its inputs, one input after the other and each in the order of its
rows, or there is no record of it. A record that does not fit its commit is ignored, and
the conflict stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec
import numpy as np
from pyroaring import BitMap64

from headwater.basics import clock
from headwater.log.files import canonical_path
from headwater.protocol.actions import AddFile, DeletionVector, RemoveFile
from headwater.transaction.conflicts import WinningCommit
from headwater.transaction.row_level import Mark, Marks, ReadVector, WriteVectors, marked_file, same_vector

#: The record's name in ``commitInfo``.
FIELD = "headwaterMovedRows"


class _CopyRecord(msgspec.Struct, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """One copy: the number of its ``add`` and of its first ``remove`` action in the commit, the live rows of each of
    its inputs; by the input's number the descriptor of the deletion vector that the copy was made with, None for
    none, where the ``remove`` action has a newer one; and the numbers, rising, of the inputs without a ``remove``
    action, as an earlier commit removed them whole.
    """

    add: int
    first_remove: int
    rows: list[int]
    vectors: dict[str, dict[str, Any] | None] = {}
    taken: list[int] = []


@dataclass
class Copy:
    """Files that hold the live rows of others; one, unless it says otherwise, holds them one input after the other and
    each in the order of its rows.

    :param sources: the inputs, as they are removed.
    :param rows: how many rows of each there are.
    :param outputs: none where no row of the inputs is live. Rows are followed where there is one.
    :param in_order: False if the rows are in another order: then they are not followed.
    """

    sources: list[RemoveFile]
    rows: list[int]
    outputs: list[AddFile]
    in_order: bool = True
    #: The vectors that the sources had when they were copied.
    copied_with: list[DeletionVector | None] = field(init=False)
    #: Positions in the output that are deleted since.
    gone: BitMap64 = field(default_factory=BitMap64, init=False)
    #: The numbers of the sources that a winner has removed whole: there is nothing left to remove.
    taken: set[int] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self.copied_with = [source.deletion_vector for source in self.sources]

    @property
    def removes(self) -> list[RemoveFile]:
        """What the commit removes."""
        return [source for number, source in enumerate(self.sources) if number not in self.taken]

    @property
    def is_followed(self) -> bool:
        """Whether it is known where in the outputs a row of an input is."""
        return not self.outputs or self.in_order and len(self.outputs) == 1

    def deleted_by(self, number: int, before: RemoveFile, after: AddFile | None, read: ReadVector) -> BitMap64 | None:
        """The positions in the output of the rows of an input that a winner deleted; None if the winner did
        something else to it. The input then is as the winner left it.

        :param before: what the winner removed, and ``after`` what it added under the same path.
        """
        source, start = self.sources[number], _starts(self.rows)[number]
        if not same_vector(source, before):
            return None
        if after is None:
            if not before.data_change:  # a compaction has the rows elsewhere
                return None
            self.taken.add(number)
            return BitMap64(range(start, start + self.rows[number]))
        old = read(source.deletion_vector) if source.deletion_vector is not None else BitMap64()
        new = read(after.deletion_vector) if after.deletion_vector is not None else BitMap64()
        if not old <= new:
            return None
        self.sources[number] = replace(source, deletion_vector=after.deletion_vector)
        copied_with = self.copied_with[number]
        left_out = read(copied_with) if copied_with is not None else BitMap64()
        return _in_copy(new - left_out, left_out, start)


class Copies:
    """The copies of a transaction that compacts."""

    def __init__(self) -> None:
        self._copies: list[Copy] = []
        #: Outputs that were given up after all: files that no commit refers to.
        self.given_up: list[AddFile] = []

    def put(self, copies: Iterable[Copy]) -> None:
        """Take copies into the commit."""
        self._copies += copies

    def __bool__(self) -> bool:
        return bool(self._copies)

    @property
    def kept(self) -> Sequence[Copy]:
        """Those that were not given up."""
        return self._copies

    @property
    def sources(self) -> list[RemoveFile]:
        """All inputs, also those that are removed already."""
        return [source for copy in self._copies for source in copy.sources]

    @property
    def removes(self) -> list[RemoveFile]:
        return [source for copy in self._copies for source in copy.removes]

    @property
    def adds(self) -> list[AddFile]:
        return [output for copy in self._copies for output in copy.outputs]

    def record(self, removes: int, adds: int) -> dict[str, Any]:
        """What ``commitInfo`` says of the copies.

        :param removes: how many ``remove`` actions of the commit come before theirs; and the same of ``adds``.
        """
        records = []
        for copy in self._copies:
            if copy.outputs and copy.is_followed:
                newer = {
                    str(number): None if copied is None else copied.to_json()
                    for number, (source, copied) in enumerate(zip(copy.sources, copy.copied_with, strict=True))
                    if source.deletion_vector != copied and number not in copy.taken
                }
                records.append(_CopyRecord(adds, removes, copy.rows, newer, sorted(copy.taken)))
            adds += len(copy.outputs)
            removes += len(copy.removes)
        return {FIELD: msgspec.to_builtins(records)} if records else {}

    def after(self, winner: WinningCommit, read: ReadVector, write: WriteVectors, *, may_mark: bool) -> WinningCommit:
        """Follow a winner that deleted rows of inputs: mark them in the outputs. A copy is given up where that cannot
        be, as another compaction took one of its inputs.

        :param may_mark: whether the table may have deletion vectors.
        :returns: what of the winner is still to be checked: without what it did to inputs.
        """
        where = {canonical_path(s.path): (c, i) for c in self._copies for i, s in enumerate(c.sources)}
        before = {canonical_path(file.path): file for file in winner.removes if canonical_path(file.path) in where}
        after = {canonical_path(file.path): file for file in winner.adds if canonical_path(file.path) in where}
        if not before and not after:
            return winner
        changed: dict[int, Copy] = {}
        lost: dict[int, Copy] = {}
        for path in before.keys() | after.keys():
            copy, number = where[path]
            deleted = None
            if path in before and copy.is_followed:
                deleted = copy.deleted_by(number, before[path], after.get(path), read)
            if deleted is None:
                lost[id(copy)] = copy
            else:
                copy.gone |= deleted
                changed[id(copy)] = copy
        partial = [copy for copy in changed.values() if len(copy.gone) < sum(copy.rows)]
        if not may_mark:
            lost |= {id(copy): copy for copy in partial if copy.gone}
        for copy in lost.values():
            self._copies.remove(copy)
            self.given_up += copy.outputs
        self._mark([copy for key, copy in changed.items() if key not in lost], write)
        return replace(
            winner,
            adds=[file for file in winner.adds if canonical_path(file.path) not in after],
            removes=[file for file in winner.removes if canonical_path(file.path) not in before],
        )

    def _mark(self, copies: Sequence[Copy], write: WriteVectors) -> None:
        partly = []
        for copy in copies:
            if len(copy.gone) == sum(copy.rows):
                self.given_up += copy.outputs
                copy.outputs = []
            elif copy.gone:
                partly.append(copy)
        vectors = write([copy.gone for copy in partly]) if partly else []
        for copy, vector in zip(partly, vectors, strict=True):
            copy.outputs = [marked_file(copy.outputs[0], vector, sum(copy.rows))]


class _Place(NamedTuple):
    """Where a compaction put the rows of a file: in ``output`` from the position ``start`` on.

    :param source: the file as the compaction removed it; ``copied_with`` the vector that the copy was made with.
    """

    source: RemoveFile
    output: AddFile
    start: int
    rows: int
    copied_with: DeletionVector | None


def places(winner: WinningCommit) -> dict[str, _Place]:
    """Where a winner put the rows of files, by their canonical paths; empty unless it is a compaction that says so."""
    given = winner.commit_info.get(FIELD)
    if given is None:
        return {}
    found: dict[str, _Place] = {}
    try:
        for record in msgspec.convert(given, list[_CopyRecord]):
            output = winner.adds[record.add]
            starts, taken = _starts(record.rows), set(record.taken)
            numbers = [number for number in range(len(record.rows)) if number not in taken]
            sources = winner.removes[record.first_remove : record.first_remove + len(numbers)]
            if len(sources) != len(numbers) or len(numbers) + len(record.taken) != len(record.rows):
                return {}
            if output.num_records != sum(record.rows) or min(record.rows) < 0:
                return {}
            for number, source in zip(numbers, sources, strict=True):
                copied_with = source.deletion_vector
                if str(number) in record.vectors:
                    copied_with = DeletionVector.from_json(record.vectors[str(number)])
                place = _Place(source, output, starts[number], record.rows[number], copied_with)
                found[canonical_path(source.path)] = place
    except (ValueError, TypeError, KeyError, IndexError):
        return {}
    return found


def _deleted(
    moved: Mapping[str, _Place], marks: Marks, removes: Sequence[RemoveFile], read: ReadVector
) -> Iterator[tuple[str, _Place, BitMap64]]:
    """The moved rows that a transaction deletes: the file that they were in, and their place and positions now."""
    for path in moved.keys() & marks.paths:
        mark, place = marks.of(path), moved[path]
        if same_vector(mark.remove, place.source):
            yield path, place, _moved(mark.positions, place, read)
    for removed in removes:
        path = canonical_path(removed.path)
        # A removal that changes no data is that of a file whose rows this transaction also has in another.
        if path in moved and removed.data_change and same_vector(removed, moved[path].source):
            place = moved[path]
            yield path, place, BitMap64(range(place.start, place.start + place.rows))


def follow(
    winner: WinningCommit,
    marks: Marks,
    removes: Sequence[RemoveFile],
    read: ReadVector,
    write: WriteVectors,
    *,
    may_mark: bool,
) -> tuple[WinningCommit, list[RemoveFile]]:
    """Follow a winner that moved rows which this transaction deletes: mark them where they are now.

    :param marks: changed in place.
    :param removes: the files that the transaction removes whole.
    :param may_mark: whether the table may have deletion vectors.
    :returns: what of the winner is still to be checked, and the removals that are left.
    """
    moved = places(winner)
    if not moved:
        return winner, list(removes)
    gone: dict[str, BitMap64] = {}
    done: set[str] = set()
    outputs: dict[str, AddFile] = {}
    for path, place, positions in _deleted(moved, marks, removes, read):
        output = canonical_path(place.output.path)
        outputs[output] = place.output
        gone[output] = gone.get(output, BitMap64()) | positions
        done.add(path)
    carried = {}
    for output, positions in gone.items():
        vector = outputs[output].deletion_vector
        carried[output] = positions if vector is None else positions | read(vector)
    rows = {output: outputs[output].num_records or 0 for output in gone}
    partly = [output for output in gone if len(carried[output]) < rows[output]]
    if not done or partly and not may_mark:
        return winner, list(removes)
    for path in done.intersection(marks.paths):
        marks.drop(path)
    vectors = dict(zip(partly, write([carried[output] for output in partly]), strict=True)) if partly else {}
    now = clock.milliseconds()
    for output, file in outputs.items():
        add = None
        if output in vectors:
            add = replace(marked_file(file, vectors[output], rows[output]), data_change=True)
        marks.put(Mark(file.removal(now), add, gone[output], rows[output]))
    rest = replace(
        winner,
        adds=[file for file in winner.adds if canonical_path(file.path) not in outputs],
        removes=[file for file in winner.removes if canonical_path(file.path) not in done],
    )
    return rest, [file for file in removes if canonical_path(file.path) not in done]


def _moved(positions: BitMap64, place: _Place, read: ReadVector) -> BitMap64:
    """Positions of a file as positions in the copy."""
    copied_with = read(place.copied_with) if place.copied_with is not None else BitMap64()
    return _in_copy(positions - copied_with, copied_with, place.start)


def _in_copy(positions: BitMap64, left_out: BitMap64, start: int) -> BitMap64:
    """The positions that rows have in a copy without some rows: each is lower by the number of those before it."""
    rows = _numbers(positions)
    return BitMap64((rows - np.searchsorted(_numbers(left_out), rows).astype(np.uint64) + np.uint64(start)).tolist())


def _numbers(positions: BitMap64) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.fromiter(positions, np.uint64, len(positions))


def _starts(rows: Sequence[int]) -> list[int]:
    return [0, *accumulate(rows)][:-1]
