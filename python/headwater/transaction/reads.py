"""The files that a transaction's reads concern.

Owns the answers that :class:`~headwater.transaction.conflicts.Reads` asks for, given by the one pruning engine. Of
winners' files only their own actions are looked at, so that an answer costs what a winner wrote and not what the
table holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from headwater.log.files import FileBlock, FileKey, canonical_path
from headwater.log.replay import LiveBlock
from headwater.log.snapshot import Snapshot
from headwater.protocol.actions import AddFile, RemoveFile
from headwater.transaction.conflicts import WinningCommit, file_key

if TYPE_CHECKING:
    from headwater.pruning.predicates import Predicate

#: Which files of a snapshot may hold a row that all predicates are true for: (snapshot, predicates) to a boolean a
#: file, in the order of the snapshot's ``files``.
FileMatcher = Callable[[Snapshot, Sequence["Predicate"]], Any]


def match_by_pruning(snapshot: Snapshot, predicates: Sequence[Predicate]) -> Any:
    """What data skipping cannot exclude: the :data:`FileMatcher` of every real transaction."""
    from headwater.pruning import prune_all  # imported where used: plain appends never load it

    return prune_all(snapshot, predicates)


def alone(snapshot: Snapshot, files: Sequence[AddFile]) -> Snapshot:
    """The snapshot with these files and no others."""
    block = FileBlock.of_actions([file.to_json()["add"] for file in files])
    return replace(snapshot, state=replace(snapshot.state, blocks=(LiveBlock(block),)))


class PredicateReads:
    """Reads by predicates over one snapshot; each read is some predicates, all true for a row that is read."""

    def __init__(
        self, snapshot: Snapshot, reads: Sequence[Sequence[Predicate]], matcher: FileMatcher = match_by_pruning
    ) -> None:
        self._snapshot = snapshot
        self._reads = reads
        self._matcher = matcher
        self._read: np.ndarray | None = None
        #: Files of winners that hold rows of files that were read.
        self._moved: set[FileKey] = set()

    def follow(self, winner: WinningCommit) -> None:
        """Note where a winner that only moved rows, such as a compaction, has put those that were read."""
        added = [file for file in winner.adds if not file.data_change]
        if added and self.were_read([file for file in winner.removes if not file.data_change]):
            self._moved |= {file_key(file.path, file.deletion_vector) for file in self.may_match(added)}

    def may_match(self, files: Sequence[AddFile]) -> list[AddFile]:
        """Those of files added by another that one of the reads would have found."""
        matched = self._matched(alone(self._snapshot, files)).tolist()
        return [file for file, matches in zip(files, matched, strict=True) if matches]

    def all_rows_match(self, files: Sequence[AddFile], predicate: Predicate) -> bool:
        """Whether the actions of files show that the predicate is true for each of their rows."""
        from headwater.pruning import leaves_rows  # imported where used: plain appends never load it

        return not any(leaves_rows(alone(self._snapshot, files), [predicate]).to_pylist())

    def excluded(self, added: Sequence[AddFile], removed: Sequence[RemoveFile]) -> frozenset[str]:
        """Canonical paths of files of another that none of the reads would have found, as their actions alone show."""
        described = [file for file in removed if file.partition_values is not None]
        gone = [AddFile(file.path, file.partition_values or {}, 0, 0, True, file.stats) for file in described]
        files = [*added, *gone]
        if not files:
            return frozenset()
        matching = {canonical_path(file.path) for file in self.may_match(files)}
        unknown = {canonical_path(file.path) for file in removed if file.partition_values is None}
        return frozenset({canonical_path(file.path) for file in files} - matching - unknown)

    def were_read(self, files: Sequence[RemoveFile]) -> list[RemoveFile]:
        """Those of files removed by another that one of the reads had found."""
        if self._read is None:
            self._read = self._matched(self._snapshot)
        keys = {file_key(file.path, file.deletion_vector): file for file in files}
        found = [file for key, file in keys.items() if key in self._moved]
        first = 0
        for live in self._snapshot.state.blocks:
            mask = self._read[first : first + live.num_files]
            first += live.num_files
            if len(live.block.positions_of(set(keys))) == 0:
                continue
            for key, file in keys.items():
                # A position among live files is the position in the block less the dead ones before it.
                positions = np.setdiff1d(live.block.positions_of({key}), live.dead)
                if mask[positions - np.searchsorted(live.dead, positions)].any():
                    found.append(file)
        return found

    def _matched(self, snapshot: Snapshot) -> np.ndarray:
        matched = np.zeros(snapshot.num_files, np.bool_)
        for predicates in self._reads:
            matched |= np.asarray(self._matcher(snapshot, predicates), np.bool_)
        return matched
