"""What the commands show of a table: its columns, files, log, and how two versions differ, as plain values.

Owns these values; :mod:`headwater.cli.table_commands` prints them. Promise: they come from the log alone, need neither
Spark nor a JVM, and are such that JSON has them; sizes are in bytes, times are UTC. Follows the protocol's chapters
"Actions" and "Delta Log Entries".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow.compute as pc

from headwater.basics.errors import HeadwaterError
from headwater.log.commits import invalid_commit
from headwater.log.file_differences import file_differences
from headwater.log.segment import list_log, version_not_found
from headwater.log.snapshot import Snapshot
from headwater.protocol.actions import Metadata
from headwater.protocol.column_metadata import CURRENT_DEFAULT, GENERATION_EXPRESSION
from headwater.protocol.columns import format_name
from headwater.protocol.differences import changes, columns, shape, versions
from headwater.protocol.file_names import (
    LAST_CHECKPOINT,
    SIDECAR_DIRECTORY,
    CheckpointName,
    ChecksumName,
    CommitName,
    CompactionName,
    commit_name,
    log_directory,
    parse_name,
)
from headwater.protocol.partition_values import text_of
from headwater.protocol.types import StructField
from headwater.pruning import estimate, prune
from headwater.schema.constraints import check_constraints
from headwater.schema.identity import identity_columns
from headwater.sql.conditions import parse_condition
from headwater.statements.reads.describe import time_text
from headwater.stores import FileInfo, Store

_FILE_COLUMNS = ("path", "size", "modification_time", "partition_values", "deletion_vector")


# --- columns ----------------------------------------------------------------------------------------------------------


def description(snapshot: Snapshot) -> dict[str, Any]:
    """The table's columns and what is declared beside them."""
    metadata = snapshot.metadata
    partitioned = [name.lower() for name in snapshot.partition_columns]
    identities = {column.name for column in identity_columns(snapshot.schema)}
    columns = []
    for field in snapshot.schema:
        column = _declared(field)
        column["partition"] = field.name.lower() in partitioned
        column["identity"] = field.name in identities
        columns.append(column)
    return {
        "path": snapshot.table_path,
        "version": snapshot.version,
        "timestamp": time_text(snapshot.timestamp),
        "name": metadata.name,
        "description": metadata.description,
        "columns": columns,
        "partitionColumns": snapshot.partition_columns,
        "clusteringColumns": _clustering(snapshot),
        "constraints": {check.name: check.sql for check in check_constraints(metadata.configuration)},
        "rows": _rows(snapshot),
    }


def _declared(field: StructField) -> dict[str, Any]:
    return {
        "name": field.name,
        "type": field.type.sql(),
        "nullable": field.nullable,
        "comment": field.comment,
        "default": _text(field.metadata.get(CURRENT_DEFAULT)),
        "generated": _text(field.metadata.get(GENERATION_EXPRESSION)),
    }


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _clustering(snapshot: Snapshot) -> list[str]:
    return [format_name(column) for column in snapshot.clustering_columns or ()]


def _rows(snapshot: Snapshot) -> int | None:
    known = estimate(snapshot, None, ())
    return None if known is None else known[0]


# --- files ------------------------------------------------------------------------------------------------------------


def files(snapshot: Snapshot, condition: str | None = None, limit: int | None = None) -> dict[str, Any]:
    """The live files, or those that a predicate reads, in the order of the log.

    :param condition: SQL text, as of ``headwater health --where``.
    :param limit: the most files that are listed; the sums are of all.
    """
    table = snapshot.select(_FILE_COLUMNS)
    records = snapshot.statistics([])["num_records"]
    found: dict[str, Any] = {"path": snapshot.table_path, "version": snapshot.version}
    skipped = 0
    if condition is not None:
        parsed = parse_condition(condition, snapshot)
        read = prune(snapshot, parsed.predicate)
        table, records = table.filter(read), records.filter(read)
        skipped = len(read) - len(table)
        found |= {"where": condition, "notUnderstood": parsed.not_understood}
    found |= {"numFiles": len(table), "skippedFiles": skipped, "sizeInBytes": pc.sum(table["size"]).as_py() or 0}
    logical = {
        field.physical_name: field.name
        for name in snapshot.partition_columns
        if (field := snapshot.schema.find(name)) is not None
    }
    listed = table if limit is None else table.slice(0, limit)
    rows = records.to_pylist() if limit is None else records.slice(0, limit).to_pylist()
    found["files"] = [_file(row, count, logical) for row, count in zip(listed.to_pylist(), rows, strict=True)]
    return found


def _file(row: Mapping[str, Any], records: int | None, logical: Mapping[str, str]) -> dict[str, Any]:
    deleted = (row["deletion_vector"] or {}).get("cardinality") or 0
    values = dict(row["partition_values"] or ())
    return {
        "path": row["path"],
        "size": row["size"],
        "rows": None if records is None else records - deleted,
        "deletedRows": deleted,
        "partition": {name: text_of(values, physical) for physical, name in logical.items()},
        "modified": time_text(row["modification_time"]),
    }


# --- the log ----------------------------------------------------------------------------------------------------------


def log_files(store: Store, path: str) -> list[dict[str, Any]]:
    """The files of a table's log, in the order of their names, then the sidecars of its checkpoints.

    :raises HeadwaterError: ``DELTA_TABLE_NOT_FOUND``.
    """
    directory = log_directory(path)
    try:
        found = store.list_from(directory)
    except (FileNotFoundError, NotADirectoryError):
        raise HeadwaterError("DELTA_TABLE_NOT_FOUND", {"tableName": path}) from None
    try:
        sidecars = store.list_from(f"{directory}/{SIDECAR_DIRECTORY}")
    except (FileNotFoundError, NotADirectoryError):
        sidecars = []
    listed = [_log_file(file, *_kind(file)) for file in found]
    return listed + [_log_file(file, "sidecar", None, f"{SIDECAR_DIRECTORY}/{file.name}") for file in sidecars]


def _kind(file: FileInfo) -> tuple[str, str | None]:
    match parse_name(file.name):
        case CommitName(version):
            return "commit", str(version)
        case ChecksumName(version):
            return "checksum", str(version)
        case CompactionName(first, last):
            return "compacted commits", f"{first}-{last}"
        case CheckpointName(version, part, parts, _, _):
            return "checkpoint" if parts == 1 else f"checkpoint part {part} of {parts}", str(version)
    return ("last checkpoint" if file.name == LAST_CHECKPOINT else "other"), None


def _log_file(file: FileInfo, kind: str, version: str | None, name: str | None = None) -> dict[str, Any]:
    return {
        "name": name or file.name,
        "kind": kind,
        "version": version,
        "size": file.size,
        "modified": time_text(file.modification_time),
    }


def actions(store: Store, path: str, version: int) -> list[dict[str, Any]]:
    """The actions of a commit, as they are in the log, even those that the protocol does not know.

    :raises HeadwaterError: ``DELTA_TABLE_NOT_FOUND``, ``DELTA_VERSION_NOT_FOUND``, ``DELTA_INVALID_COMMIT``.
    """
    file = f"{log_directory(path)}/{commit_name(version)}"
    try:
        data = store.read(file)
    except (FileNotFoundError, NotADirectoryError):
        raise _no_commit(store, path, version) from None
    return list(_lines(data, file))


def _lines(data: bytes, file: str) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            raise invalid_commit(file, number, "the line is not a whole JSON object") from None
        if not isinstance(value, dict):
            raise invalid_commit(file, number, "the line is not a JSON object")
        yield value


def _no_commit(store: Store, path: str, version: int) -> HeadwaterError:
    return version_not_found(list_log(path, store), version)


# --- how versions differ ----------------------------------------------------------------------------------------------


def difference(older: Snapshot, newer: Snapshot) -> dict[str, Any]:
    """How two versions of a table differ. What changed has both values, the older one first; what is the same is left
    out of the sections, and the sums of both are always there.
    """
    return {
        "path": newer.table_path,
        "from": older.version,
        "to": newer.version,
        "columns": _columns(older, newer),
        "properties": _changes(older.metadata.configuration, newer.metadata.configuration),
        "protocol": _changes(_protocol(older), _protocol(newer)),
        "table": _changes(_named(older), _named(newer)),
        "domains": _changes(_domains(older), _domains(newer)),
        "transactions": _changes(_transactions(older), _transactions(newer)),
        "files": file_differences(older, newer),
        "sums": {
            "files": [older.num_files, newer.num_files],
            "bytes": [older.size_in_bytes, newer.size_in_bytes],
            "rows": [_rows(older), _rows(newer)],
        },
    }


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """By name, the values in ``added`` and ``removed``, both in ``changed``."""
    found = changes(before, after)
    return {
        "added": found.added,
        "removed": found.removed,
        "changed": {name: list(values) for name, values in found.changed.items()},
    }


def _protocol(snapshot: Snapshot) -> dict[str, Any]:
    return {
        **versions(snapshot.protocol),
        **{f"feature {name}": "supported" for name in sorted(snapshot.definition.features)},
    }


def _named(snapshot: Snapshot) -> dict[str, Any]:
    metadata: Metadata = snapshot.metadata
    return {
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "partitionColumns": snapshot.partition_columns,
        "clusteringColumns": _clustering(snapshot),
    }


def _domains(snapshot: Snapshot) -> dict[str, str]:
    return {name: domain.configuration for name, domain in snapshot.domain_metadata.items()}


def _transactions(snapshot: Snapshot) -> dict[str, int]:
    return {app: transaction.version for app, transaction in snapshot.set_transactions.items()}


def _columns(older: Snapshot, newer: Snapshot) -> dict[str, Any]:
    """Columns and fields at any depth; where columns are mapped, one that was renamed is the same."""
    found: dict[str, Any] = {"added": {}, "removed": {}, "renamed": {}, "changed": {}}
    pairs, found["reordered"] = columns(older.metadata, newer.metadata)
    for before, after in pairs:
        if before is None and after is not None:
            found["added"][format_name(after.path)] = _column_text(after.field)
        elif after is None and before is not None:
            found["removed"][format_name(before.path)] = _column_text(before.field)
        elif before is not None and after is not None:
            if after.path[-1] != before.path[-1]:
                found["renamed"][format_name(before.path)] = format_name(after.path)
            changed = _changes(_of_column(before.field), _of_column(after.field))["changed"]
            if changed:
                found["changed"][format_name(after.path)] = changed
    return found


def _column_text(field: StructField) -> str:
    return f"{field.type.sql()}{'' if field.nullable else ' not null'}"


def _of_column(field: StructField) -> dict[str, Any]:
    declared = _declared(field)
    del declared["name"]
    return declared | {"type": shape(field.type)}
