"""Optimized writes: rows are gathered before they are written, so that each table partition gets a few large files.

Owns who asks for it, the first that says something: the option ``optimizeWrite``, the session's setting, the table
property ``delta.autoOptimize.optimizeWrite``. Owns the sizes: the session's setting, or ``delta.targetFileSize`` as
bytes of shuffle, which Parquet stores in fewer. Spark's own shuffle and adaptive execution do the work:
the rows of a table partition come to one task, or to as many as their bytes ask for. Where the query sorts its rows
last, they are shuffled once and not twice (``ShuffleOnce``). Promises: which rows are written does not depend on it;
rows that lie together in a table without partitions stay together.

The query of the write has the hint ``OPTIMIZED_WRITE`` below its conditions; ``PlanOptimizedWrite`` plans it as Spark's
own shuffle by the partition columns, marked so that adaptive execution cuts what is larger than a bin and joins what is
smaller. A table without partitions has one key for all rows: Spark then cuts between the tasks that they come from, so
files of sorted rows skip as before. A small job has no adaptive execution and one shuffle partition. Rows known to come
from one task are not shuffled.

DELETE, UPDATE and MERGE gather what their rewrite writes, and overwrites the rows that they copy. In a rewrite, the
shuffle lies below the conditions and below the level that makes change data of a row, so that both images of an update
lie side by side, and above the one that numbers identity values in one task. Rows marked as deleted by vectors are
written by no job, and not shuffled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headwater.bridge.statement import Statement
from headwater.protocol import properties
from headwater.protocol.columns import quote
from headwater.protocol.table_definition import TableDefinition
from headwater.sql.composing import STAR, Query, Rows, select
from headwater.statements.running.opening import Options
from headwater.statements.settings import OPTIMIZE_WRITE, OPTIMIZE_WRITE_BIN_SIZE, OPTIMIZE_WRITE_PARTITIONS, file_size

#: Spark's settings of the job: adaptive execution is what splits and joins shuffle partitions.
SETTINGS = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
    "spark.sql.adaptive.optimizeSkewsInRebalancePartitions.enabled": "true",
}


class Gathering(NamedTuple):
    """How rows are gathered: ``bytes`` of shuffle for each file, at most ``partitions`` shuffle partitions."""

    bytes: int
    partitions: int

    def of(self, rows: Rows, partition_columns: Sequence[str]) -> Query:
        """The same rows, gathered by partition columns that they have."""
        # The hint is our own: ``PlanOptimizedWrite`` plans it.
        arguments = [str(self.partitions), str(self.bytes), *(quote((name,)) for name in partition_columns)]
        return select(STAR, rows=rows, hint=f"OPTIMIZED_WRITE({', '.join(arguments)})")


def gathering(statement: Statement, definition: TableDefinition, options: Options) -> Gathering | None:
    """How the rows of a write are gathered; None where nobody asks for it.

    :raises HeadwaterError: ``DELTA_ILLEGAL_OPTION``.
    """
    asked = options.flag("optimizeWrite")
    if asked is None:
        asked = OPTIMIZE_WRITE.of(statement)
    if asked is None:
        asked = definition.get(properties.OPTIMIZE_WRITE)
    if not asked:
        return None
    partitions = OPTIMIZE_WRITE_PARTITIONS.of(statement)
    return Gathering(file_size(OPTIMIZE_WRITE_BIN_SIZE, statement, definition), max(2, partitions))
