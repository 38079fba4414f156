"""What a table with up-to-date symlink manifests cannot have.

Owns the rules for ``delta.compatibility.symlinkFormatManifest.enabled``: its readers know files alone, so the table may
have neither deletion vectors nor column mapping. Promise: a table that another writer made against the rules can still
be written to; only a change that breaks a rule is refused.
"""

from __future__ import annotations

from headwater.basics.errors import HeadwaterError
from headwater.protocol import properties
from headwater.protocol.table_definition import TableDefinition

_VIOLATED = "DELTA_VIOLATE_TABLE_PROPERTY_VALIDATION_FAILED"


def check_definition(before: TableDefinition | None, after: TableDefinition) -> None:
    """Refuse a definition that newly has manifests together with deletion vectors or column mapping.

    :param before: the table's definition; None for a new table.
    :raises HeadwaterError: ``DELTA_VIOLATE_TABLE_PROPERTY_VALIDATION_FAILED``,
        ``DELTA_UNSUPPORTED_MANIFEST_GENERATION_WITH_COLUMN_MAPPING``.
    """
    if not after.get(properties.SYMLINK_MANIFEST):
        return
    had = before is not None and before.get(properties.SYMLINK_MANIFEST)
    name = after.metadata.name or after.metadata.id
    marked = before is not None and before.get(properties.DELETION_VECTORS)
    if after.get(properties.DELETION_VECTORS) and not (had and marked):
        rule = "PERSISTENT_DELETION_VECTORS_WITH_INCREMENTAL_MANIFEST_GENERATION"
        raise HeadwaterError(f"{_VIOLATED}.{rule}", {"tableName": name})
    mapped = before is not None and before.get(properties.COLUMN_MAPPING_MODE) != "none"
    if after.maps_columns and not (had and mapped):
        raise HeadwaterError("DELTA_UNSUPPORTED_MANIFEST_GENERATION_WITH_COLUMN_MAPPING", {"tableName": name})


def check_enabling(before: TableDefinition, after: TableDefinition, *, has_vectors: bool) -> None:
    """Refuse to enable manifests on a table whose files have deletion vectors.

    :raises HeadwaterError: ``DELTA_VIOLATE_TABLE_PROPERTY_VALIDATION_FAILED``.
    """
    enables = after.get(properties.SYMLINK_MANIFEST) and not before.get(properties.SYMLINK_MANIFEST)
    if enables and has_vectors:
        rule = "EXISTING_DELETION_VECTORS_WITH_INCREMENTAL_MANIFEST_GENERATION"
        raise HeadwaterError(f"{_VIOLATED}.{rule}", {"tableName": after.metadata.name or after.metadata.id})
