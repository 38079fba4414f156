"""OPTIMIZE: small files are written together into large ones.

Owns which files are chosen, the commits that replace them, and the answer. Follows the documented behaviour of the
statement in Delta: no row changes, so no reader of changes sees it, and an append-only table may be compacted.
Promises: a long run commits batch by batch and keeps what it has done; it never takes a file that was not there when
it began; a DELETE, UPDATE or MERGE at the same time neither fails nor makes it fail where deletion vectors are enabled
(:mod:`headwater.transaction.moved_rows`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.bridge.messages.define import CommitAnswer, RowsAnswer
from headwater.bridge.messages.maintain import OptimizeDryRunRequest, OptimizeRequest
from headwater.bridge.statement import Statement
from headwater.errors import HeadwaterError
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.actions import AddFile, Metadata, RemoveFile
from headwater.protocol.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType
from headwater.statements.committing import commit, transaction
from headwater.statements.define.clustering import clustering_columns
from headwater.statements.maintain.bins import Bin, batches, pack
from headwater.statements.maintain.copying import DEFAULT_FILE_SIZE, copy_bins, max_file_size
from headwater.statements.maintain.file_rewrites import metrics_of
from headwater.statements.maintain.partition_conditions import files_in_partitions
from headwater.statements.opening import Options, open_snapshot
from headwater.statements.rerunning import run_again_after_losses
from headwater.statements.write.rows import Target
from headwater.transaction.moved_rows import Copy

_LOG = logging.getLogger(__name__)

_MIN_FILE_SIZE = "spark.databricks.delta.optimize.minFileSize"
_MAX_DELETED_ROWS_RATIO = "spark.databricks.delta.optimize.maxDeletedRowsRatio"
_BATCH_SIZE = "spark.databricks.delta.optimize.batchSize"
_DEFAULT_DELETED_ROWS_RATIO = 0.05
#: Bytes that one commit compacts: what a long run that is interrupted loses at most. Chosen, not measured.
_DEFAULT_BATCH_SIZE = 100 << 30

_STRING, _LONG = PrimitiveType("string"), PrimitiveType("long")


def _struct(**fields: DataType) -> StructType:
    return StructType(tuple(StructField(name, kind) for name, kind in fields.items()))


_SIZES = _struct(min=_LONG, max=_LONG, avg=PrimitiveType("double"), totalFiles=_LONG, totalSize=_LONG)
_FILES = _struct(num=_LONG, size=_LONG)
_CUBE_FILES = _struct(numFiles=_LONG, size=_LONG)
#: The answer of OPTIMIZE, as Delta Lake's own connector has it. What only clustering and auto-compaction fill is null.
OPTIMIZE_SCHEMA = _struct(
    path=_STRING,
    metrics=_struct(
        numFilesAdded=_LONG,
        numFilesRemoved=_LONG,
        filesAdded=_SIZES,
        filesRemoved=_SIZES,
        partitionsOptimized=_LONG,
        zOrderStats=_struct(
            strategyName=_STRING,
            inputCubeFiles=_FILES,
            inputOtherFiles=_FILES,
            inputNumCubes=_LONG,
            mergedFiles=_FILES,
            numOutputCubes=_LONG,
            mergedNumCubes=_LONG,
        ),
        clusteringStats=_struct(
            inputZCubeFiles=_CUBE_FILES,
            inputOtherFiles=_CUBE_FILES,
            inputNumZCubes=_LONG,
            mergedFiles=_CUBE_FILES,
            numOutputZCubes=_LONG,
        ),
        numBins=_LONG,
        numBatches=_LONG,
        totalConsideredFiles=_LONG,
        totalFilesSkipped=_LONG,
        preserveInsertionOrder=PrimitiveType("boolean"),
        numFilesSkippedToReduceWriteAmplification=_LONG,
        numBytesSkippedToReduceWriteAmplification=_LONG,
        startTimeMs=_LONG,
        endTimeMs=_LONG,
        totalClusterParallelism=_LONG,
        totalScheduledTasks=_LONG,
        autoCompactParallelismStats=_struct(
            maxClusterActiveParallelism=_LONG,
            minClusterActiveParallelism=_LONG,
            maxSessionActiveParallelism=_LONG,
            minSessionActiveParallelism=_LONG,
        ),
        deletionVectorStats=_struct(numDeletionVectorsRemoved=_LONG, numDeletionVectorRowsRemoved=_LONG),
        numTableColumns=_LONG,
        numTableColumnsWithStats=_LONG,
    ),
)
DRY_RUN_SCHEMA = _struct(
    partition=MapType(_STRING, _STRING),
    numFiles=_LONG,
    bytes=_LONG,
    files=ArrayType(_struct(path=_STRING, bytes=_LONG, reason=_STRING)),
    expectedBytes=_LONG,
)


def optimize(request: OptimizeRequest, statement: Statement) -> CommitAnswer:
    """Compact a table's small files; one row of :data:`OPTIMIZE_SCHEMA`.

    :raises HeadwaterError: ``DELTA_NON_PARTITION_COLUMN_REFERENCE``,
        ``DELTA_OPTIMIZE_FULL_NOT_SUPPORTED``, those of opening a table, of a copy, and of a commit.
    """
    return Run(request, statement, Settings.of(statement)).to_the_end()


def optimize_dry_run(request: OptimizeDryRunRequest, statement: Statement) -> RowsAnswer:
    """What :func:`optimize` would do; a row of :data:`DRY_RUN_SCHEMA` for each file that it would write."""
    settings = Settings.of(statement)
    snapshot = open_snapshot(request.table, statement)
    _check(snapshot, request)
    chosen = _choose(request, statement, snapshot, settings)
    paths, sizes = chosen.files["path"].to_pylist(), chosen.files["size"].to_pylist()
    values = chosen.files["partition_values"].to_pylist()
    return RowsAnswer(
        rows=[
            {
                "partition": dict(values[each.positions[0]] or ()),
                "numFiles": len(each.positions),
                "bytes": each.size,
                "files": [
                    {"path": paths[position], "bytes": sizes[position], "reason": chosen.reason(position)}
                    for position in each.positions
                ],
                "expectedBytes": chosen.live_bytes(each),
            }
            for each in chosen.bins
        ]
    )


class Settings(NamedTuple):
    """What the session says of OPTIMIZE; sizes in bytes."""

    min_file_size: int = DEFAULT_FILE_SIZE
    max_file_size: int = DEFAULT_FILE_SIZE
    deleted_rows_ratio: float = _DEFAULT_DELETED_ROWS_RATIO
    batch_size: int = _DEFAULT_BATCH_SIZE

    @staticmethod
    def of(statement: Statement) -> Settings:
        """:raises HeadwaterError: ``DELTA_ILLEGAL_OPTION``."""
        return Settings(
            statement.whole_number(_MIN_FILE_SIZE, DEFAULT_FILE_SIZE),
            max_file_size(statement),
            _ratio(statement),
            statement.whole_number(_BATCH_SIZE, _DEFAULT_BATCH_SIZE),
        )


def _ratio(statement: Statement) -> float:
    text = statement.conf(_MAX_DELETED_ROWS_RATIO)
    if text is None:
        return _DEFAULT_DELETED_ROWS_RATIO
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        explain = "must be a number from 0 to 1"
        raise HeadwaterError(
            "DELTA_ILLEGAL_OPTION", {"name": _MAX_DELETED_ROWS_RATIO, "input": text, "explain": explain}
        )
    return value


class Choice(NamedTuple):
    """The files that were chosen, rows of ``snapshot.files``, and how they are packed.

    :param considered: the number of files in the partitions that were asked for.
    :param deleted: the ratio of deleted rows of each, None where the log does not say.
    """

    files: pa.Table
    bins: list[Bin]
    considered: int
    deleted: list[float | None]
    settings: Settings

    def reason(self, position: int) -> str:
        """Why a file was chosen."""
        size, deleted = self.files["size"][position].as_py(), self.deleted[position]
        if deleted is None:
            return "its deletion vector marks an unknown part of its rows"
        if deleted > self.settings.deleted_rows_ratio:
            return f"{deleted:.0%} of its rows are deleted"
        return f"it has {size} of {self.settings.min_file_size} bytes"

    def live_bytes(self, each: Bin) -> int:
        """About how large the copy of a bin will be, in bytes."""
        sizes = self.files["size"]
        return int(sum(sizes[p].as_py() * (1 - (self.deleted[p] or 0)) for p in each.positions))


def _choose(
    request: OptimizeRequest,
    statement: Statement,
    snapshot: Snapshot,
    settings: Settings,
    among: pa.Array | None = None,
) -> Choice:
    asked = files_in_partitions(snapshot, statement, request.arguments.where, request.name)
    return choose(snapshot, asked, settings, among)


def choose(snapshot: Snapshot, asked: pa.Array, settings: Settings, among: pa.Array | None = None) -> Choice:
    """The files to compact.

    :param asked: which of ``snapshot.files`` lie in the partitions that were asked for.
    :param among: the paths of the files that may be chosen; None for all.
    """
    light = snapshot.select(["path", "size", "modification_time", "partition_values", "deletion_vector"])
    ratios = _deleted_rows(snapshot, light)
    too_many = pc.fill_null(pc.greater(ratios, settings.deleted_rows_ratio), True)
    wanted = pc.and_(asked, pc.or_(pc.less(light["size"], settings.min_file_size), too_many))
    if among is not None:
        wanted = pc.and_(wanted, pc.is_in(light["path"], value_set=among))
    light, ratios, too_many = light.filter(wanted), ratios.filter(wanted), too_many.filter(wanted)
    alone = too_many.to_pylist()
    bins = [each for each in pack(light, settings.max_file_size) if len(each.positions) > 1 or alone[each.positions[0]]]
    return Choice(snapshot.files.filter(wanted), bins, pc.sum(asked).as_py() or 0, ratios.to_pylist(), settings)


def _deleted_rows(snapshot: Snapshot, files: pa.Table) -> pa.ChunkedArray:
    """The ratio of deleted rows of each file; null where its log entry has a vector, but no number of rows."""
    zeros = pa.chunked_array([pa.array(np.zeros(files.num_rows))])
    if not snapshot.has_deletion_vectors:
        return zeros
    vectors = files["deletion_vector"]
    rows = pc.cast(snapshot.statistics([])["num_records"], pa.float64())
    marked = pc.cast(pc.struct_field(vectors, "cardinality"), pa.float64())
    # A file without rows that has a vector is chosen, too.
    ratio = pc.divide(marked, pc.if_else(pc.equal(rows, 0), None, rows))
    return pc.if_else(pc.is_null(vectors), zeros, ratio)


class Run:
    """One run over a table, batch by batch: of OPTIMIZE, or of a statement that chooses other files."""

    operation = "OPTIMIZE"

    def __init__(self, request: OptimizeRequest, statement: Statement, settings: Settings) -> None:
        self._request, self._statement, self._settings = request, statement, settings
        self._began = time.time_ns() // 1_000_000
        snapshot = open_snapshot(request.table, statement)
        self.check(snapshot)
        self._first = self.choose(snapshot, None)
        #: Only these files are chosen, however many come while the statement runs.
        self._among = self._first.files["path"].combine_chunks()
        self._path = snapshot.table_path
        self._metadata = snapshot.metadata
        self._sources: list[RemoveFile] = []
        self._outputs: list[AddFile] = []
        self._batches = 0
        self._batches_planned = len(list(batches(self._first.bins, self._settings.batch_size)))
        self._partitions: set[tuple[tuple[str, str | None], ...]] = set()
        self._bins = 0
        self.version = snapshot.version

    def check(self, snapshot: Snapshot) -> None:
        """Refuse what cannot be."""
        _check(snapshot, self._request)

    def choose(self, snapshot: Snapshot, among: pa.Array | None) -> Choice:
        """The files to write again; ``among`` has the paths of those that may be chosen, None for all."""
        return _choose(self._request, self._statement, snapshot, self._settings, among)

    def parameters(self) -> dict[str, Any]:
        """The statement's parameters in the history."""
        where = self._request.arguments.where
        return {"predicate": [] if where is None else [where], "zOrderBy": [], "clusterBy": [], "auto": False}

    def to_the_end(self) -> CommitAnswer:
        """Compact batch by batch until nothing is left to do."""
        table, statement = self._request.table, self._statement
        while run_again_after_losses(table, statement, self.next_batch, waits_for_others=False, discards=False):
            statement.check_cancelled()
        return CommitAnswer(version=self.version, rows=[self.answer()])

    def next_batch(self) -> bool:
        """Compact one batch; False where nothing is left to do."""
        request, statement = self._request, self._statement
        snapshot = open_snapshot(request.table, statement)
        choice = self.choose(snapshot, self._among)
        batch = next(batches(choice.bins, self._settings.batch_size), None)
        if batch is None:
            return False
        txn = transaction(request.table, statement, snapshot)
        self._show(choice, batch)
        target = Target(snapshot.table_path, txn.protocol, txn.metadata)
        copies = copy_bins(statement, snapshot, choice.files, batch, target)
        txn.move(copies)
        done = commit(txn, statement, Options(None), self.operation, self.parameters(), _metrics(copies), is_last=False)
        self._note(done.version, copies, txn.moved)
        txn.delete_given_up()
        return True

    def _show(self, choice: Choice, batch: Sequence[Bin]) -> None:
        """Say what comes, in Spark's UI and in the log."""
        files, size = sum(len(each.positions) for each in batch), sum(each.size for each in batch)
        first = dict(choice.files["partition_values"][batch[0].positions[0]].as_py() or ())
        where = f", from partition {', '.join(f'{k}={v}' for k, v in first.items())} on" if first else ""
        text = f"compact {files} files of {size} bytes into {len(batch)}{where}"
        number = self._batches + 1
        planned = max(number, self._batches_planned)
        self._statement.step(text, number, planned)
        _LOG.info("%s: %s, batch %d of %d: %s", self._path, self.operation, number, planned, text)

    def _note(self, version: int, copies: Sequence[Copy], kept: Sequence[Copy]) -> None:
        self.version = version
        self._batches += 1
        self._bins += len(copies)
        for copy in kept:
            self._sources += copy.sources
            self._outputs += copy.outputs
            self._partitions.add(tuple(sorted((copy.sources[0].partition_values or {}).items())))

    def answer(self) -> dict[str, Any]:
        """The row of :data:`OPTIMIZE_SCHEMA`."""
        vectors = [source.deletion_vector for source in self._sources if source.deletion_vector is not None]
        columns = len(self._metadata.schema)
        return {
            "path": f"file:{self._path}" if self._path.startswith("/") else self._path,
            "metrics": {
                "numFilesAdded": len(self._outputs),
                "numFilesRemoved": len(self._sources),
                "filesAdded": _sizes([output.size for output in self._outputs]),
                "filesRemoved": _sizes([source.size or 0 for source in self._sources]),
                "partitionsOptimized": len(self._partitions),
                "numBins": self._bins,
                "numBatches": self._batches,
                "totalConsideredFiles": self._first.considered,
                "totalFilesSkipped": self._first.considered - len(self._sources),
                "preserveInsertionOrder": True,
                "numFilesSkippedToReduceWriteAmplification": 0,
                "numBytesSkippedToReduceWriteAmplification": 0,
                "startTimeMs": self._began,
                "endTimeMs": time.time_ns() // 1_000_000,
                "totalClusterParallelism": 0,
                "totalScheduledTasks": self._bins,
                "deletionVectorStats": {
                    "numDeletionVectorsRemoved": len(vectors),
                    "numDeletionVectorRowsRemoved": sum(vector.cardinality for vector in vectors),
                }
                if vectors
                else None,
                "numTableColumns": columns,
                "numTableColumnsWithStats": min(columns, _indexed_columns(self._metadata)),
            },
        }


def _check(snapshot: Snapshot, request: OptimizeRequest) -> None:
    """Refuse what cannot be, before anything is read.

    :raises HeadwaterError: ``DELTA_OPTIMIZE_FULL_NOT_SUPPORTED``, ``HEADWATER_STATEMENT_NOT_SUPPORTED``.
    """
    clustered = clustering_columns(snapshot)
    if clustered or request.arguments.z_order_by:
        what = "OPTIMIZE of a table with clustering columns" if clustered else "OPTIMIZE … ZORDER BY"
        instead = "Another engine that writes Delta tables, such as Delta Lake for Spark, can do it meanwhile."
        raise HeadwaterError(
            "HEADWATER_STATEMENT_NOT_SUPPORTED", {"statement": what, "tableName": request.name, "instead": instead}
        )
    if request.arguments.full and not clustered:
        raise HeadwaterError("DELTA_OPTIMIZE_FULL_NOT_SUPPORTED", {"tableName": request.name})


def _indexed_columns(metadata: Metadata) -> int:
    count = int(properties.text(metadata.configuration, "delta.dataSkippingNumIndexedCols") or 32)
    return len(metadata.schema) if count < 0 else count


def _sizes(sizes: Sequence[int]) -> dict[str, Any]:
    total = sum(sizes)
    return {
        "min": min(sizes, default=None),
        "max": max(sizes, default=None),
        "avg": total / len(sizes) if sizes else 0.0,
        "totalFiles": len(sizes),
        "totalSize": total,
    }


def _metrics(copies: Sequence[Copy]) -> dict[str, int]:
    """The statement in the history."""
    sizes = sorted(output.size for copy in copies for output in copy.outputs)
    spread = {
        name: sizes[min(len(sizes) - 1, len(sizes) * quarter // 4)]
        for name, quarter in (
            ("minFileSize", 0),
            ("p25FileSize", 1),
            ("p50FileSize", 2),
            ("p75FileSize", 3),
            ("maxFileSize", 4),
        )
        if sizes
    }
    return {**metrics_of(copies), **spread}
