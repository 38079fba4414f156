"""Auto-compaction: small files of commits are compacted after the commits.

Owns the work that the JVM calls for in the background, after a commit was found to be due
(:mod:`headwater.statements.running.small_files`). Promises: only small files of partitions that were written are taken;
the commit and its conflicts are those of OPTIMIZE, and no statement waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.bridge.messages.maintain import AutoCompactRequest, OptimizeArguments, OptimizeRequest
from headwater.bridge.statement import Statement
from headwater.log.snapshot import Snapshot
from headwater.statements.calls import call
from headwater.statements.files.bins import pack
from headwater.statements.maintenance import key_indexes
from headwater.statements.maintenance.layouts import Choice, Compaction, Layout, Settings
from headwater.statements.maintenance.optimize import Run
from headwater.statements.running.opening import open_snapshot
from headwater.statements.running.small_files import Limits, Partition, of_partitions, take_due


@call(commits=True, in_transaction=False, words="OPTIMIZE")
def auto_compact(request: AutoCompactRequest, statement: Statement) -> bool:
    """Compact the partitions of a table that wait for it, then build what its indexes miss; whether there were any.

    :raises HeadwaterError: those of OPTIMIZE.
    """
    partitions = take_due(request.table)
    if partitions:
        work = OptimizeRequest(table=request.table, name=request.table, arguments=OptimizeArguments())
        _AutoCompaction(work, statement, partitions).to_the_end()
    key_indexes.build_recent(statement, open_snapshot(request.table, statement))
    return bool(partitions)


class _AutoCompaction(Run):
    """One run over the partitions that are due."""

    def __init__(
        self,
        request: OptimizeRequest,
        statement: Statement,
        partitions: Mapping[str, set[Partition]],
    ) -> None:
        self._partitions_due = partitions
        super().__init__(request, statement)

    def layout(self, snapshot: Snapshot) -> Layout:
        """What cannot be compacted is not due."""
        settings, limits = Settings.of(self._statement, snapshot.definition), self._limits(snapshot)
        return Compaction(settings._replace(min_file_size=limits.min_size, max_file_size=limits.max_size))

    def _limits(self, snapshot: Snapshot) -> Limits:
        return Limits.of(self._statement, snapshot.definition)

    def choose(self, snapshot: Snapshot, among: pa.Array | None) -> Choice:
        """The small files of the partitions that are due; once begun, also where few are left."""
        limits = self._limits(snapshot) if among is None else self._limits(snapshot)._replace(min_files=2)
        wanted = pa.array(np.zeros(snapshot.num_files, bool))
        # Another table may have come to the path since.
        for mask in of_partitions(snapshot, limits, self._partitions_due.get(snapshot.metadata.id, ())):
            wanted = pc.or_(wanted, mask)
        light = snapshot.select(["path", "size", "modification_time", "partition_values"])
        if among is not None:
            wanted = pc.and_(wanted, pc.is_in(light["path"], value_set=among).combine_chunks())
        light = light.filter(wanted)
        bins = [each for each in pack(light, limits.max_size) if len(each.positions) > 1]
        reasons = ["it is small"] * light.num_rows
        return Choice(snapshot.files.filter(wanted), bins, light.num_rows, reasons, light["size"].to_pylist())

    def parameters(self) -> dict[str, Any]:
        """As the history of Delta Lake's own connector has them."""
        return {**super().parameters(), "auto": True}
