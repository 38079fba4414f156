"""Clustering columns, as a table's metadata domain has them.

Owns the metadata domain ``delta.clustering``: its name, the features it needs, and its form. Follows the protocol's
chapter "Clustered Table": the domain has the columns' physical names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import msgspec

from headwater.protocol.actions import DomainMetadata
from headwater.protocol.columns import Path

DOMAIN = "delta.clustering"
#: The features a clustered table's protocol must have.
FEATURES = ("clustering", "domainMetadata")


class _Domain(msgspec.Struct, rename="camel"):
    clustering_columns: list[list[str]] = []


_PARSED = msgspec.json.Decoder(_Domain)


def physical_columns(domain: DomainMetadata) -> list[Path]:
    """The physical paths of the columns a domain names.

    :raises ValueError: it cannot be read.
    """
    return [tuple(path) for path in _PARSED.decode(domain.configuration).clustering_columns]


def clustering_domain(columns: Iterable[Path]) -> DomainMetadata:
    """The action that makes a table clustered by these columns, given by their physical paths."""
    named = {"clusteringColumns": [list(path) for path in columns], "domainName": DOMAIN}
    return DomainMetadata(DOMAIN, json.dumps(named))
