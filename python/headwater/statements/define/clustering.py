"""Clustering columns (CLUSTER BY): where the log keeps them.

Owns the metadata domain ``delta.clustering``. Follows the protocol's chapter "Clustered Table": the domain has the
columns' physical names, users see logical ones. Promise: a table that is not clustered has no live domain.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from headwater.log.snapshot import Snapshot
from headwater.protocol.actions import DomainMetadata
from headwater.protocol.columns import Path
from headwater.protocol.types import StructType
from headwater.schema import mapping

DOMAIN = "delta.clustering"
#: The features a clustered table's protocol must have.
FEATURES = ("clustering", "domainMetadata")


def clustering_columns(snapshot: Snapshot) -> list[Path] | None:
    """The logical paths of the columns a table is clustered by; None where it is not clustered."""
    domain = snapshot.domain_metadata.get(DOMAIN)
    if domain is None:
        return None
    physical = json.loads(domain.configuration).get("clusteringColumns", [])
    return [mapping.logical_path(snapshot.schema, path) or tuple(path) for path in physical]


def clustering_change(
    schema: StructType, columns: Sequence[Path] | None, replaced: Snapshot | None
) -> DomainMetadata | None:
    """The action that makes a table clustered by ``columns`` (logical paths), or no longer clustered; None where
    nothing need be said.
    """
    if columns is not None:
        physical = [list(mapping.physical_path(schema, path)) for path in columns]
        return DomainMetadata(DOMAIN, json.dumps({"clusteringColumns": physical, "domainName": DOMAIN}))
    old = replaced.domain_metadata.get(DOMAIN) if replaced is not None else None
    return None if old is None else DomainMetadata(DOMAIN, old.configuration, removed=True)
