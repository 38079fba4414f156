"""ALTER TABLE … CLUSTER BY (…) of a partitioned table: makes it a clustered table without partitions.

Owns the change of a table's partitioning. Files need not have the values of partition columns, which are in the log, so
all rows are written into new files, which have them, along the curve of the clustering columns. Follows the protocol's
chapter "Clustered Table", by which a table has partitions or clustering columns, not both. Promises: one commit, with
the new definition and the new files; no row changes, and rows keep their ids; older versions stay as they are; what
another writer commits meanwhile is taken along, or the statement runs again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from headwater.bridge.messages.define import ClusterBy
from headwater.bridge.statement import Statement
from headwater.log.snapshot import Snapshot
from headwater.protocol.columns import Path
from headwater.statements.files.bins import next_fit
from headwater.statements.files.rows import Target
from headwater.statements.maintenance.file_rewrites import KeptCopies, metrics_of
from headwater.statements.maintenance.layouts import Settings, clustering_by
from headwater.statements.running.committing import removals
from headwater.statements.tables.clustering import cluster_by
from headwater.statements.tables.draft import Alteration, Draft, Operation
from headwater.transaction.moved_rows import Copy


def to_clustered(changes: Sequence[ClusterBy]) -> Alteration:
    """CLUSTER BY columns, of a table with or without partitions. What an attempt has copied counts for the next.

    :raises HeadwaterError: as :func:`~headwater.statements.tables.clustering.cluster_by`; those of a copy; and
        ``DELTA_ICEBERG_COMPAT_VIOLATION`` where Iceberg's readers need the partitions.
    """
    copies = KeptCopies(_along_the_curve([tuple(path) for path in changes[-1].columns]))

    def apply(draft: Draft) -> Operation:
        snapshot = draft.snapshot
        done = cluster_by(changes, draft)
        if draft.metadata.partition_columns == snapshot.metadata.partition_columns:
            return done
        files = snapshot.files
        target = Target(snapshot.table_path, draft.definition)
        draft.statement.step(f"cluster {files.num_rows} files of {snapshot.size_in_bytes} bytes")
        made = copies.of(draft.statement, snapshot, files, target)
        draft.reads_rows = True
        # Not as moved rows: another writer's marks cannot follow them to a definition that it does not know.
        draft.more_actions += removals(files, data_change=False)
        draft.more_actions += [output for copy in made for output in copy.outputs]
        draft.metrics = metrics_of(made)
        return done

    return apply


def _along_the_curve(columns: Sequence[Path]) -> Callable[[Statement, Snapshot, pa.Table, Target], list[Copy]]:
    def copied(statement: Statement, snapshot: Snapshot, files: pa.Table, target: Target) -> list[Copy]:
        settings = Settings.of(statement, snapshot.definition)
        layout = clustering_by(target.schema, columns, settings)
        bins = list(next_fit(range(files.num_rows), files["size"].to_pylist(), settings.largest_cube))
        return layout.write(statement, snapshot, files, bins, target)

    return copied
