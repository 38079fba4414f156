"""Replay: from commits to the state of a table.

Owns action reconciliation, the protocol's chapter "Action Reconciliation": for every logical file, named by its path
and the unique id of its deletion vector, the newest reference wins; so do the newest protocol, metadata, transaction
of an application and configuration of a domain. A state is never changed: applying commits gives a new one that
shares all file blocks with the old.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.log.checkpoint_reading import CheckpointState, TombstoneSource
from headwater.log.commits import ParsedActions
from headwater.log.files import FILE_SCHEMA, NO_FILES, NO_TOMBSTONES, FileBlock, FileKey, keep, row_key
from headwater.protocol.actions import DomainMetadata, Metadata, Protocol, SetTransaction

_NONE_DEAD = np.empty(0, np.int64)
#: Rows up to which a block of commits is merged with its neighbour: few blocks make few, long columns. Bench:
#: ``python -m bench.many_commits``.
_SMALL = 100_000


class LiveBlock(NamedTuple):
    """A block and the ascending positions of its files that are no longer in the table."""

    block: FileBlock
    dead: np.ndarray = _NONE_DEAD

    @property
    def num_files(self) -> int:
        return len(self.block) - len(self.dead)

    def live(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """The column's values for live files; the column is one of as many rows as the block."""
        return self.select(pa.table([column], ["_"])).column(0)

    def select(self, table: pa.Table, start: int = 0) -> pa.Table:
        """The table's rows for live files; the table has as many rows as the block, or those from ``start`` on."""
        first, last = np.searchsorted(self.dead, (start, start + table.num_rows))
        if first == last:
            return table
        mask = np.ones(table.num_rows, np.bool_)
        mask[self.dead[first:last] - start] = False
        return keep(table, mask)

    def rows_of(self, keys: Collection[FileKey]) -> list[dict[str, Any]]:
        """The live files of these keys, as rows with what is in a key."""
        return self.block.rows_at(np.setdiff1d(self.block.positions_of(keys), self.dead, assume_unique=True))

    def without(self, keys: Collection[FileKey]) -> LiveBlock:
        """The same block with the files of these keys gone too."""
        gone = self.block.positions_of(keys)
        return self if len(gone) == 0 else LiveBlock(self.block, np.union1d(self.dead, gone))


class FileChanges(NamedTuple):
    """What some commits did to files in the end: the newest ``add`` or ``remove`` of each logical file in them."""

    keys: Callable[[], Collection[FileKey]]  #: of all of them, a set's or a dictionary's
    adds: pa.Table
    removes: pa.Table


@dataclass(frozen=True)
class TableState:
    """A version of a table: live files in ``blocks``, and where its tombstones are."""

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    transactions: Mapping[str, SetTransaction] = field(default_factory=dict)
    domains: Mapping[str, DomainMetadata] = field(default_factory=dict)
    blocks: tuple[LiveBlock, ...] = ()
    tombstone_sources: tuple[TombstoneSource, ...] = ()  #: oldest first
    checkpoint_sources: int = 0  #: how many of them are a checkpoint's
    tombstone_bytes: int = 0  #: what the others take in memory, about
    commit_info: Mapping[str, Any] | None = None  #: of the last commit applied; None after a checkpoint

    def tombstones(self) -> pa.Table:
        """The newest ``remove`` of each logical file that is not live again; expired ones too."""
        newest: dict[FileKey, int] = {}
        tables = [source.table() for source in self.tombstone_sources]
        everything = pa.concat_tables([NO_TOMBSTONES, *tables])
        for position, row in enumerate(everything.select(["path", "deletion_vector"]).to_pylist()):
            newest[row_key(row)] = position
        for live in self.blocks:
            for row in live.rows_of(newest):
                newest.pop(row_key(row), None)
        return keep(everything, _mask(newest.values(), everything.num_rows))


def state_of_checkpoint(checkpoint: CheckpointState) -> TableState:
    """The state a checkpoint holds."""
    return TableState(
        checkpoint.protocol,
        checkpoint.metadata,
        checkpoint.transactions,
        checkpoint.domains,
        tuple(LiveBlock(block) for block in checkpoint.blocks),
        tuple(checkpoint.tombstone_sources),
        len(checkpoint.tombstone_sources),
    )


def apply_commits(state: TableState, commits: Sequence[ParsedActions]) -> TableState:
    """The state after these commits, given in ascending order."""
    if not commits:
        return state
    changes = reconcile(commits)
    keys = changes.keys() if state.blocks else ()
    blocks = [live.without(keys) for live in state.blocks]
    if changes.adds.num_rows:
        blocks.append(LiveBlock(FileBlock.of_table(changes.adds)))
    sources, tombstone_bytes = state.tombstone_sources, state.tombstone_bytes
    if changes.removes.num_rows:
        sources = (*sources, TombstoneSource(changes.removes))
        tombstone_bytes += sources[-1].holding.bytes
    transactions = dict(state.transactions)
    domains = dict(state.domains)
    for commit in commits:
        transactions.update(commit.transactions)
        domains.update(commit.domains)
    return TableState(
        _last((commit.protocol for commit in commits), state.protocol),
        _last((commit.metadata for commit in commits), state.metadata),
        transactions,
        {name: domain for name, domain in domains.items() if not domain.removed},
        tuple(merge_small(blocks)),
        sources,
        state.checkpoint_sources,
        tombstone_bytes,
        commits[-1].commit_info,
    )


def reconcile(commits: Sequence[ParsedActions]) -> FileChanges:
    """The newest reference to each logical file in commits given in ascending order."""
    if len(commits) == 1 and (files := commits[0].files).are_distinct:
        return FileChanges(lambda: set(files.keys), files.adds(), files.removes())
    newest: dict[FileKey, int] = {}  # the row among all adds, or the complement of the row among all removes
    adds = removes = 0
    add_tables, remove_tables = [NO_FILES], [NO_TOMBSTONES]
    for commit in commits:
        for key, is_add in zip(commit.files.keys, commit.files.kinds, strict=True):
            if is_add:
                newest[key] = adds
                adds += 1
            else:
                newest[key] = ~removes
                removes += 1
        add_tables.append(commit.files.adds())
        remove_tables.append(commit.files.removes())
    return FileChanges(
        newest.keys,
        keep(pa.concat_tables(add_tables), _mask((row for row in newest.values() if row >= 0), adds)),
        keep(pa.concat_tables(remove_tables), _mask((~row for row in newest.values() if row < 0), removes)),
    )


def merge_small(blocks: Sequence[LiveBlock]) -> list[LiveBlock]:
    """The blocks without empty ones, and with small neighbours from commits joined.

    Each new block joins those not much larger than itself, as in a binary counter, so that a row is copied a few
    times in all and there are never more blocks than the logarithm of the number of files.
    """
    merged = [live for live in blocks if live.num_files > 0]
    while len(merged) > 1:
        first, second = merged[-2:]
        together = first.num_files + second.num_files
        if not (first.block.in_memory and second.block.in_memory and first.num_files <= 2 * second.num_files):
            break
        if together > _SMALL:
            break
        table = pa.concat_tables([live.select(live.block.columns(FILE_SCHEMA.names)) for live in (first, second)])
        merged[-2:] = [LiveBlock(FileBlock.of_table(table.combine_chunks()))]
    return merged


def count_deletion_vectors(live: LiveBlock) -> int:
    """How many live files of a block have a deletion vector."""
    column = live.block.table.column("deletion_vector")
    count: int = len(column) - column.null_count
    if count and len(live.dead):
        count -= pc.count(column.take(pa.array(live.dead))).as_py()
    return count


def _mask(rows: Iterable[int], count: int) -> np.ndarray:
    """A mask of ``count`` rows that is true for these."""
    mask = np.zeros(count, np.bool_)
    mask[np.fromiter(rows, np.int64)] = True
    return mask


def _last(values: Iterable[Any], default: Any) -> Any:
    found = default
    for value in values:
        if value is not None:
            found = value
    return found
