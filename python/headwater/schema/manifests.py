"""What a table that keeps its symlink manifests up to date must do without.

Owns the rules for ``delta.compatibility.symlinkFormatManifest.enabled``: its readers know files alone, so the table may
have neither deletion vectors nor column mapping. Promise: a table that another writer made against the rules can still
be written to; only a change that breaks a rule is refused.
"""

from __future__ import annotations

from headwater.errors import HeadwaterError
from headwater.protocol import properties
from headwater.protocol.actions import Metadata, Protocol
from headwater.schema import mapping

_VIOLATED = "DELTA_VIOLATE_TABLE_PROPERTY_VALIDATION_FAILED"


def check_definition(before: Metadata | None, protocol: Protocol, metadata: Metadata) -> None:
    """Refuse a definition that newly has manifests together with deletion vectors or column mapping.

    :param before: the table's metadata; None for a new table.
    :raises HeadwaterError: ``DELTA_VIOLATE_TABLE_PROPERTY_VALIDATION_FAILED``,
        ``DELTA_UNSUPPORTED_MANIFEST_GENERATION_WITH_COLUMN_MAPPING``.
    """
    if not properties.SYMLINK_MANIFEST.of(metadata.configuration):
        return
    had = before is not None and properties.SYMLINK_MANIFEST.of(before.configuration)
    name = metadata.name or metadata.id
    marked = before is not None and properties.DELETION_VECTORS.of(before.configuration)
    if properties.DELETION_VECTORS.of(metadata.configuration) and not (had and marked):
        rule = "PERSISTENT_DELETION_VECTORS_WITH_INCREMENTAL_MANIFEST_GENERATION"
        raise HeadwaterError(f"{_VIOLATED}.{rule}", {"tableName": name})
    mapped = before is not None and mapping.mode(before.configuration) != "none"
    if mapping.mode(metadata.configuration, protocol) != "none" and not (had and mapped):
        raise HeadwaterError("DELTA_UNSUPPORTED_MANIFEST_GENERATION_WITH_COLUMN_MAPPING", {"tableName": name})


def check_enabling(before: Metadata, metadata: Metadata, *, has_vectors: bool) -> None:
    """Refuse to enable manifests on a table whose files have deletion vectors.

    :raises HeadwaterError: ``DELTA_VIOLATE_TABLE_PROPERTY_VALIDATION_FAILED``.
    """
    manifests = properties.SYMLINK_MANIFEST
    enables = manifests.of(metadata.configuration) and not manifests.of(before.configuration)
    if enables and has_vectors:
        rule = "EXISTING_DELETION_VECTORS_WITH_INCREMENTAL_MANIFEST_GENERATION"
        raise HeadwaterError(f"{_VIOLATED}.{rule}", {"tableName": metadata.name or metadata.id})
