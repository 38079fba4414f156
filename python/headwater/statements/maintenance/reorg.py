"""REORG … APPLY (PURGE): removes deleted rows and dropped columns from the files.

Owns which files are written again: those with deleted rows, by the log, and those with columns that were dropped, by
their footers, since the log does not know. The rest is a run of OPTIMIZE, with its batches, its answer and its way with
other writers. Promises: after it, no live file that was there when it began has a deletion vector or a column that the
table has not, however few such files there are; files of a clustered table stay in their cubes. VACUUM deletes the
old files.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.bridge.messages.define import CommitAnswer
from headwater.bridge.messages.maintain import OptimizeArguments, OptimizeRequest, ReorgRequest
from headwater.bridge.statement import Statement
from headwater.log.snapshot import Snapshot
from headwater.statements.calls import own_statement
from headwater.statements.files.bins import pack_where_they_lie
from headwater.statements.maintenance.budget import UNLIMITED, Budget
from headwater.statements.maintenance.file_rewrites import DroppedColumns
from headwater.statements.maintenance.layouts import Choice, Compaction, Layout, Settings
from headwater.statements.maintenance.optimize import OPTIMIZE_SCHEMA, Run
from headwater.statements.maintenance.partition_conditions import files_in_partitions


@own_statement("reorg", output=OPTIMIZE_SCHEMA, commits=True, in_transaction=False, words="REORG")
def reorg(request: ReorgRequest, statement: Statement) -> CommitAnswer:
    """Purge a table's files; one row of :data:`headwater.statements.maintenance.optimize.OPTIMIZE_SCHEMA`.

    :raises HeadwaterError: ``DELTA_NON_PARTITION_COLUMN_REFERENCE``, those of opening a table, of a footer, of a copy,
        and of a commit.
    """
    arguments = OptimizeArguments(where=request.arguments.where)
    work = OptimizeRequest(table=request.table, name=request.name, arguments=arguments)
    return Purge(work, statement).to_the_end()


class Purge(Run):
    """One run of REORG … APPLY (PURGE)."""

    operation = "REORG"

    def __init__(self, request: OptimizeRequest, statement: Statement, budget: Budget = UNLIMITED) -> None:
        self._dropped = DroppedColumns()
        super().__init__(request, statement, budget)

    def layout(self, snapshot: Snapshot) -> Layout:
        """Every table can be purged."""
        return Compaction(Settings.of(self._statement, snapshot.definition))

    def choose(self, snapshot: Snapshot, among: pa.Array | None) -> Choice:
        """The files with deleted rows or dropped columns."""
        asked = files_in_partitions(snapshot, self._statement, self._request.arguments.where, self._request.name)
        considered = pc.sum(asked).as_py() or 0
        light = snapshot.select(["path", "size", "modification_time", "partition_values", "deletion_vector"])
        if among is not None:
            asked = pc.and_(asked, pc.is_in(light["path"], value_set=among))
        marked = pc.and_(asked, pc.is_valid(light["deletion_vector"])).combine_chunks()
        self._statement.step("look for dropped columns")
        self._statement.check_cancelled()
        dropped = self._dropped.among(snapshot, pc.and_not(asked, marked))
        wanted = pc.or_(marked, dropped)
        light = light.filter(wanted)
        sizes = light["size"].to_pylist()
        is_clustered = snapshot.clustering_columns is not None
        bins = pack_where_they_lie(light, self._layout.settings.max_file_size, is_clustered=is_clustered)
        return Choice(snapshot.files.filter(wanted), bins, considered, ["it is purged"] * len(sizes), sizes)

    def parameters(self) -> dict[str, Any]:
        """As the history of Delta Lake's own connector has them."""
        return {"predicate": super().parameters()["predicate"], "applyPurge": True}
