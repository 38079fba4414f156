"""Replay: from commits to the state of a table.

Owns action reconciliation, the protocol's chapter "Action Reconciliation": for every logical file, named by its path
and the unique id of its deletion vector, the newest reference wins; so do the newest protocol, metadata, transaction
of an application and configuration of a domain. A state is never changed: applying commits gives a new one that
shares all file blocks with the old.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.log.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from headwater.log.checkpoints import CheckpointState, TombstoneSource
from headwater.log.commits import ParsedActions, invalid_commit
from headwater.log.files import FILE_SCHEMA, TOMBSTONE_SCHEMA, FileBlock, FileKey, action_key, keep, row_key, table_of

_NONE_DEAD = np.empty(0, np.int64)
#: A block of commits smaller than this is merged with its neighbour: few blocks make few, long columns.
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

    def select(self, table: pa.Table) -> pa.Table:
        """The table's rows for live files; the table has as many rows as the block."""
        if len(self.dead) == 0:
            return table
        mask = np.ones(len(self.block), np.bool_)
        mask[self.dead] = False
        return keep(table, mask)

    def without(self, keys: set[FileKey]) -> LiveBlock:
        """The same block with the files of these keys gone too."""
        gone = self.block.positions_of(keys)
        return self if len(gone) == 0 else LiveBlock(self.block, np.union1d(self.dead, gone))


@dataclass(frozen=True)
class FileChanges:
    """What some commits did to files in the end: the newest ``add`` or ``remove`` of each logical file in them."""

    adds: Mapping[FileKey, Mapping[str, Any]]
    removes: Mapping[FileKey, Mapping[str, Any]]


@dataclass(frozen=True)
class TableState:
    """A version of a table: live files in ``blocks``, and what the tombstones are made from, oldest first."""

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    transactions: Mapping[str, SetTransaction] = field(default_factory=dict)
    domains: Mapping[str, DomainMetadata] = field(default_factory=dict)
    blocks: tuple[LiveBlock, ...] = ()
    tombstone_sources: tuple[TombstoneSource, ...] = ()
    changes: tuple[FileChanges, ...] = ()
    commit_info: Mapping[str, Any] | None = None  #: of the last commit applied; None after a checkpoint

    def tombstones(self) -> pa.Table:
        """The ``remove`` actions that no newer ``add`` has undone, one a logical file; expired ones too."""
        seen: set[FileKey] = set()
        newest: list[Mapping[str, Any]] = []
        for changes in reversed(self.changes):
            newest += [remove for key, remove in changes.removes.items() if key not in seen]
            seen.update(changes.removes)
            seen.update(changes.adds)
        tables = [table_of(newest, TOMBSTONE_SCHEMA)]
        for source in self.tombstone_sources:
            table = source.table()
            if seen and table.num_rows:
                keys = table.select(["path", "deletion_vector"]).to_pylist()
                table = keep(table, np.fromiter((row_key(row) not in seen for row in keys), np.bool_, len(keys)))
            tables.append(table)
        return pa.concat_tables(tables)


def state_of_checkpoint(checkpoint: CheckpointState) -> TableState:
    """The state a checkpoint holds."""
    return TableState(
        checkpoint.protocol,
        checkpoint.metadata,
        checkpoint.transactions,
        checkpoint.domains,
        tuple(LiveBlock(block) for block in checkpoint.blocks),
        tuple(checkpoint.tombstone_sources),
    )


def apply_commits(state: TableState, commits: Sequence[ParsedActions]) -> TableState:
    """The state after these commits, given in ascending order.

    :raises HeadwaterError: ``DELTA_INVALID_COMMIT`` where a file action has a field of the wrong type.
    """
    if not commits:
        return state
    changes = reconcile(commits)
    touched = {*changes.adds, *changes.removes}
    blocks = [live.without(touched) for live in state.blocks]
    if changes.adds:
        blocks.append(LiveBlock(_block_of(list(changes.adds.values()), commits)))
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
        state.tombstone_sources,
        (*state.changes, FileChanges({key: {} for key in changes.adds}, changes.removes)),
        commits[-1].commit_info,
    )


def reconcile(commits: Iterable[ParsedActions]) -> FileChanges:
    """The newest reference to each logical file in commits given in ascending order."""
    adds: dict[FileKey, Mapping[str, Any]] = {}
    removes: dict[FileKey, Mapping[str, Any]] = {}
    for commit in commits:
        for is_add, action in commit.files:
            key = action_key(action)
            if is_add:
                removes.pop(key, None)
                adds[key] = action
            else:
                adds.pop(key, None)
                removes[key] = action
    return FileChanges(adds, removes)


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
    count = len(column) - column.null_count
    if count and len(live.dead):
        count -= pc.count(column.take(pa.array(live.dead))).as_py()
    return count


def _block_of(adds: Sequence[Mapping[str, Any]], commits: Sequence[ParsedActions]) -> FileBlock:
    try:
        return FileBlock.of_actions(adds)
    except (pa.ArrowException, TypeError, AttributeError, ValueError, OverflowError) as error:
        for commit in commits:  # which one was it? rebuild one by one, since this is the end of the statement anyway
            for is_add, action in commit.files:
                try:
                    table_of([action], FILE_SCHEMA if is_add else TOMBSTONE_SCHEMA)
                except (pa.ArrowException, TypeError, AttributeError, ValueError, OverflowError) as cause:
                    raise invalid_commit(commit.path, f"the action of {action['path']}", str(cause)) from None
        raise invalid_commit(commits[-1].path, "an add action", str(error)) from None


def _last(values: Iterable[Any], default: Any) -> Any:
    found = default
    for value in values:
        if value is not None:
            found = value
    return found
