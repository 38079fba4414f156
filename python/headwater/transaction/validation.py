"""Validation: what no commit may contain, whatever statement makes it.

Owns the checks of a transaction's actions before its first attempt: append-only tables, domain metadata, and file
actions that no reader could reconcile. Follows the protocol's chapters "Append-only Tables", "Domain Metadata", "Action
Reconciliation", "Writer Requirements for Catalog-managed tables" and "Add File and Remove File".
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet

from headwater.basics.errors import HeadwaterError
from headwater.catalogs.unity.tables import TABLE_ID
from headwater.log.files import FileKey
from headwater.protocol import properties
from headwater.protocol.actions import AddFile, Metadata, Protocol, RemoveFile
from headwater.protocol.features import is_catalog_managed, supports
from headwater.protocol.table_definition import TableDefinition
from headwater.transaction.conflicts import file_key


def check_append_only(metadata: Metadata, removes_rows: bool, table_name: str) -> None:
    """Refuse to remove rows from an append-only table.

    :raises HeadwaterError: ``DELTA_CANNOT_MODIFY_APPEND_ONLY``.
    """
    append_only = properties.APPEND_ONLY.of(metadata.configuration)
    if append_only and removes_rows:
        raise HeadwaterError("DELTA_CANNOT_MODIFY_APPEND_ONLY", {"tableName": table_name})


def check_domains(names: Collection[str], protocol: Protocol) -> None:
    """Refuse domain metadata where the table does not support the feature.

    :raises HeadwaterError: ``DELTA_DOMAIN_METADATA_NOT_SUPPORTED``.
    """
    if names and not supports(protocol, "domainMetadata"):
        raise HeadwaterError("DELTA_DOMAIN_METADATA_NOT_SUPPORTED", {"domainNames": ", ".join(sorted(names))})


def check_managed(before: TableDefinition | None, after: TableDefinition, path: str) -> None:
    """Refuse a commit after which a catalog could not manage the table as it does: without in-commit timestamps,
    without the feature, or with another id.

    :raises HeadwaterError: ``DELTA_CANNOT_MODIFY_CATALOG_MANAGED_DEPENDENCIES``.
    """
    stays = is_catalog_managed(after.protocol)
    was = before is not None and is_catalog_managed(before.protocol)
    keeps_id = not was or _table_id(before) == _table_id(after)
    if (was and not stays) or (stays and not (after.has_in_commit_timestamps and keeps_id)):
        raise HeadwaterError("DELTA_CANNOT_MODIFY_CATALOG_MANAGED_DEPENDENCIES", {"tableName": path})


def _table_id(table: TableDefinition | None) -> str | None:
    return None if table is None else table.metadata.configuration.get(TABLE_ID)


def check_unique(removes: Sequence[RemoveFile], adds: Sequence[AddFile]) -> None:
    """Refuse a commit with two actions on one logical file: which one counts would depend on the reader.

    :raises HeadwaterError: ``DELTA_DUPLICATE_ACTIONS_FOUND``.
    """
    seen: set[FileKey] = set()
    for kind, files in (("remove", removes), ("add", adds)):
        for file in files:
            key = file_key(file.path, file.deletion_vector)
            if key in seen:
                raise HeadwaterError("DELTA_DUPLICATE_ACTIONS_FOUND", {"actionType": kind, "path": file.path})
            seen.add(key)


def check_partitions(adds: Sequence[AddFile], definition: TableDefinition) -> None:
    """Refuse files whose partition values are not exactly those of the table's partition columns.

    :raises HeadwaterError: ``HEADWATER_PARTITION_VALUES_MISMATCH``.
    """
    if not adds:
        return
    wanted = {column.physical_name for column in definition.partition_fields}
    for file in adds:
        check_partition_values(file.path, file.partition_values.keys(), wanted)


def check_partition_values(path: str, found: AbstractSet[str], wanted: AbstractSet[str]) -> None:
    """Refuse a file with partition values of other columns than the table's partition columns.

    :param found: the physical names of the columns; ``wanted``: those of the table's partition columns.
    :raises HeadwaterError: ``HEADWATER_PARTITION_VALUES_MISMATCH``.
    """
    if found != wanted:
        named = {"found": _listed(found), "expected": _listed(wanted), "file": path}
        raise HeadwaterError("HEADWATER_PARTITION_VALUES_MISMATCH", named)


def _listed(names: AbstractSet[str]) -> str:
    return ", ".join(sorted(map(str, names))) or "no column"
