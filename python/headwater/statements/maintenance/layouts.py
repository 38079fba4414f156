"""Layouts: how OPTIMIZE arranges a table's files. Compaction, Z-order, or the clustering of the table.

A layout says which files are written again and which of them together, how their rows are arranged, what the new files
say of it, and what the answer has of it. Promises: what is laid out already stays, unless it is asked for; the choice
rests on the log alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.maintain import AnyOptimizeRequest
from headwater.bridge.statement import Statement
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.actions import RemoveFile
from headwater.protocol.columns import Path, find_path, format_name
from headwater.protocol.indexed_columns import has_bounds
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import DataType, PrimitiveType, StructType
from headwater.schema import mapping
from headwater.statements.files.bins import Bin, by_partition, next_fit, pack
from headwater.statements.files.copying import copy_bins, max_file_size
from headwater.statements.files.cubes import PROVIDER, LaidOutBy, grouped, merged, new_tags
from headwater.statements.files.rows import Target
from headwater.statements.maintenance.curves import Curve, copy_along, curve, files_of
from headwater.statements.settings import (
    LARGEST_CUBE,
    LARGEST_MERGED_CUBE,
    OPTIMIZE_BATCH_SIZE,
    OPTIMIZE_DELETED_ROWS,
    OPTIMIZE_MAX_SIZE,
    OPTIMIZE_MIN_SIZE,
    ZORDER_CHECKS_STATISTICS,
    file_size,
)
from headwater.transaction.moved_rows import Copy


class Settings(NamedTuple):
    """What the session and the table say of OPTIMIZE; sizes in bytes."""

    min_file_size: int = OPTIMIZE_MIN_SIZE.value
    max_file_size: int = OPTIMIZE_MAX_SIZE.value
    deleted_rows_ratio: float = OPTIMIZE_DELETED_ROWS.value
    batch_size: int = OPTIMIZE_BATCH_SIZE.value
    largest_merged_cube: int = LARGEST_MERGED_CUBE.value
    largest_cube: int = LARGEST_CUBE.value

    @staticmethod
    def of(statement: Statement, definition: TableDefinition) -> Settings:
        """:raises HeadwaterError: ``DELTA_ILLEGAL_OPTION``."""
        merged = LARGEST_MERGED_CUBE.of(statement)
        return Settings(
            file_size(OPTIMIZE_MIN_SIZE, statement, definition),
            max_file_size(statement, definition),
            OPTIMIZE_DELETED_ROWS.of(statement),
            OPTIMIZE_BATCH_SIZE.of(statement),
            merged,
            max(merged, LARGEST_CUBE.of(statement)),
        )

    @staticmethod
    def of_table(definition: TableDefinition) -> Settings:
        """Those without a session."""
        target = definition.get(properties.TARGET_FILE_SIZE)
        return Settings() if target is None else Settings(target, target)


class Amount(NamedTuple):
    """Files, and their bytes."""

    files: int = 0
    size: int = 0

    @staticmethod
    def of(sizes: Sequence[int]) -> Amount:
        """Files of these sizes."""
        return Amount(len(sizes), sum(sizes))

    def with_(self, other: Amount) -> Amount:
        """Both together."""
        return Amount(self.files + other.files, self.size + other.size)


class Input(NamedTuple):
    """What a layout found: files in cubes of its columns, all others, and the cubes; and of the former, how many stay
    as they are."""

    in_cubes: Amount = Amount()
    others: Amount = Amount()
    cubes: int = 0
    merged_cubes: int = 0
    left: Amount = Amount()

    def with_(self, other: Input) -> Input:
        """Both together."""
        return Input(
            self.in_cubes.with_(other.in_cubes),
            self.others.with_(other.others),
            self.cubes + other.cubes,
            self.merged_cubes + other.merged_cubes,
            self.left.with_(other.left),
        )


class Choice(NamedTuple):
    """The files that were chosen, rows of ``snapshot.files``, and how they are packed.

    :param considered: the number of files in the partitions that were asked for.
    :param reasons: why each was chosen.
    :param live: about how many bytes of each the copy will have.
    """

    files: pa.Table
    bins: list[Bin]
    considered: int
    reasons: list[str]
    live: list[int]
    input: Input = Input()

    def live_bytes(self, each: Bin) -> int:
        """About how large the copy of a bin will be, in bytes."""
        return sum(self.live[position] for position in each.positions)


class Layout(ABC):
    """What is made of a table's files."""

    #: What it does to files, for Spark's UI and the log.
    verb: str
    #: Whether rows stay in the order in which they were written.
    keeps_order = False

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @abstractmethod
    def choose(self, snapshot: Snapshot, asked: pa.Array, among: pa.Array | None = None) -> Choice:
        """The files to write again.

        :param asked: which of ``snapshot.files`` lie in the partitions that were asked for.
        :param among: the paths of the files that may be chosen; None for all.
        """

    @abstractmethod
    def write(
        self, statement: Statement, snapshot: Snapshot, files: pa.Table, bins: Sequence[Bin], target: Target
    ) -> list[Copy]:
        """Write bins of chosen files; as :func:`~headwater.statements.files.copying.copy_bins`."""

    def num_outputs(self, size: int) -> int:
        """How many files a bin of so many bytes becomes."""
        return 1

    def parameters(self) -> dict[str, Any]:
        """What the history has of the layout."""
        return {"zOrderBy": [], "clusterBy": []}

    def statistics(self, found: Input, sources: Sequence[RemoveFile], cubes: int) -> dict[str, Any]:
        """What the answer's metrics have of it.

        :param sources: the files that were written again, into so many cubes.
        """
        return {}


class Compaction(Layout):
    """Small files of a partition become large ones; rows keep their order."""

    verb = "compact"
    keeps_order = True

    def choose(self, snapshot: Snapshot, asked: pa.Array, among: pa.Array | None = None) -> Choice:
        settings = self.settings
        light = snapshot.select(["path", "size", "modification_time", "partition_values", "deletion_vector"])
        ratios = _deleted_rows(snapshot, light)
        too_many = pc.fill_null(pc.greater(ratios, settings.deleted_rows_ratio), True)
        wanted = pc.and_(asked, pc.or_(pc.less(light["size"], settings.min_file_size), too_many))
        if among is not None:
            wanted = pc.and_(wanted, pc.is_in(light["path"], value_set=among))
        light, ratios, too_many = light.filter(wanted), ratios.filter(wanted), too_many.filter(wanted)
        worn = too_many.to_pylist()
        packed = pack(light, settings.max_file_size)
        bins = [each for each in packed if len(each.positions) > 1 or worn[each.positions[0]]]
        deleted, sizes = ratios.to_pylist(), light["size"].to_pylist()
        reasons = [
            _of_deleted_rows(ratio) if old else f"it has {size} of {settings.min_file_size} bytes"
            for ratio, old, size in zip(deleted, worn, sizes, strict=True)
        ]
        live = _live_bytes(sizes, deleted)
        return Choice(snapshot.files.filter(wanted), bins, pc.sum(asked).as_py() or 0, reasons, live)

    def write(
        self, statement: Statement, snapshot: Snapshot, files: pa.Table, bins: Sequence[Bin], target: Target
    ) -> list[Copy]:
        return copy_bins(statement, snapshot, files, bins, target)


@dataclass(frozen=True)
class _Rules:
    """How a layout along a curve treats files.

    :param is_full: whether files that are laid out already are written again.
    :param capacity: the bytes that a new cube has at most.
    :param largest_merged: a cube of so many bytes is merged no more.
    :param keeps_others: whether files that are laid out by other columns also stay.
    """

    is_full: bool
    capacity: int
    largest_merged: int
    keeps_others: bool


class _AlongCurve(Layout):
    """The rows of a partition lie along a curve, in cubes: those of one are in the order of one curve."""

    def __init__(self, settings: Settings, schema: StructType, columns: Sequence[Path], rules: _Rules) -> None:
        super().__init__(settings)
        self.by = LaidOutBy.of(schema, columns)
        self.rules = rules
        self.curve: Curve = curve(_typed(schema, columns), is_hilbert=self.provider is not None)

    #: The clustering provider that the files name.
    provider: str | None = None

    def num_outputs(self, size: int) -> int:
        return files_of(size, self.settings.max_file_size)

    def choose(self, snapshot: Snapshot, asked: pa.Array, among: pa.Array | None = None) -> Choice:
        wanted = ["path", "size", "modification_time", "partition_values", "deletion_vector", "tags"]
        light = snapshot.select([*wanted, "clustering_provider"]).filter(asked)
        ratios = _deleted_rows(snapshot, snapshot.select(["deletion_vector"])).filter(asked).to_pylist()
        sizes = light["size"].to_pylist()
        most = self.settings.deleted_rows_ratio
        worn = [ratio is None or ratio > most for ratio in ratios]
        order = pc.sort_indices(light, [("modification_time", "ascending"), ("path", "ascending")]).to_pylist()
        reasons: dict[int, str] = {}
        bins: list[Bin] = []
        found = Input()
        for positions in by_partition(light, order):
            chosen, of_partition = self._of_partition(light, positions, worn, sizes)
            reasons |= {p: _of_deleted_rows(ratios[p]) if worn[p] else why for p, why in chosen.items()}
            found = found.with_(of_partition)
            bins += next_fit(list(chosen), sizes, self.rules.capacity)
        if among is not None:
            mine = pc.is_in(light["path"], value_set=among).to_pylist()
            kept = [[p for p in each.positions if mine[p]] for each in bins]
            bins = [Bin(left, sum(sizes[p] for p in left)) for left in kept if left]
        taken = [position for each in bins for position in each.positions]
        numbers = {position: number for number, position in enumerate(taken)}
        live = _live_bytes(sizes, ratios)
        return Choice(
            snapshot.files.filter(asked).take(pa.array(taken, pa.int64())),
            [Bin([numbers[p] for p in each.positions], each.size) for each in bins],
            light.num_rows,
            [reasons[p] for p in taken],
            [live[p] for p in taken],
            found,
        )

    def _of_partition(
        self, light: pa.Table, positions: Sequence[int], worn: Sequence[bool], sizes: Sequence[int]
    ) -> tuple[dict[int, str], Input]:
        """The files of a partition to write again, each with the reason, and what was found."""
        files = grouped(light, positions, self.by, worn)
        rules = self.rules
        new = dict.fromkeys(files.new, "it is not laid out yet")
        by_others = dict.fromkeys(files.others, "it is laid out by other columns")
        if rules.is_full:
            again, why = files.cubes, "all files were asked for"
        else:
            if not rules.keeps_others:
                new |= by_others
            again = merged(files.cubes, sum(sizes[p] for p in new), rules.largest_merged)
            why = "its part of the table is merged with others of its size"
        chosen = new | (by_others if rules.is_full else {})
        chosen |= {position: why for cube in again for position in cube.positions}
        in_cubes = Amount(sum(len(cube.positions) for cube in files.cubes), sum(cube.size for cube in files.cubes))
        others = Amount.of([sizes[p] for p in (*files.new, *files.others)])
        left = Amount.of([sizes[p] for p in positions if p not in chosen])
        return chosen, Input(in_cubes, others, len(files.cubes), len(again), left)

    def write(
        self, statement: Statement, snapshot: Snapshot, files: pa.Table, bins: Sequence[Bin], target: Target
    ) -> list[Copy]:
        copies = copy_along(self.curve, statement, snapshot, files, bins, target, self.settings.max_file_size)
        for copy in copies:
            tags = new_tags(self.by)
            copy.outputs = [
                replace(output, tags={**(output.tags or {}), **tags}, clustering_provider=self.provider)
                for output in copy.outputs
            ]
        return copies

    def statistics(self, found: Input, sources: Sequence[RemoveFile], cubes: int) -> dict[str, Any]:
        return {
            "numFilesSkippedToReduceWriteAmplification": found.left.files,
            "numBytesSkippedToReduceWriteAmplification": found.left.size,
        }


class ZOrder(_AlongCurve):
    """ZORDER BY columns that the statement names."""

    verb = "lay out"

    def parameters(self) -> dict[str, Any]:
        return {**super().parameters(), "zOrderBy": self.by.names}

    def statistics(self, found: Input, sources: Sequence[RemoveFile], cubes: int) -> dict[str, Any]:
        return {
            **super().statistics(found, sources, cubes),
            "zOrderStats": {
                "strategyName": "all" if self.rules.is_full else "incremental",
                "inputCubeFiles": _amount(found.in_cubes, "num"),
                "inputOtherFiles": _amount(found.others, "num"),
                "inputNumCubes": found.cubes,
                "mergedFiles": _amount(Amount.of([source.size or 0 for source in sources]), "num"),
                "numOutputCubes": cubes,
                "mergedNumCubes": found.merged_cubes,
            },
        }


class Clustering(_AlongCurve):
    """CLUSTER BY columns that the table names."""

    verb = "cluster"
    provider = PROVIDER

    def parameters(self) -> dict[str, Any]:
        return {**super().parameters(), "clusterBy": self.by.names, "isFull": self.rules.is_full}

    def statistics(self, found: Input, sources: Sequence[RemoveFile], cubes: int) -> dict[str, Any]:
        return {
            **super().statistics(found, sources, cubes),
            "clusteringStats": {
                "inputZCubeFiles": _amount(found.in_cubes, "numFiles"),
                "inputOtherFiles": _amount(found.others, "numFiles"),
                "inputNumZCubes": found.cubes,
                "mergedFiles": _amount(Amount.of([source.size or 0 for source in sources]), "numFiles"),
                "numOutputZCubes": cubes,
            },
        }


def _amount(amount: Amount, number: str) -> dict[str, int]:
    return {number: amount.files, "size": amount.size}


def layout_of(request: AnyOptimizeRequest, statement: Statement, snapshot: Snapshot) -> Layout:
    """The layout that a table and a statement ask for.

    :raises HeadwaterError: ``DELTA_ILLEGAL_OPTION``, ``DELTA_CLUSTERING_WITH_PARTITION_PREDICATE``,
        ``DELTA_CLUSTERING_WITH_ZORDER_BY``, ``DELTA_OPTIMIZE_FULL_NOT_SUPPORTED``, and those of the columns of
        ZORDER BY: ``DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST``, ``DELTA_ZORDERING_ON_PARTITION_COLUMN``,
        ``DELTA_ZORDERING_ON_COLUMN_WITHOUT_STATS``, ``HEADWATER_ZORDERING_ON_COLUMN_WITHOUT_ORDER``.
    """
    settings = Settings.of(statement, snapshot.definition)
    arguments = request.arguments
    clustered_by = snapshot.clustering_columns
    if clustered_by:
        _check_clustered(request, clustered_by)
    elif arguments.z_order_by:
        columns = _z_order_columns(request, statement, snapshot)
        whole = snapshot.size_in_bytes + 1
        return ZOrder(settings, snapshot.schema, columns, _Rules(arguments.full, whole, whole, keeps_others=False))
    elif arguments.full:
        raise HeadwaterError("DELTA_OPTIMIZE_FULL_NOT_SUPPORTED", {"tableName": request.name})
    return own_layout(snapshot, settings, is_full=arguments.full)


def own_layout(snapshot: Snapshot, settings: Settings, *, is_full: bool = False) -> Layout:
    """The layout that a table has by its definition."""
    clustered_by = snapshot.clustering_columns
    if not clustered_by:
        return Compaction(settings)
    return clustering_by(snapshot.schema, clustered_by, settings, is_full=is_full)


def clustering_by(
    schema: StructType, columns: Sequence[Path], settings: Settings, *, is_full: bool = False
) -> Clustering:
    """The clustering by columns, given by their logical paths."""
    rules = _Rules(is_full, settings.largest_cube, settings.largest_merged_cube, keeps_others=True)
    return Clustering(settings, schema, columns, rules)


def _check_clustered(request: AnyOptimizeRequest, clustered_by: Sequence[Path]) -> None:
    columns = ", ".join(map(format_name, clustered_by))
    if request.arguments.where is not None:
        raise HeadwaterError(
            "DELTA_CLUSTERING_WITH_PARTITION_PREDICATE",
            {"tableName": request.name, "predicates": request.arguments.where, "columns": columns},
        )
    if request.arguments.z_order_by:
        raise HeadwaterError(
            "DELTA_CLUSTERING_WITH_ZORDER_BY",
            {
                "tableName": request.name,
                "zOrderBy": ", ".join(map(format_name, request.arguments.z_order_by)),
                "columns": columns,
            },
        )


def _typed(schema: StructType, columns: Sequence[Path]) -> list[tuple[Path, DataType]]:
    found = [(path, find_path(schema, path)) for path in columns]
    return [(path, field.type) for path, field in found if field is not None]


def _z_order_columns(request: AnyOptimizeRequest, statement: Statement, snapshot: Snapshot) -> list[Path]:
    """The columns of ZORDER BY, as the schema spells them, each once."""
    schema, partitions = snapshot.schema, {name.lower() for name in snapshot.partition_columns}
    indexed = {path for path, _ in snapshot.definition.indexed_leaves}
    columns: dict[Path, None] = {}
    bare = []
    for given in request.arguments.z_order_by:
        found = [find_path(schema, given[:length]) for length in range(1, len(given) + 1)]
        if any(field is None for field in found):
            raise HeadwaterError(
                "DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST",
                {"columnName": format_name(given), "tableName": request.name, "columnList": _names(schema.names)},
            )
        path = tuple(field.name for field in found if field is not None)
        field = found[-1]
        assert field is not None
        if path[0].lower() in partitions:
            raise HeadwaterError(
                "DELTA_ZORDERING_ON_PARTITION_COLUMN", {"colName": format_name(path), "tableName": request.name}
            )
        if not has_bounds(field.type) and field.type not in (PrimitiveType("boolean"), PrimitiveType("binary")):
            raise HeadwaterError(
                "HEADWATER_ZORDERING_ON_COLUMN_WITHOUT_ORDER",
                {"columnName": format_name(path), "type": field.type.sql()},
            )
        if not has_bounds(field.type) or mapping.physical_path(schema, path) not in indexed:
            bare.append(path)
        columns[path] = None
    if bare and ZORDER_CHECKS_STATISTICS.of(statement):
        raise HeadwaterError(
            "DELTA_ZORDERING_ON_COLUMN_WITHOUT_STATS",
            {"cols": _names([format_name(path) for path in bare]), "zorderColStatKey": ZORDER_CHECKS_STATISTICS.name},
        )
    return list(columns)


def _names(names: Sequence[str]) -> str:
    return ", ".join(names)


def _of_deleted_rows(ratio: float | None) -> str:
    if ratio is None:
        return "its deletion vector marks an unknown part of its rows"
    return f"{ratio:.0%} of its rows are deleted"


def _live_bytes(sizes: Sequence[int], deleted: Sequence[float | None]) -> list[int]:
    return [int(size * (1 - (ratio or 0))) for size, ratio in zip(sizes, deleted, strict=True)]


def _deleted_rows(snapshot: Snapshot, files: pa.Table) -> pa.ChunkedArray:
    """The ratio of deleted rows of each file; null where its log entry has a vector, but no number of rows."""
    zeros = pa.chunked_array([pa.array(np.zeros(files.num_rows))])
    if not snapshot.has_deletion_vectors:
        return zeros
    vectors = files["deletion_vector"]
    rows = pc.cast(snapshot.statistics([])["num_records"], pa.float64(), safe=False)
    marked = pc.cast(pc.struct_field(vectors, "cardinality"), pa.float64(), safe=False)
    # A file without rows that has a vector is chosen as well.
    ratio = pc.divide(marked, pc.if_else(pc.equal(rows, 0), None, rows))
    return pc.if_else(pc.is_null(vectors), zeros, ratio)
