"""Clustering columns (CLUSTER BY): which columns they may be, and the action that makes a table clustered.

Owns the checks, by logical names, as users see them; what the log says is :mod:`headwater.protocol.clustering`'s.
Follows the protocol's chapter "Clustered Table".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headwater.basics.errors import HeadwaterError
from headwater.protocol.actions import DomainMetadata
from headwater.protocol.clustering import clustering_domain
from headwater.protocol.columns import Path, find_path, format_name
from headwater.protocol.indexed_columns import has_bounds, indexed_leaves
from headwater.protocol.properties import FEATURE_PREFIX
from headwater.protocol.types import StructType
from headwater.schema import mapping

#: The property that asks for the feature, in lower case: of no use without columns.
FEATURE_PROPERTY = f"{FEATURE_PREFIX}clustering"
#: The most columns that a table may be clustered by; the limit of the format's other writers.
MOST_COLUMNS = 4


def clustered_by(schema: StructType, columns: Iterable[Path]) -> DomainMetadata:
    """The action that makes a table clustered by ``columns`` (logical paths)."""
    return clustering_domain(mapping.physical_path(schema, path) for path in columns)


def check_clustering_columns(
    schema: StructType, partition_columns: Sequence[str], configuration: Mapping[str, str], columns: Sequence[Path]
) -> None:
    """Refuse columns that a table cannot be clustered by.

    :param columns: logical paths.
    :raises HeadwaterError: ``DELTA_CLUSTER_BY_WITH_PARTITIONED_BY``, ``DELTA_CLUSTER_BY_INVALID_NUM_COLUMNS``,
        ``DELTA_DUPLICATE_COLUMNS_FOUND``,
        ``DELTA_COLUMN_NOT_FOUND_IN_SCHEMA``, ``DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED``,
        ``DELTA_CLUSTERING_COLUMN_MISSING_STATS``.
    """
    if partition_columns:
        raise HeadwaterError("DELTA_CLUSTER_BY_WITH_PARTITIONED_BY", {"partitionColumns": ", ".join(partition_columns)})
    if len(columns) > MOST_COLUMNS:
        raise HeadwaterError(
            "DELTA_CLUSTER_BY_INVALID_NUM_COLUMNS", {"numColumnsLimit": MOST_COLUMNS, "actualNumColumns": len(columns)}
        )
    folded = [tuple(name.lower() for name in path) for path in columns]
    twice = [format_name(path) for number, path in enumerate(columns) if folded[number] in folded[:number]]
    if twice:
        raise HeadwaterError("DELTA_DUPLICATE_COLUMNS_FOUND.CLUSTER_BY", {"columns": ", ".join(twice)})
    indexed = {path for path, _ in indexed_leaves(schema, partition_columns, configuration)}
    unsorted, unindexed = [], []
    for path in columns:
        field = find_path(schema, path)
        if field is None:
            raise HeadwaterError(
                "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA", {"columnName": format_name(path), "schema": schema.sql()}
            )
        if not has_bounds(field.type):
            unsorted.append(f"{format_name(path)} {field.type.sql()}")
        elif mapping.physical_path(schema, path) not in indexed:
            unindexed.append(format_name(path))
    if unsorted:
        raise HeadwaterError(
            "DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED", {"columnsWithDataTypes": ", ".join(unsorted)}
        )
    if unindexed:
        raise HeadwaterError("DELTA_CLUSTERING_COLUMN_MISSING_STATS", {"columns": ", ".join(unindexed)})
