"""DESCRIBE HISTORY and DESCRIBE DETAIL: their columns and rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from headwater.basics.times import timestamp_text
from headwater.bridge.messages.define import RowsAnswer
from headwater.bridge.messages.read import (
    DescribeDetailRequest,
    DescribeHistoryRequest,
    DescribeOtherDetailRequest,
)
from headwater.bridge.statement import Statement
from headwater.iceberg.standing import standing
from headwater.log.history import CommitEntry, history
from headwater.log.snapshot import Snapshot
from headwater.protocol.columns import format_name
from headwater.protocol.types import ArrayType, MapType, PrimitiveType, StructType
from headwater.schema.iceberg import is_converted
from headwater.statements.calls import own_statement, reads
from headwater.statements.running.opening import locate, note_read, open_snapshot

_STRING, _LONG = PrimitiveType("string"), PrimitiveType("long")
_TIMESTAMP, _BOOLEAN, _INT = PrimitiveType("timestamp"), PrimitiveType("boolean"), PrimitiveType("integer")


HISTORY_SCHEMA = StructType.of(
    version=_LONG,
    timestamp=_TIMESTAMP,
    userId=_STRING,
    userName=_STRING,
    operation=_STRING,
    operationParameters=MapType(_STRING, _STRING),
    job=StructType.of(
        jobId=_STRING, jobName=_STRING, jobRunId=_STRING, runId=_STRING, jobOwnerId=_STRING, triggerType=_STRING
    ),
    notebook=StructType.of(notebookId=_STRING),
    clusterId=_STRING,
    readVersion=_LONG,
    isolationLevel=_STRING,
    isBlindAppend=_BOOLEAN,
    operationMetrics=MapType(_STRING, _STRING),
    userMetadata=_STRING,
    engineInfo=_STRING,
)

DETAIL_SCHEMA = StructType.of(
    format=_STRING,
    id=_STRING,
    name=_STRING,
    description=_STRING,
    location=_STRING,
    createdAt=_TIMESTAMP,
    lastModified=_TIMESTAMP,
    partitionColumns=ArrayType(_STRING),
    clusteringColumns=ArrayType(_STRING),
    numFiles=_LONG,
    sizeInBytes=_LONG,
    properties=MapType(_STRING, _STRING),
    minReaderVersion=_INT,
    minWriterVersion=_INT,
    tableFeatures=ArrayType(_STRING),
    icebergMetadata=StructType.of(convertedVersion=_LONG, versionsBehind=_LONG, failure=_STRING),
)

_PLAIN = ("userId", "userName", "operation", "clusterId", "isolationLevel", "userMetadata", "engineInfo")


@own_statement("describe", output=HISTORY_SCHEMA, commits=False, in_transaction=True)
def describe_history(request: DescribeHistoryRequest, statement: Statement) -> RowsAnswer:
    """A row a commit, newest first, of :data:`HISTORY_SCHEMA`."""
    location = locate(request.table, statement)
    note_read(location.store)
    entries = history(location.path, location.store, request.arguments.limit)
    return RowsAnswer(rows=history_rows(entries))


def history_rows(entries: Iterable[CommitEntry]) -> list[dict[str, Any]]:
    """The rows of some commits."""
    return [_history_row(entry.version, entry.timestamp, entry.commit_info or {}) for entry in entries]


def _history_row(version: int, timestamp: int, info: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "version": version,
        "timestamp": time_text(timestamp),
        **{name: _text(info.get(name)) for name in _PLAIN},
        "operationParameters": _texts(info.get("operationParameters")),
        "job": _texts(info.get("job")),
        "notebook": _texts(info.get("notebook")),
        "readVersion": _whole(info.get("readVersion")),
        "isBlindAppend": blind if isinstance(blind := info.get("isBlindAppend"), bool) else None,
        "operationMetrics": _texts(info.get("operationMetrics")),
    }


def _texts(values: Any) -> dict[str, str | None] | None:
    return {str(k): _text(v) for k, v in values.items()} if isinstance(values, dict) else None


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"))


def _whole(value: Any) -> int | None:
    """What any program may have written there, where it is a number of 64 bits."""
    return value if type(value) is int and -(1 << 63) <= value < 1 << 63 else None


def time_text(milliseconds: int | None) -> str | None:
    """The time as text; None for one that no calendar has, as of a broken clock."""
    if milliseconds is None:
        return None
    if not -(1 << 63) <= milliseconds * 1000 < 1 << 63:
        return None
    return timestamp_text(milliseconds * 1000, digits=3, separator="T") + "Z"


@own_statement("describe", output=DETAIL_SCHEMA, commits=False, in_transaction=True)
def describe_detail(request: DescribeDetailRequest, statement: Statement) -> RowsAnswer:
    """One row of :data:`DETAIL_SCHEMA`."""
    snapshot = open_snapshot(request.table, statement)
    note_read(snapshot.store)
    return RowsAnswer(rows=[detail_row(snapshot, request.name)])


def detail_row(snapshot: Snapshot, name: str | None = None) -> dict[str, Any]:
    """The row of a snapshot.

    :param name: the table's in the statement, for one whose log has none.
    """
    metadata, protocol = snapshot.metadata, snapshot.protocol
    path = snapshot.table_path
    return {
        "format": "delta",
        "id": metadata.id,
        "name": metadata.name or (name.replace("`", "") if name and not name.startswith("delta.") else None),
        "description": metadata.description,
        "location": f"file:{path}" if path.startswith("/") else path,
        "createdAt": time_text(metadata.created_time),
        "lastModified": time_text(snapshot.timestamp),
        "partitionColumns": snapshot.partition_columns,
        "clusteringColumns": [format_name(column) for column in snapshot.clustering_columns or ()],
        "numFiles": snapshot.num_files,
        "sizeInBytes": snapshot.size_in_bytes,
        "properties": dict(metadata.configuration),
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
        "tableFeatures": sorted(snapshot.definition.features),
        "icebergMetadata": _iceberg_metadata(snapshot) if is_converted(snapshot.definition) else None,
    }


def _iceberg_metadata(snapshot: Snapshot) -> dict[str, Any]:
    converted, behind, failure = standing(snapshot)
    return {"convertedVersion": converted, "versionsBehind": behind, "failure": failure}


@reads
def describe_other_detail(request: DescribeOtherDetailRequest, statement: Statement) -> RowsAnswer:
    """The same row of what is no Delta table: it has what a metastore knows, and nothing of a log."""
    known = {
        "format": request.format,
        "name": request.name,
        "description": request.description,
        "location": request.location,
        "createdAt": time_text(request.created),
        "partitionColumns": request.partition_columns,
        "properties": request.properties,
    }
    return RowsAnswer(rows=[{field.name: known.get(field.name) for field in DETAIL_SCHEMA}])
