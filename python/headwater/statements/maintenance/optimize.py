"""OPTIMIZE: rewrites files of a table in a better layout (:mod:`headwater.statements.maintenance.layouts`).

Owns the run: batches of files, the commits that replace them, and the answer. Follows the documented behaviour of the
statement in Delta: no row changes, so no reader of changes sees it, and an append-only table may be compacted.
Promises: a long run commits batch by batch and keeps what it has done; it never takes a file that was not there when
it began; a DELETE, UPDATE or MERGE at the same time neither fails nor makes it fail where deletion vectors are enabled
(:mod:`headwater.transaction.moved_rows`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from headwater.basics import clock
from headwater.bridge.messages.define import CommitAnswer, RowsAnswer
from headwater.bridge.messages.maintain import OptimizeDryRunRequest, OptimizeRequest
from headwater.bridge.statement import Statement
from headwater.catalogs.interface import Maintenance
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.actions import AddFile, RemoveFile
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import ArrayType, MapType, PrimitiveType, StructType
from headwater.statements.calls import own_statement
from headwater.statements.files.bins import Bin, batches
from headwater.statements.files.rows import Target
from headwater.statements.maintenance.budget import UNLIMITED, Budget
from headwater.statements.maintenance.file_rewrites import metrics_of
from headwater.statements.maintenance.layouts import Choice, Layout, layout_of
from headwater.statements.maintenance.partition_conditions import files_in_partitions
from headwater.statements.running.committing import check_target, commit, transaction
from headwater.statements.running.managed_tables import check_allowed
from headwater.statements.running.opening import open_snapshot
from headwater.statements.running.rerunning import run_again_after_losses
from headwater.transaction.commit_info import Provenance
from headwater.transaction.moved_rows import Copy

_LOG = logging.getLogger(__name__)

_STRING, _LONG = PrimitiveType("string"), PrimitiveType("long")


_SIZES = StructType.of(min=_LONG, max=_LONG, avg=PrimitiveType("double"), totalFiles=_LONG, totalSize=_LONG)
_FILES = StructType.of(num=_LONG, size=_LONG)
_CUBE_FILES = StructType.of(numFiles=_LONG, size=_LONG)
#: The answer of OPTIMIZE, as Delta Lake's own connector has it. What only clustering and auto-compaction fill is null.
OPTIMIZE_SCHEMA = StructType.of(
    path=_STRING,
    metrics=StructType.of(
        numFilesAdded=_LONG,
        numFilesRemoved=_LONG,
        filesAdded=_SIZES,
        filesRemoved=_SIZES,
        partitionsOptimized=_LONG,
        zOrderStats=StructType.of(
            strategyName=_STRING,
            inputCubeFiles=_FILES,
            inputOtherFiles=_FILES,
            inputNumCubes=_LONG,
            mergedFiles=_FILES,
            numOutputCubes=_LONG,
            mergedNumCubes=_LONG,
        ),
        clusteringStats=StructType.of(
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
        autoCompactParallelismStats=StructType.of(
            maxClusterActiveParallelism=_LONG,
            minClusterActiveParallelism=_LONG,
            maxSessionActiveParallelism=_LONG,
            minSessionActiveParallelism=_LONG,
        ),
        deletionVectorStats=StructType.of(numDeletionVectorsRemoved=_LONG, numDeletionVectorRowsRemoved=_LONG),
        numTableColumns=_LONG,
        numTableColumnsWithStats=_LONG,
    ),
)
DRY_RUN_SCHEMA = StructType.of(
    partition=MapType(_STRING, _STRING),
    numFiles=_LONG,
    bytes=_LONG,
    files=ArrayType(StructType.of(path=_STRING, bytes=_LONG, reason=_STRING)),
    expectedBytes=_LONG,
    expectedFiles=_LONG,
)


@own_statement("optimize", output=OPTIMIZE_SCHEMA, commits=True, in_transaction=False, words="OPTIMIZE")
def optimize(request: OptimizeRequest, statement: Statement) -> CommitAnswer:
    """Bring a table's files into its layout; one row of :data:`OPTIMIZE_SCHEMA`.

    :raises HeadwaterError: ``DELTA_NON_PARTITION_COLUMN_REFERENCE``, those of
        :func:`~headwater.statements.maintenance.layouts.layout_of`, of opening a table, of a copy, and of a commit.
    """
    return Run(request, statement).to_the_end()


@own_statement("optimize", output=DRY_RUN_SCHEMA, commits=False, in_transaction=False, words="OPTIMIZE")
def optimize_dry_run(request: OptimizeDryRunRequest, statement: Statement) -> RowsAnswer:
    """What :func:`optimize` would do; a row of :data:`DRY_RUN_SCHEMA` for each group of files that it
    would write together.
    """
    snapshot = open_snapshot(request.table, statement)
    check_allowed(snapshot, Maintenance.DATA_REORGANIZATION, "OPTIMIZE", request.name)
    layout = layout_of(request, statement, snapshot)
    asked = files_in_partitions(snapshot, statement, request.arguments.where, request.name)
    chosen = layout.choose(snapshot, asked)
    paths, sizes = chosen.files["path"].to_pylist(), chosen.files["size"].to_pylist()
    values = chosen.files["partition_values"].to_pylist()
    return RowsAnswer(
        rows=[
            {
                "partition": dict(values[each.positions[0]] or ()),
                "numFiles": len(each.positions),
                "bytes": each.size,
                "files": [
                    {"path": paths[position], "bytes": sizes[position], "reason": chosen.reasons[position]}
                    for position in each.positions
                ],
                "expectedBytes": chosen.live_bytes(each),
                "expectedFiles": layout.num_outputs(each.size),
            }
            for each in chosen.bins
        ]
    )


class Run:
    """One run over a table, batch by batch: of OPTIMIZE, or of a statement that chooses other files."""

    operation = "OPTIMIZE"

    def __init__(self, request: OptimizeRequest, statement: Statement, budget: Budget = UNLIMITED) -> None:
        self._request, self._statement, self._budget = request, statement, budget
        #: What the budget left undone: bytes of the batch that did not begin; 0 if all was done.
        self.cut_at = 0
        self._began = clock.milliseconds()
        snapshot = open_snapshot(request.table, statement)
        check_allowed(snapshot, Maintenance.DATA_REORGANIZATION, self.operation, request.name)
        check_target(request.table, statement, snapshot)
        self._layout = self.layout(snapshot)
        first = self.choose(snapshot, None)
        #: What the first batch is taken of.
        self._begun: tuple[Snapshot, Choice] | None = (snapshot, first)
        #: Only these files are chosen, however many come while the statement runs.
        self._among = first.files["path"].combine_chunks()
        self._considered, self._found = first.considered, first.input
        self._path = snapshot.table_path
        self._definition = snapshot.definition
        self._sources: list[RemoveFile] = []
        self._outputs: list[AddFile] = []
        self._batches = 0
        self._batches_planned = len(list(batches(first.bins, self._layout.settings.batch_size)))
        self._partitions: set[tuple[tuple[str, str | None], ...]] = set()
        self._bins = self._cubes = 0
        self.version = snapshot.version

    def layout(self, snapshot: Snapshot) -> Layout:
        """The layout to bring the files into.

        :raises HeadwaterError: if there is none.
        """
        return layout_of(self._request, self._statement, snapshot)

    def choose(self, snapshot: Snapshot, among: pa.Array | None) -> Choice:
        """The files to write again; ``among`` has the paths of those that may be chosen, None for all."""
        where = self._request.arguments.where
        asked = files_in_partitions(snapshot, self._statement, where, self._request.name)
        return self._layout.choose(snapshot, asked, among)

    def parameters(self) -> dict[str, Any]:
        """The statement's parameters in the history."""
        where = self._request.arguments.where
        return {"predicate": [] if where is None else [where], **self._layout.parameters(), "auto": False}

    def to_the_end(self) -> CommitAnswer:
        """Write batch by batch until nothing is left to do."""
        table, statement = self._request.table, self._statement
        while run_again_after_losses(
            table, statement, self.next_batch, waits_for_others=False, discards=False, within=self._budget.left
        ):
            statement.check_cancelled()
        return CommitAnswer(version=self.version, rows=[self.answer()])

    def next_batch(self) -> bool:
        """Write one batch again; False if nothing is left to do."""
        request, statement = self._request, self._statement
        snapshot, choice = self._chosen()
        most = self._budget.batch_bytes(self._path, self._layout.settings.batch_size)
        batch = next(batches(choice.bins, most), None)
        if batch is None:
            return False
        size, began = sum(each.size for each in batch), time.monotonic()
        if not self._budget.allows_rewrite(self._path, size):
            self.cut_at = size
            return False
        txn = transaction(request.table, statement, snapshot)
        self._show(choice, batch)
        target = Target(snapshot.table_path, txn.definition)
        copies = self._layout.write(statement, snapshot, choice.files, batch, target)
        txn.move(copies)
        done = commit(txn, statement, Provenance(self.operation, self.parameters(), _metrics(copies)), is_last=False)
        self._note(done.version, copies, txn.moved)
        txn.delete_given_up()
        self._budget.note_rewrite(self._path, size, time.monotonic() - began)
        return True

    def _chosen(self) -> tuple[Snapshot, Choice]:
        """A version, and the files of it to write again: the version that the run began with, then the newest."""
        if self._begun is not None:
            begun, self._begun = self._begun, None
            return begun
        snapshot = open_snapshot(self._request.table, self._statement)
        # The table may be clustered by other columns since.
        self._layout = self.layout(snapshot)
        return snapshot, self.choose(snapshot, self._among)

    def _show(self, choice: Choice, batch: Sequence[Bin]) -> None:
        """Say what comes, in Spark's UI and in the log."""
        files, size = sum(len(each.positions) for each in batch), sum(each.size for each in batch)
        first = dict(choice.files["partition_values"][batch[0].positions[0]].as_py() or ())
        where = f", from partition {', '.join(f'{k}={v}' for k, v in first.items())} on" if first else ""
        outputs = sum(self._layout.num_outputs(each.size) for each in batch)
        text = f"{self._layout.verb} {files} files of {size} bytes into {outputs}{where}"
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
            self._cubes += bool(copy.outputs)
            self._partitions.add(tuple(sorted((copy.sources[0].partition_values or {}).items())))

    def answer(self) -> dict[str, Any]:
        """The row of :data:`OPTIMIZE_SCHEMA`."""
        vectors = [source.deletion_vector for source in self._sources if source.deletion_vector is not None]
        columns = len(self._definition.schema)
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
                "totalConsideredFiles": self._considered,
                "totalFilesSkipped": self._considered - len(self._sources),
                "preserveInsertionOrder": self._layout.keeps_order,
                "numFilesSkippedToReduceWriteAmplification": 0,
                "numBytesSkippedToReduceWriteAmplification": 0,
                "startTimeMs": self._began,
                "endTimeMs": clock.milliseconds(),
                "totalClusterParallelism": 0,
                "totalScheduledTasks": self._bins,
                "deletionVectorStats": {
                    "numDeletionVectorsRemoved": len(vectors),
                    "numDeletionVectorRowsRemoved": sum(vector.cardinality for vector in vectors),
                }
                if vectors
                else None,
                "numTableColumns": columns,
                "numTableColumnsWithStats": _columns_with_statistics(self._definition),
                **self._layout.statistics(self._found, self._sources, self._cubes),
            },
        }


def _columns_with_statistics(definition: TableDefinition) -> int:
    """How many of the table's columns have statistics. Where no property names them, all up to the limit count, as in
    Delta Lake's own connector."""
    if properties.INDEXED_COLUMNS.name in definition.metadata.configuration:
        return len({path[0] for path, _ in definition.indexed_leaves})
    limit = definition.get(properties.INDEXED_COLUMNS_LIMIT)
    columns = len(definition.schema)
    return columns if limit < 0 else min(columns, limit)


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
