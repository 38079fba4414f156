"""Tables for Spark's analysis: loaded at a version (time travel, ``/path@v3``), and pinned to one.

Promise: a statement that has loaded a table keeps to that version, or learns that the table's columns have changed.
"""

from __future__ import annotations

import contextlib
import re
from datetime import datetime

import pyarrow.compute as pc

from headwater.basics.errors import HeadwaterError
from headwater.basics.time_zones import time_zone_of
from headwater.bridge.messages.callbacks import PinnedVersion
from headwater.bridge.messages.define import TableConstraint
from headwater.bridge.messages.read import (
    CheckColumnsRequest,
    LoadTableRequest,
    RefreshTablesRequest,
    TableDescription,
    TableExistsRequest,
)
from headwater.bridge.statement import Statement
from headwater.log.history import version_at
from headwater.log.snapshot import Snapshot
from headwater.log.snapshot import table_exists as log_exists
from headwater.protocol import properties
from headwater.protocol.features import supported_features
from headwater.protocol.types import parse_schema, schema_string
from headwater.schema import visible
from headwater.schema.keys import Key, keys
from headwater.statements.calls import reads
from headwater.statements.files.rows import SMALL_JOB_BYTES
from headwater.statements.running.opening import (
    SeenTable,
    check_files_retained,
    locate,
    open_snapshot,
    staleness_limit,
)

_PATH_WITH_VERSION = re.compile(r"(?s)(.+)@(?:v(\d+)|(\d{17}))")


@reads
def load_table(request: LoadTableRequest, statement: Statement) -> TableDescription:
    """A table's description at the version asked for.

    :raises HeadwaterError: those of opening a table, and of a version or time out of range.
    """
    path, version, timestamp = request.table, request.version, request.timestamp
    location = locate(path, statement)
    match = _PATH_WITH_VERSION.fullmatch(path)
    if match and not log_exists(location.path, location.store):
        if version is not None or timestamp is not None:
            raise HeadwaterError("DELTA_UNSUPPORTED_TIME_TRAVEL_MULTIPLE_FORMATS", {"path": path})
        path, version = match.group(1), int(match.group(2)) if match.group(2) else None
        location = locate(path, statement)
        if match.group(3):
            timestamp = str(_compact_time(match.group(3), statement.time_zone) * 1000)
    if timestamp is not None:
        milliseconds = int(timestamp) // 1000
        version = version_at(location.path, location.store, milliseconds, can_be_after_latest=request.may_be_later)
    try:
        snapshot = open_snapshot(path, statement, version, staleness_limit(statement))
    except HeadwaterError as error:
        if error.condition == "DELTA_TABLE_NOT_FOUND" and request.name:
            raise HeadwaterError("DELTA_TABLE_NOT_FOUND", {"tableName": f"{path} (table {request.name})"}) from None
        if error.condition == "DELTA_TABLE_NOT_FOUND" and not location.store.exists(location.path):
            raise HeadwaterError("PATH_NOT_FOUND", {"path": path}) from None
        raise
    if version is not None and not request.pinned:
        try:
            newest = open_snapshot(path, statement)
        except HeadwaterError:
            newest = snapshot  # older versions are what is left of a table whose newest is damaged
        check_files_retained(snapshot, newest, statement)
    return describe(snapshot, time_travel=version is not None)


def names_version_of_table(path: str, statement: Statement) -> bool:
    """Whether a path is that of a table with a version after it (``/path@v3``), and not of a table so named."""
    match = _PATH_WITH_VERSION.fullmatch(path)
    if match is None or _exists(path, statement):
        return False
    return _exists(match.group(1), statement)


@reads
def refresh_tables(request: RefreshTablesRequest, statement: Statement) -> list[PinnedVersion]:
    """The versions of tables that a query reads. A query may be older than the table at the path. The table that it was
    analysed with is not looked up: the query itself knows that table's columns (:func:`check_columns`).
    """
    limit = staleness_limit(statement)
    return [pinned_version(open_snapshot(each.table, statement, each.version, limit)) for each in request.requests]


@reads
def check_columns(request: CheckColumnsRequest, statement: Statement) -> None:
    """That a query can read a table whose definition is no longer the one that it was analysed with.

    :raises HeadwaterError: ``DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS``.
    """
    then, now = parse_schema(request.then), parse_schema(request.now)
    if visible.changed(then, now):
        raise visible.columns_changed(request.table, then, now)


def check_same_columns(seen: SeenTable, version: int, statement: Statement, snapshot: Snapshot) -> Snapshot:
    """That a table has the columns it had when a statement was analysed, at ``version``; the table of then.

    :raises HeadwaterError: ``DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS``.
    """
    if snapshot.version == version:
        return snapshot
    then = open_snapshot(seen.table, statement, version)
    if visible.changed(then.schema, snapshot.schema) or then.partition_columns != snapshot.partition_columns:
        raise visible.columns_changed(snapshot.table_path, then.schema, snapshot.schema)
    return then


@reads
def table_exists(request: TableExistsRequest, statement: Statement) -> bool:
    """Whether a Delta table is at a path."""
    return _exists(request.table, statement)


def _exists(path: str, statement: Statement) -> bool:
    location = locate(path, statement)
    return log_exists(location.path, location.store)


def describe(snapshot: Snapshot, *, time_travel: bool = False) -> TableDescription:
    """What Spark must know of a table."""
    definition = snapshot.definition
    protocol, metadata = definition.protocol, definition.metadata
    features = (protocol.reader_features or frozenset()) | (protocol.writer_features or frozenset())
    clustered_by = None
    with contextlib.suppress(HeadwaterError):  # damaged ones keep nobody from reading, nor from setting others
        clustered_by = snapshot.clustering_columns
    return TableDescription(
        path=snapshot.table_path,
        version=snapshot.version,
        table_id=metadata.id,
        schema=schema_string(visible.for_reading(snapshot.schema)),
        table_schema=schema_string(snapshot.schema),
        partition_columns=snapshot.partition_columns,
        clustering_columns=None if clustered_by is None else [list(path) for path in clustered_by],
        description=metadata.description,
        configuration=dict(metadata.configuration),
        properties={
            **metadata.configuration,
            properties.MIN_READER_VERSION.name: str(protocol.min_reader_version),
            properties.MIN_WRITER_VERSION.name: str(protocol.min_writer_version),
            **{f"delta.feature.{name}": "supported" for name in sorted(features)},
        },
        column_mapping_mode=definition.mapping_mode,
        has_deletion_vectors=snapshot.has_deletion_vectors,
        size_in_bytes=snapshot.size_in_bytes,
        features=sorted(supported_features(protocol)),
        time_travel=time_travel,
        row_tracking_columns=list(definition.hidden_columns or ()),
        keys=[_described(key) for key in keys(definition)],
    )


def _described(key: Key) -> TableConstraint:
    return TableConstraint(
        kind=key.kind,
        name=key.name,
        columns=list(key.columns),
        references=list(key.references),
        referenced=list(key.referenced),
        rely=key.rely,
        enforced=key.enforced,
    )


def pinned_version(snapshot: Snapshot) -> PinnedVersion:
    """What pins a table's version."""
    return PinnedVersion(
        version=snapshot.version,
        table_id=snapshot.metadata.id,
        size_in_bytes=snapshot.size_in_bytes,
        rows=_rows(snapshot) if snapshot.size_in_bytes <= SMALL_JOB_BYTES else None,
        has_deletion_vectors=snapshot.has_deletion_vectors,
        table_schema=schema_string(snapshot.schema),
        partition_columns=snapshot.partition_columns,
        column_mapping_mode=snapshot.definition.mapping_mode,
        row_tracking_columns=list(snapshot.definition.hidden_columns or ()),
    )


def _rows(snapshot: Snapshot) -> int | None:
    records = snapshot.statistics([])["num_records"]
    return None if records.null_count else pc.sum(records, min_count=0).as_py()


def _compact_time(text: str, time_zone: str) -> int:
    """Milliseconds since the epoch of ``yyyyMMddHHmmssSSS`` in a time zone."""
    try:
        local = datetime.strptime(text[:14], "%Y%m%d%H%M%S")
    except ValueError:
        raise HeadwaterError("DELTA_TIMESTAMP_INVALID", {"expr": text}) from None
    return int(local.replace(tzinfo=time_zone_of(time_zone)).timestamp()) * 1000 + int(text[14:])
