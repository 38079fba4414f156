"""Clustering columns (CLUSTER BY): where the log keeps them, and which columns they may be.

Owns the metadata domain ``delta.clustering``. Follows the protocol's chapter "Clustered Table": the domain has the
columns' physical names, users see logical ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from headwater.errors import HeadwaterError
from headwater.protocol.actions import DomainMetadata, Metadata
from headwater.protocol.columns import Path, find_path, format_name
from headwater.protocol.indexed_columns import has_bounds, indexed_leaves
from headwater.protocol.properties import FEATURE_PREFIX
from headwater.protocol.types import StructType
from headwater.schema import mapping

DOMAIN = "delta.clustering"
#: The features a clustered table's protocol must have.
FEATURES = ("clustering", "domainMetadata")
#: The property that asks for the feature, in lower case: of no use without columns.
FEATURE_PROPERTY = f"{FEATURE_PREFIX}clustering"
#: The most columns that a table may be clustered by; the limit of the format's other writers.
MOST_COLUMNS = 4


class _Domain(msgspec.Struct, rename="camel"):
    clustering_columns: list[list[str]] = []


class Clustered(Protocol):
    """A version of a table, as far as its clustering goes: a snapshot."""

    @property
    def table_path(self) -> str: ...

    @property
    def metadata(self) -> Metadata: ...

    @property
    def schema(self) -> StructType: ...

    @property
    def domain_metadata(self) -> Mapping[str, DomainMetadata]: ...


_PARSED = msgspec.json.Decoder(_Domain)


def clustering_columns(snapshot: Clustered) -> list[Path] | None:
    """The logical paths of the columns a table is clustered by; None where it is not clustered.

    :raises HeadwaterError: ``HEADWATER_CLUSTERING_UNREADABLE``.
    """
    domain = snapshot.domain_metadata.get(DOMAIN)
    if domain is None:
        return None
    try:
        physical = _PARSED.decode(domain.configuration).clustering_columns
    except msgspec.MsgspecError:
        raise _unreadable(snapshot, domain) from None
    columns: list[Path] = []
    for path in physical:
        logical = mapping.logical_path(snapshot.schema, path)
        field = None if logical is None else find_path(snapshot.schema, logical)
        if logical is None or field is None or not has_bounds(field.type):
            raise _unreadable(snapshot, domain)
        columns.append(logical)
    return columns


def _unreadable(snapshot: Clustered, domain: DomainMetadata) -> HeadwaterError:
    name = snapshot.metadata.name or snapshot.table_path
    return HeadwaterError(
        "HEADWATER_CLUSTERING_UNREADABLE",
        {"tableName": name, "domain": DOMAIN, "configuration": domain.configuration},
    )


def clustering_change(
    schema: StructType, columns: Sequence[Path] | None, replaced: Clustered | None
) -> DomainMetadata | None:
    """The action that makes a table clustered by ``columns`` (logical paths), or no longer clustered; None where
    nothing need be said.
    """
    if columns is not None:
        physical = [list(mapping.physical_path(schema, path)) for path in columns]
        return DomainMetadata(DOMAIN, json.dumps({"clusteringColumns": physical, "domainName": DOMAIN}))
    old = replaced.domain_metadata.get(DOMAIN) if replaced is not None else None
    return None if old is None else DomainMetadata(DOMAIN, old.configuration, removed=True)


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
