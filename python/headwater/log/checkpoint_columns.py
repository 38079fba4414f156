"""The typed columns of a checkpoint: ``stats_parsed`` and ``partitionValues_parsed``.

Owns their types and values for the files of a snapshot. Follows the protocol's chapters "Checkpoints", "Checkpoint
Schema" and "Per-file Statistics". Columns are named by their physical names and nest as the table's schema does;
those that data skipping indexes are there. Promise: nothing is kept in memory for it beyond the rows being written
and one block's typed columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.basics.errors import HeadwaterError
from headwater.log.files import FileBlock
from headwater.log.replay import LiveBlock
from headwater.log.snapshot import Snapshot
from headwater.log.statistics.columns import Leaf, block_statistics, leaf_of
from headwater.protocol.indexed_columns import has_bounds
from headwater.protocol.types import PrimitiveType

#: A tree of leaf positions by name: what a nested struct is built from.
_Tree = dict[str, Any]


class ParsedStatistics:
    """The ``stats_parsed`` column of a table's checkpoint; :attr:`type` is its type."""

    def __init__(self, snapshot: Snapshot) -> None:
        indexed = snapshot.definition.indexed_leaves
        self._leaves: list[Leaf] = [leaf_of(snapshot.schema, path) for path, _ in indexed]
        bounded = [i for i, (_, kind) in enumerate(indexed) if has_bounds(kind)]
        self._bounds = _tree(self._leaves, bounded)
        self._counts = _tree(self._leaves, range(len(indexed)))
        empty: pa.Array = self._build(_no_statistics(self._leaves))
        self.type: pa.StructType = empty.type

    def columns(self, live: LiveBlock, pieces: Iterator[pa.Table]) -> Iterator[tuple[pa.Table, pa.Array]]:
        """Each of the pieces that the block's live files come in, and the column for it; ``pieces`` hold their
        ``path``, ``stats`` and so on.
        """
        typed = self._typed(live)
        start = 0
        for piece in pieces:
            if typed is None:
                # A block of its own for each piece of text: what is parsed of it is gone with it.
                statistics = pa.table(block_statistics(FileBlock.of_table(piece), self._leaves))
            else:
                statistics = typed.slice(start, piece.num_rows)
            start += piece.num_rows
            yield piece, self._build(statistics)

    def _typed(self, live: LiveBlock) -> pa.Table | None:
        """The statistics of all the block's live files where they are typed already, else None."""
        if not self.are_typed(live):
            return None
        block = live.block
        if self._is_cached(block):
            return live.select(pa.table(block_statistics(block, self._leaves)))
        unshared = FileBlock(block.table, block.statistics, block.in_memory)  # leaves the block's own cache as it is
        return live.select(pa.table(block_statistics(unshared, self._leaves, keeps=False)))

    def are_typed(self, live: LiveBlock) -> bool:
        """Whether the block's statistics are typed already, so that the column needs no text."""
        return self._is_cached(live.block) or live.block.statistics.parsed([("numRecords",)]) is not None

    def _is_cached(self, block: FileBlock) -> bool:
        return all(leaf in block.cache for leaf in self._leaves)

    def _build(self, statistics: pa.Table) -> pa.StructArray:
        columns = {name: whole(statistics.column(name)) for name in statistics.column_names}
        parts = {"numRecords": columns["num_records"]}
        if self._bounds:
            parts["minValues"] = _nested(self._bounds, lambda i: _bound(columns[f"min.{i}"]))
            parts["maxValues"] = _nested(self._bounds, lambda i: _bound(columns[f"max.{i}"]))
        if self._counts:
            parts["nullCount"] = _nested(self._counts, lambda i: columns[f"nulls.{i}"])
        parts["tightBounds"] = columns["tight_bounds"]
        return pa.StructArray.from_arrays(list(parts.values()), list(parts), mask=columns["num_records"].is_null())


class ParsedPartitionValues:
    """The ``partitionValues_parsed`` column of a partitioned table's checkpoint; :attr:`type` is its type."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._fields = [snapshot.partition_field(name) for name in snapshot.partition_columns]
        self.type = pa.struct([(field.physical_name, field.type.to_arrow()) for field in self._fields])

    @staticmethod
    def of_snapshot(snapshot: Snapshot) -> ParsedPartitionValues | None:
        """None if the table has no partitions, or a value that depends on a session's time
        zone, or is damaged.
        """
        if not snapshot.partition_columns:
            return None
        parsed = ParsedPartitionValues(snapshot)
        try:
            for field in parsed._fields:
                snapshot.partition_values(field.name)
                if field.type == PrimitiveType("timestamp") and parsed._lacks_zone(field.physical_name):
                    return None
        except HeadwaterError:
            return None
        return parsed

    def columns(self) -> pa.Table:
        """The values of all live files, in the order of the snapshot's ``files``."""
        return pa.table({f.physical_name: self._snapshot.partition_values(f.name) for f in self._fields})

    def build(self, values: pa.Table) -> pa.StructArray:
        """The column for some rows of :meth:`columns`."""
        return pa.StructArray.from_arrays([whole(column) for column in values.columns], fields=list(self.type))

    def _lacks_zone(self, name: str) -> bool:
        for chunk in self._snapshot.select(["partition_values"]).column(0).chunks:
            texts = pc.unique(pc.map_lookup(chunk, pa.scalar(name, pa.string()), "first")).drop_null()
            zoned = pc.match_substring_regex(texts, r"(Z|[+-]\d{1,2}(:?\d{2}){0,2})$")
            dated = pc.match_substring_regex(
                texts, r"^[+-]?\d{4,6}-\d{1,2}-\d{1,2}$"
            )  # ends like an offset, but is a date
            if pc.any(pc.and_not(pc.invert(zoned), pc.equal(texts, ""))).as_py() or pc.any(dated).as_py():
                return True
        return False


def _tree(leaves: Sequence[Leaf], positions: Sequence[int]) -> _Tree:
    """The leaves at these positions, as nested dictionaries by physical name."""
    tree: _Tree = {}
    for position in positions:
        node = tree
        *parents, name = leaves[position].path
        for parent in parents:
            node = node.setdefault(parent, {})
        node[name] = position
    return tree


def _nested(tree: _Tree, leaf: Any) -> pa.StructArray:
    arrays = [_nested(node, leaf) if isinstance(node, dict) else leaf(node) for node in tree.values()]
    return pa.StructArray.from_arrays(arrays, list(tree))


def _bound(values: pa.Array) -> pa.Array:
    """A bound as it is stored: times whole milliseconds, which readers widen again."""
    if not pa.types.is_timestamp(values.type):
        return values
    microseconds = values.cast(pa.int64())
    valid = pc.fill_null(microseconds, 0).to_numpy()
    return pa.array(valid - valid % 1000, mask=_mask(values)).cast(values.type)


def _mask(values: pa.Array) -> np.ndarray:
    nulls: np.ndarray = values.is_null().to_numpy(zero_copy_only=False)
    return nulls


def whole(column: pa.ChunkedArray) -> pa.Array:
    """The column in one piece."""
    combined = column.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        return combined.chunk(0) if combined.num_chunks else pa.array([], column.type)
    return combined


def _no_statistics(leaves: Sequence[Leaf]) -> pa.Table:
    fields = [pa.field("num_records", pa.int64()), pa.field("tight_bounds", pa.bool_())]
    for i, leaf in enumerate(leaves):
        fields += [pa.field(f"{bound}.{i}", leaf.arrow_type) for bound in ("min", "max")]
        fields.append(pa.field(f"nulls.{i}", pa.int64()))
    return pa.schema(fields).empty_table()
