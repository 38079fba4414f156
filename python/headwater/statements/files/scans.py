"""Scans: loading a table at a version (time travel, ``/path@v3``), the files a scan reads, and aggregates from the log.

Promises: a statement that has loaded a table keeps to that version; a scan lists every file that may hold a matching
row.
"""

from __future__ import annotations

import base64
import contextlib
import math
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from headwater.basics.errors import HeadwaterError
from headwater.basics.time_zones import time_zone_of
from headwater.basics.times import date_text
from headwater.bridge.messages.callbacks import PinnedVersion
from headwater.bridge.messages.read import (
    AggregateAnswer,
    AggregateRequest,
    CheckColumnsRequest,
    ColumnStatistics,
    FileListAnswer,
    LoadTableRequest,
    RefreshTablesRequest,
    ScanRequest,
    ScansRequest,
    ScanStatistics,
    TableDescription,
    TableExistsRequest,
)
from headwater.bridge.statement import Statement
from headwater.log import deletion_vectors
from headwater.log.history import version_at
from headwater.log.snapshot import Snapshot
from headwater.log.snapshot import table_exists as log_exists
from headwater.protocol import properties
from headwater.protocol.actions import DeletionVector
from headwater.protocol.features import supported_features
from headwater.protocol.partition_values import texts_of
from headwater.protocol.types import parse_schema, schema_string
from headwater.pruning import aggregate_from_log, estimate, prune_all
from headwater.pruning.limits import Order, first_rows
from headwater.pruning.predicates import Predicate, decode
from headwater.schema import visible
from headwater.sql.composing import Relation
from headwater.statements.calls import reads
from headwater.statements.files.rows import SMALL_JOB_BYTES
from headwater.statements.running.opening import (
    SeenTable,
    check_files_retained,
    locate,
    note_read,
    open_same,
    open_snapshot,
    staleness_limit,
)
from headwater.statements.settings import IGNORE_MISSING_FILES
from headwater.stores import LocalStore, absolute_path

#: Longer file lists cross as Arrow, shorter ones as JSON. In a warm JVM both cost the same for lists of 1 to 1,000
#: files (bench cases ``file-list-1``, ``file-list-10``, ``file-list-100`` and ``file-list-1000``). But the JVM loads
#: Arrow at its first use, and the first SELECT takes more than twice as long then (bench case ``file-list-first``).
_LONGEST_JSON_LIST = 4000
#: A scan of more files than this does not check first that they exist: it takes 5 ms for so many on a local disk (bench
#: case ``files-checked``).
MOST_FILES_CHECKED = 4000
#: So many paths are made absolute one by one, which takes less time than Arrow needs to begin.
_FEW_PATHS = 16
#: What a scan needs of a file; its statistics' text, the bulk of a snapshot, is not among it.
_LISTED = ("path", "size", "modification_time", "deletion_vector", "partition_values")
#: The same of a table with row tracking.
_ROW_TRACKING = ("base_row_id", "default_row_commit_version")
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
        version = version_at(location.path, location.store, int(timestamp) // 1000)
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


@reads
def scans(request: ScansRequest, statement: Statement) -> list[FileListAnswer]:
    """The files each scan of a query must read, with their statistics where those are asked for."""
    answers: list[FileListAnswer] = []
    try:
        for wanted in request.requests:
            answers.append(_scan(wanted, statement))
    except BaseException:
        for path in [answer.arrow for answer in answers if answer.arrow is not None]:
            os.unlink(path)  # nobody reads what comes before an error
        raise
    return answers


def _scan(request: ScanRequest, statement: Statement) -> FileListAnswer:
    snapshot = open_same(request, statement, request.version)
    predicates = [decode(tree) for tree in request.filters]
    note_read(snapshot.store, [] if request.limit is not None else predicates)
    files = every = snapshot.select((*_LISTED, *_ROW_TRACKING) if _tracks_rows(snapshot) else _LISTED)
    mask = _chosen(request, snapshot, predicates)
    if mask is not None and mask.true_count == len(mask):
        mask = None
    if mask is not None:
        files = every.filter(mask)
    statistics = None if request.columns is None else _statistics(snapshot, mask, request.columns)
    return answer_files(snapshot, files, statement, all_files=every.num_rows, statistics=statistics)


def _chosen(request: ScanRequest, snapshot: Snapshot, predicates: Sequence[Predicate]) -> pa.BooleanArray | None:
    """A boolean a file; ``None`` for all of them."""
    if request.limit is None:
        return prune_all(snapshot, predicates) if predicates else None
    by = request.order
    order = None if by is None else Order(by.column, by.descending, by.nulls_first)
    return first_rows(snapshot, predicates, request.limit, order)


def answer_files(
    snapshot: Snapshot,
    files: pa.Table,
    statement: Statement,
    *,
    all_files: int,
    statistics: ScanStatistics | None = None,
) -> FileListAnswer:
    """Files of a scan: rows with at least the columns of :data:`LISTED` of ``snapshot.files``.

    :raises HeadwaterError: ``DELTA_FILE_NOT_FOUND_DETAILED`` for one that is gone, where looking is cheap.
    """
    listed = file_list(snapshot, files)
    if isinstance(snapshot.store, LocalStore) and not IGNORE_MISSING_FILES.of(statement):
        _check_present(snapshot, listed)
    short = listed.num_rows <= _LONGEST_JSON_LIST
    return FileListAnswer(
        files=[list(row.values()) for row in listed.to_pylist()] if short else None,
        arrow=None if short else _to_private_file(listed),
        all_files=all_files,
        statistics=statistics,
    )


def _statistics(snapshot: Snapshot, mask: pa.BooleanArray | None, columns: list[str]) -> ScanStatistics | None:
    known = estimate(snapshot, mask, columns)
    if known is None:
        return None
    rows, found = known
    return ScanStatistics(
        rows=rows,
        columns=[
            ColumnStatistics(name=name, min=_bound(low), max=_bound(high), nulls=nulls)
            for name, (low, high, nulls) in found.items()
        ],
    )


def _bound(value: Any) -> str | None:
    """A value as Spark's catalog spells it; times in UTC."""
    match value:
        case bool():
            return str(value).lower()
        case datetime():
            return value.strftime("%Y-%m-%d %H:%M:%S.%f") if value.year >= 1000 else None
        case Decimal():
            return format(value, "f")
        case float() if not math.isfinite(value):
            return None  # Java spells them otherwise, and they say nothing about how values are spread
        case int() | float() | date():
            return str(value)
    return None


def _check_present(snapshot: Snapshot, listed: pa.Table) -> None:
    """Name a data file that is gone before any task looks for it; only where looking is cheap.

    :raises HeadwaterError: ``DELTA_FILE_NOT_FOUND_DETAILED``.
    """
    if listed.num_rows > MOST_FILES_CHECKED:
        return
    for path in listed["path"].to_pylist():
        # A file of a clone may lie in another store.
        if path.startswith("/") and not os.path.exists(path):
            raise HeadwaterError(
                "DELTA_FILE_NOT_FOUND_DETAILED",
                {"file": path, "version": snapshot.version, "tableLocation": snapshot.table_path},
            )


def file_list(snapshot: Snapshot, files: pa.Table, gone: Mapping[int, BitMap64] | None = None) -> pa.Table:
    """A scan's columns for rows of ``snapshot.files``.

    :param gone: the positions that are left out, by file number; of other files, those in their deletion vectors are.
    """
    names = [physical_name(snapshot, name) for name in snapshot.partition_columns]
    columns: dict[str, Any] = {
        "path": absolute_paths(snapshot, files["path"]),
        "size": files["size"],
        "modification_time": files["modification_time"],
        "deletion_vector": _vectors(snapshot, files["deletion_vector"], gone or {}),
    }
    for i, name in enumerate(names):
        columns[f"partition{i}"] = texts_of(files["partition_values"], name)
    if _tracks_rows(snapshot):
        columns |= {name: files[name] for name in _ROW_TRACKING}
    return pa.table(columns)


def relation_over(
    statement: Statement,
    snapshot: Snapshot,
    files: pa.Table,
    row_tracking_columns: Sequence[str] = (),
    tasks: Sequence[int] = (),
    gone: Mapping[int, BitMap64] | None = None,
) -> Relation:
    """A relation over rows of ``snapshot.files``, in a query of the statement.

    :param tasks: as of :meth:`Statement.add_relation`.
    :param gone: as of :func:`file_list`.
    """
    listed = [list(row.values()) for row in file_list(snapshot, files, gone).to_pylist()]
    return Relation(statement.add_relation(snapshot.table_path, snapshot.version, listed, row_tracking_columns, tasks))


def _tracks_rows(snapshot: Snapshot) -> bool:
    return snapshot.definition.tracks_rows


def physical_name(snapshot: Snapshot, column: str) -> str:
    """The physical name of a partition column."""
    return snapshot.partition_field(column).physical_name


def absolute_paths(snapshot: Snapshot, paths: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Where files are, by their paths in the log; as :func:`~headwater.stores.absolute_path`."""
    if len(paths) > _FEW_PATHS:
        simple = pc.invert(pc.match_substring_regex(paths, "[%:]|^/|\\.\\."))
        if pc.all(simple).as_py():
            table_path = pa.scalar(snapshot.table_path, paths.type)
            return pc.binary_join_element_wise(table_path, paths, pa.scalar("/", paths.type))
    return pa.array([absolute_path(snapshot.table_path, path) for path in paths.to_pylist()], pa.string())


def _vectors(snapshot: Snapshot, column: pa.ChunkedArray, gone: Mapping[int, BitMap64]) -> pa.Array:
    if column.null_count == len(column) and not gone:
        return pa.nulls(len(column), pa.string())
    found = [vector and describe_vector(snapshot.table_path, vector) for vector in column.to_pylist()]
    for number, positions in gone.items():
        found[number] = "inline " + base64.b64encode(deletion_vectors.serialize(positions)).decode()
    return pa.array(found, pa.string())


def describe_vector(table_path: str, vector: Mapping[str, Any]) -> str:
    """Where an executor finds a deletion vector: ``inline <base64>`` or ``<offset> <size> <path>``."""
    descriptor = DeletionVector(
        vector["storage_type"], vector["path_or_inline"], vector["size"], vector["cardinality"], vector["offset"]
    )
    if descriptor.storage_type == "i":
        # An inline vector is never read from a store, and may be in either format; the executor knows one.
        positions = deletion_vectors.read(descriptor, table_path, LocalStore())
        return "inline " + base64.b64encode(deletion_vectors.serialize(positions)).decode()
    return f"{descriptor.offset or 0} {descriptor.size} {deletion_vectors.absolute_location(descriptor, table_path)}"


def _to_private_file(table: pa.Table) -> str:
    # mkstemp makes the file readable by this user alone; the JVM deletes it once read.
    handle, path = tempfile.mkstemp(prefix="headwater-scan-", suffix=".arrow")
    columns = [
        column.cast(
            pa.string() if pa.types.is_string(column.type) or pa.types.is_large_string(column.type) else column.type
        )
        for column in table.columns
    ]
    plain = pa.table(columns, names=table.column_names)
    with os.fdopen(handle, "wb") as file, pa.ipc.new_stream(file, plain.schema) as stream:
        stream.write_table(plain, max_chunksize=65536)
    return path


@reads
def aggregate(request: AggregateRequest, statement: Statement) -> AggregateAnswer | None:
    """The rows of an aggregate where the log holds them exactly; None where it does not."""
    snapshot = open_same(request, statement, request.version)
    groups, outputs = request.groups, request.outputs
    note_read(snapshot.store, [decode(tree) for tree in request.filters])
    wanted = [(o.kind, None if o.column is None else (o.column,)) for o in outputs if o.kind is not None]
    table = aggregate_from_log(snapshot, groups, wanted, [decode(tree) for tree in request.filters])
    if table is None:
        return None
    by_group = {name.lower(): i for i, name in enumerate(groups)}
    position = len(groups)
    columns = []
    for output in outputs:
        if output.group is not None:
            columns.append(table.column(by_group[output.group.lower()]))
        else:
            columns.append(table.column(position))
            position += 1
    return AggregateAnswer(rows=[list(row) for row in zip(*(_texts(column) for column in columns), strict=True)])


def _texts(column: pa.ChunkedArray) -> list[str | None]:
    if pa.types.is_date32(column.type):
        return [None if days is None else date_text(days) for days in column.cast(pa.int32()).to_pylist()]
    return [_text(value) for value in column.to_pylist()]


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _compact_time(text: str, time_zone: str) -> int:
    """Milliseconds since the epoch of ``yyyyMMddHHmmssSSS`` in a time zone."""
    try:
        local = datetime.strptime(text[:14], "%Y%m%d%H%M%S")
    except ValueError:
        raise HeadwaterError("DELTA_TIMESTAMP_INVALID", {"expr": text}) from None
    return int(local.replace(tzinfo=time_zone_of(time_zone)).timestamp()) * 1000 + int(text[14:])
