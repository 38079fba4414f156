"""A table's definition: its ``protocol`` and ``metaData`` actions together.

Owns :class:`TableDefinition`: one immutable value, made once for a snapshot, that answers what both actions decide and
neither says alone: which features are on, how columns are mapped, which rows have ids, what data files hold, and by
which columns they are partitioned, clustered and skipped. Follows the protocol's chapters "Table Features", "Column
Mapping", "Row Tracking", "Clustered Table" and "IcebergCompatV1" to "IcebergCompatV3".
Promise: each answer is worked out once; a property counts only where the table supports the feature that it needs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from headwater.basics.errors import HeadwaterError
from headwater.protocol import clustering, properties
from headwater.protocol.actions import DomainMetadata, Metadata, Protocol
from headwater.protocol.clustering import physical_columns
from headwater.protocol.column_metadata import PHYSICAL_NAME
from headwater.protocol.columns import Path, leaves
from headwater.protocol.features import (
    FEATURES,
    ICEBERG_COMPAT,
    MATERIALIZED_PARTITIONS,
    supported_features,
    supported_reader_features,
    supports,
)
from headwater.protocol.indexed_columns import has_bounds, indexed_leaves
from headwater.protocol.properties import Property
from headwater.protocol.row_tracking import FEATURE as ROW_TRACKING_FEATURE
from headwater.protocol.row_tracking import HiddenColumns, reserved_names
from headwater.protocol.types import DataType, StructField, StructType

T = TypeVar("T")


@dataclass(frozen=True)
class TableDefinition:
    """A table's protocol and metadata at one version.

    :param clustering_domain: the live domain that names the clustering columns; None without such a domain. Definitions
        are equal without it: it decides where rows lie, and not what a file means.
    """

    protocol: Protocol
    metadata: Metadata
    clustering_domain: DomainMetadata | None = field(default=None, kw_only=True, compare=False)

    def after(self, protocol: Protocol | None, metadata: Metadata | None) -> TableDefinition:
        """The definition after a commit with these actions, None if it has none."""
        if protocol in (None, self.protocol) and metadata in (None, self.metadata):
            return self
        return TableDefinition(
            protocol or self.protocol, metadata or self.metadata, clustering_domain=self.clustering_domain
        )

    def with_clustering(self, domain: DomainMetadata | None) -> TableDefinition:
        """The definition with this domain of clustering columns, none where it is None or removed."""
        live = None if domain is None or domain.removed else domain
        if live == self.clustering_domain:
            return self
        return TableDefinition(self.protocol, self.metadata, clustering_domain=live)

    def get(self, known: Property[T]) -> T:
        """The value of a table property, whether or not the table supports the feature that it needs.

        :raises HeadwaterError: as :meth:`Property.of`.
        """
        return known.of(self.metadata.configuration)

    def text(self, known: Property[Any]) -> str | None:
        """A table property as its text: what is set, or the default; None for neither."""
        return known.text(self.metadata.configuration)

    def sets(self, known: Property[Any]) -> bool:
        """Whether the table sets a property, to whatever value."""
        return known.name in self.metadata.configuration

    def supports(self, feature: str) -> bool:
        """Whether the table supports a feature, by its own name or that of its preview. It need not be in use."""
        return supports(self.protocol, feature)

    @property
    def schema(self) -> StructType:
        """The table's columns, with logical names.

        :raises HeadwaterError: ``DELTA_INVALID_SCHEMA``.
        """
        return self.metadata.schema

    @property
    def partition_columns(self) -> list[str]:
        """The logical names of the partition columns, in order, as the schema spells them."""
        return [column.name for column in self.partition_fields]

    @cached_property
    def partition_fields(self) -> list[StructField]:
        """The partition columns, in order. If the table maps no columns, physical names that an earlier mapping left in
        the schema do not count: the log has the values under the columns' own names.
        """
        found = (self.schema.find(name) for name in self.metadata.partition_columns)
        columns = [column for column in found if column is not None]
        return columns if self.maps_columns else [_without_physical_name(column) for column in columns]

    @cached_property
    def clustering_columns(self) -> tuple[Path, ...] | None:
        """The logical paths of the columns the table is clustered by; None if it is not clustered.

        :raises HeadwaterError: ``HEADWATER_CLUSTERING_UNREADABLE``.
        """
        if self.clustering_domain is None:
            return None
        known = {leaf.physical_path: leaf.path for leaf in leaves(self.schema) if has_bounds(leaf.type)}
        try:
            return tuple(known[path] for path in physical_columns(self.clustering_domain))
        except (ValueError, KeyError):
            raise HeadwaterError(
                "HEADWATER_CLUSTERING_UNREADABLE",
                {
                    "tableName": self.metadata.name or self.metadata.id,
                    "domain": clustering.DOMAIN,
                    "configuration": self.clustering_domain.configuration,
                },
            ) from None

    @cached_property
    def features(self) -> frozenset[str]:
        """All features that the table supports, listed or implied by its versions."""
        return supported_features(self.protocol)

    @cached_property
    def mapping_mode(self) -> str:
        """How data files name columns: ``none``, ``name`` or ``id``; ``none`` if the table does not support column
        mapping.

        :raises HeadwaterError: ``DELTA_INVALID_PROPERTY_VALUE`` for another mode.
        """
        mode = self.get(properties.COLUMN_MAPPING_MODE)
        return mode if "columnMapping" in supported_reader_features(self.protocol) else "none"

    @property
    def maps_columns(self) -> bool:
        """Whether data files have other names, or ids, for columns."""
        return self.mapping_mode != "none"

    @cached_property
    def indexed_leaves(self) -> list[tuple[Path, DataType]]:
        """The leaves with per-file statistics: physical path and type, in schema order."""
        return indexed_leaves(self.schema, self.partition_columns, self.metadata.configuration)

    @cached_property
    def iceberg_compat(self) -> tuple[int, ...]:
        """The versions of Iceberg compatibility that are active: supported and enabled. More than one is an error."""
        return tuple(
            version
            for version, feature in ICEBERG_COMPAT.items()
            if self.supports(feature) and FEATURES[feature].is_used_by(self.metadata.configuration)
        )

    @cached_property
    def has_partition_columns_in_files(self) -> bool:
        """Whether data files also have the partition columns.

        The feature asks for it wherever it is supported, and Iceberg compatibility where it is active, whatever the
        property ``delta.writePartitionColumnsToParquet`` says; without them, the property decides.
        """
        if self.supports(MATERIALIZED_PARTITIONS) or self.iceberg_compat:
            return True
        return self.get(properties.PARTITION_COLUMNS_IN_FILES)

    @property
    def has_in_commit_timestamps(self) -> bool:
        """Whether each commit of the table holds its own timestamp."""
        return self.get(properties.IN_COMMIT_TIMESTAMPS)

    @cached_property
    def assigns_row_ids(self) -> bool:
        """Whether each commit gives row ids to the files it adds."""
        return self.supports(ROW_TRACKING_FEATURE) and not self.get(properties.ROW_TRACKING_SUSPENDED)

    @cached_property
    def tracks_rows(self) -> bool:
        """Whether every row has a stable row id and a row commit version."""
        return self.supports(ROW_TRACKING_FEATURE) and self.get(properties.ROW_TRACKING)

    @cached_property
    def hidden_columns(self) -> HiddenColumns | None:
        """The columns that data files may have row ids and row commit versions in; None unless row tracking is
        enabled.

        :raises HeadwaterError: ``DELTA_MATERIALIZED_ROW_TRACKING_COLUMN_NAME_MISSING``.
        """
        if not self.tracks_rows:
            return None
        row_id, row_commit_version = reserved_names(self.metadata.configuration)
        if row_id is None or row_commit_version is None:
            missing = properties.ROW_ID_COLUMN if row_id is None else properties.ROW_COMMIT_VERSION_COLUMN
            raise HeadwaterError(
                "DELTA_MATERIALIZED_ROW_TRACKING_COLUMN_NAME_MISSING",
                {"tableName": self.metadata.id, "property": missing.name},
            )
        return HiddenColumns(row_id, row_commit_version)


def _without_physical_name(column: StructField) -> StructField:
    if PHYSICAL_NAME not in column.metadata:
        return column
    return replace(column, metadata={key: value for key, value in column.metadata.items() if key != PHYSICAL_NAME})
