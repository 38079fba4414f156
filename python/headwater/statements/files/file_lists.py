"""Lists of files for the JVM: the location, the deletion vector and the partition values of each.

Owns their form on the way to the JVM, as JSON or as an Arrow file, and relations over given files. Promise: a path is
absolute, so a reader needs neither the table's path nor its log.
"""

from __future__ import annotations

import base64
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.read import (
    FileListAnswer,
    ScanStatistics,
)
from headwater.bridge.statement import Statement
from headwater.log import deletion_vectors
from headwater.log.snapshot import Snapshot
from headwater.protocol.actions import DeletionVector
from headwater.protocol.partition_values import texts_of
from headwater.sql.composing import Relation
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
#: Rows that an index has are read by their positions where they are at most one in so many bytes of their file; of
#: others, all rows are decoded. Chosen, not measured: some hundred rows.
_BYTES_OF_ROW = 8192
#: What the list of a table with row tracking has of each file.
ROW_TRACKING = ("base_row_id", "default_row_commit_version")


def answer_files(
    snapshot: Snapshot,
    files: pa.Table,
    statement: Statement,
    *,
    all_files: int,
    statistics: ScanStatistics | None = None,
) -> FileListAnswer:
    """Files of a scan: rows with at least the columns of ``snapshot.files`` that :func:`file_list` has.

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


def file_list(
    snapshot: Snapshot,
    files: pa.Table,
    gone: Mapping[int, BitMap64] | None = None,
    only: Mapping[str, BitMap64] | None = None,
) -> pa.Table:
    """A scan's columns for rows of ``snapshot.files``.

    :param gone: the positions that are left out, by file number; of other files, those in their deletion vectors are.
    :param only: the positions that are read, by the file's path in the log; of other files, all are. What the file's
        deletion vector has is left out of them.
    """
    names = [physical_name(snapshot, name) for name in snapshot.partition_columns]
    columns: dict[str, Any] = {
        "path": absolute_paths(snapshot, files["path"]),
        "size": files["size"],
        "modification_time": files["modification_time"],
        "deletion_vector": _vectors(snapshot, files["deletion_vector"], gone or {}),
    }
    if only:
        columns["deletion_vector"] = _reading_only(files, columns["deletion_vector"], only)
    for i, name in enumerate(names):
        columns[f"partition{i}"] = texts_of(files["partition_values"], name)
    if tracks_rows(snapshot):
        columns |= {name: files[name] for name in ROW_TRACKING}
    return pa.table(columns)


def relation_over(
    statement: Statement,
    snapshot: Snapshot,
    files: pa.Table,
    row_tracking_columns: Sequence[str] = (),
    tasks: Sequence[int] = (),
    *,
    gone: Mapping[int, BitMap64] | None = None,
    position: tuple[str, str] | None = None,
    only: Mapping[str, BitMap64] | None = None,
    skips_none: bool = False,
    settings: Mapping[str, str] | None = None,
) -> Relation:
    """A relation over rows of ``snapshot.files``, in a query of the statement.

    :param tasks: as of :meth:`Statement.add_relation`, like ``position``, ``skips_none`` and ``settings``.
    :param gone: as of :func:`file_list`, like ``only``.
    """
    listed = [list(row.values()) for row in file_list(snapshot, files, gone, only).to_pylist()]
    table, version = snapshot.table_path, snapshot.version
    added = statement.add_relation(
        table, version, listed, row_tracking_columns, tasks, position, skips_none=skips_none, settings=settings
    )
    return Relation(added)


def tracks_rows(snapshot: Snapshot) -> bool:
    """Whether its files have row ids, which a scan then needs."""
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
        found[number] = _inline(positions)
    return pa.array(found, pa.string())


def _reading_only(files: pa.Table, vectors: pa.Array, only: Mapping[str, BitMap64]) -> pa.Array:
    """Descriptions as of :func:`describe_vector`; of the files of which only some rows are read, those as well, and
    whether they are few.
    """
    found = vectors.to_pylist()
    for number, (path, size) in enumerate(zip(files["path"].to_pylist(), files["size"].to_pylist(), strict=True)):
        if (rows := only.get(path)) is not None:
            few = [True] if len(rows) * _BYTES_OF_ROW <= size else []
            found[number] = json.dumps([_inline(rows), found[number], *few])
    return pa.array(found, pa.string())


def _inline(positions: BitMap64) -> str:
    return "inline " + base64.b64encode(deletion_vectors.serialize(positions)).decode()


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
