"""ALTER TABLE … CLUSTER BY: the columns that new files and OPTIMIZE use from now on.

Owns the change of the draft and what the history shows of it. CLUSTER BY NONE leaves the metadata domain
(:mod:`headwater.schema.clustering`) with an empty list, as other writers of the format do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.define import ClusterBy
from headwater.definition.changes import changed
from headwater.protocol.clustering import FEATURES
from headwater.protocol.columns import format_name
from headwater.schema.clustering import check_clustering_columns, clustered_by
from headwater.statements.tables.draft import Draft, Operation


def cluster_by(changes: Sequence[ClusterBy], draft: Draft) -> Operation:
    """ALTER TABLE … CLUSTER BY: the columns that new files and OPTIMIZE use from now on; NONE for no clustering. A
    table that is clustered has no partitions any more.

    :raises HeadwaterError: those of :func:`check_clustering_columns`.
    """
    columns = tuple(tuple(path) for path in changes[-1].columns)
    old, is_damaged = None, True
    with contextlib.suppress(HeadwaterError):  # what cannot be read is replaced
        old, is_damaged = draft.snapshot.clustering_columns, False
    partitioned_by = draft.metadata.partition_columns
    if columns:
        check_clustering_columns(draft.schema, (), draft.metadata.configuration, columns)
        draft.definition = changed(draft.definition, partition_columns=())
    shown = {
        **({"oldPartitionColumns": ",".join(partitioned_by)} if columns and partitioned_by else {}),
        "oldClusteringColumns": ",".join(map(format_name, old or ())),
        "newClusteringColumns": ",".join(map(format_name, columns)),
    }
    if is_damaged or (columns != old and (columns or old is not None)):
        draft.require_features(FEATURES)
        draft.domains.append(clustered_by(draft.schema, columns))
    return Operation("CLUSTER BY", shown)
