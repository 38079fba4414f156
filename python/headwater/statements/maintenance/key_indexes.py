"""Builds the entries of key indexes, and keeps their folders tidy.

Owns the jobs that read the key columns of data files and write sorted entries (:mod:`headwater.key_index.segments`).
Promises: a build goes in batches, each of which counts as soon as it is written, so a build that was cut off goes on
where it stopped. Nothing is written to a table that took the place of another. It makes no commit and waits for nobody,
and two that run at once only do work twice. An index of which nothing can be written fails its own statement alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from msgspec import structs
from py4j.protocol import Py4JJavaError

from headwater.basics import clock
from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.callbacks import WriteSpecification
from headwater.bridge.statement import Statement
from headwater.key_index.definition import KeyIndex, indexes
from headwater.key_index.segments import (
    ROW_GROUP_BYTES,
    covered,
    delete_unneeded,
    described,
    folder_of,
    merge_small,
    put_segment,
    segments,
)
from headwater.log.snapshot import Snapshot
from headwater.protocol.types import PrimitiveType, StructType, schema_string
from headwater.pruning import estimate
from headwater.sql.composing import Alias, Column, every, is_not_null, select
from headwater.statements.files.file_lists import relation_over
from headwater.statements.files.key_hashes import hash_expression
from headwater.statements.files.rows import SMALL_JOB
from headwater.statements.internal_names import InternalNames
from headwater.statements.settings import CASE_SENSITIVE, IGNORE_CORRUPT_FILES, IGNORE_MISSING_FILES
from headwater.transaction.same_table import writing_to_same_table

_LOG = logging.getLogger(__name__)

#: Rows that a task sorts, about, and rows of a batch. A lookup opens a file for each task of a build.
_ROWS_OF_TASK, _ROWS_OF_BATCH = 4_000_000, 64_000_000
#: If more bytes lack entries, only files that are younger, in milliseconds, are built in the background: an index that
#: was just declared for a large table waits for REFRESH INDEX or MAINTAIN TABLE, which do not compete with whoever
#: writes.
_MOST_BYTES, _RECENT = 1 << 30, 3_600_000
#: Fewer files with fewer bytes wait for the next commits: a job for them costs more than it saves whoever reads them.
_FEWEST_FILES, _FEWEST_BYTES = 32, 16 << 20
#: Bytes of a row where statistics do not say how many there are.
_ROW_BYTES = 100
_LONG, _INT = PrimitiveType("long"), PrimitiveType("integer")
_STORED = schema_string(StructType.of(h=_LONG, f=_INT, r=_LONG))
_OPTIONS = {
    "compression": "uncompressed",
    "parquet.writer.version": "PARQUET_2_0",  # whose numbers are stored as differences
    "parquet.enable.dictionary": "false",
    "parquet.block.size": str(ROW_GROUP_BYTES),
}


#: A file that a session may skip would have no entries, and yet count as covered.
_WHOLE_FILES = {each.name: "false" for each in (IGNORE_CORRUPT_FILES, IGNORE_MISSING_FILES)}


#: A column that a file spells otherwise would have no entries, which sessions that find it would trust.
_MISSES_COLUMNS = (
    "this session has spark.sql.caseSensitive = true and does not find a column that a file spells otherwise"
)


class Built(NamedTuple):
    """What a build did: data files and their rows that have entries now, and the bytes of these."""

    files: int
    rows: int
    size: int


def build(statement: Statement, snapshot: Snapshot, index: KeyIndex, *, recent: bool = False) -> Built:
    """Make the entries of the files that have none, by jobs of the statement, and merge small segments.

    :param recent: only if they are worth a job, and of many bytes only those of recent commits.
    :raises HeadwaterError: ``HEADWATER_INDEX_NOT_WRITTEN``; ``DELTA_TABLE_ID_MISMATCH`` and
        ``DELTA_TABLE_NOT_FOUND`` if the table was dropped meanwhile; whatever Spark's jobs raise.
    """
    if CASE_SENSITIVE.of(statement):
        raise _not_written(snapshot, index, _MISSES_COLUMNS)
    snapshot = writing_to_same_table(snapshot)
    missing = ~covered(snapshot, segments(snapshot, index))
    built = Built(0, 0, 0)
    if recent:
        light = snapshot.select(("modification_time", "size"))
        size = light["size"].to_numpy()[missing].sum()
        if missing.sum() < _FEWEST_FILES and size < _FEWEST_BYTES:
            return built
        if size > _MOST_BYTES:
            missing &= light["modification_time"].to_numpy() >= clock.milliseconds() - _RECENT
    files = snapshot.files.filter(pa.array(missing))
    try:
        for start, some, task_bytes in _batches(snapshot, files):
            done = f"{start:,} of {files.num_rows:,} files done" if start else f"{files.num_rows:,} files"
            statement.step(f"index {index.name} ({done})")
            rows, size = _build(statement, snapshot, index, some, task_bytes)
            built = Built(built.files + some.num_rows, built.rows + rows, built.size + size)
        merge_small(snapshot, index)
        delete_unneeded(snapshot, index)
    except OSError as error:
        raise _not_written(snapshot, index, str(error)) from error
    return built


def _not_written(snapshot: Snapshot, index: KeyIndex, reason: str) -> HeadwaterError:
    named = {"index": index.name, "path": folder_of(snapshot.table_path, index.name), "reason": reason}
    return HeadwaterError("HEADWATER_INDEX_NOT_WRITTEN", named)


def build_recent(statement: Statement, snapshot: Snapshot) -> None:
    """Build what recent commits made each index of a table miss, if it is worth a job; a failure is a warning."""
    for index in indexes(snapshot.definition):
        try:
            build(statement, snapshot, index, recent=True)
        except (HeadwaterError, Py4JJavaError) as error:
            statement.check_cancelled()
            _LOG.warning("%s: the index %s lacks entries: %s", snapshot.table_path, index.name, error)


def _batches(snapshot: Snapshot, files: pa.Table) -> Iterator[tuple[int, pa.Table, int]]:
    """The files in batches: how many came before, the files, and the bytes of files that a task is to read."""
    if not files.num_rows:
        return
    known = estimate(snapshot, None, [])
    rows = 0 if known is None else known[0]
    row_bytes = max(1, snapshot.size_in_bytes // rows) if rows else _ROW_BYTES
    ends = np.cumsum(files["size"].to_numpy()) // (row_bytes * _ROWS_OF_BATCH)
    starts = np.flatnonzero(np.diff(ends, prepend=-1))
    for start, end in zip(starts, [*starts[1:], files.num_rows], strict=True):
        yield int(start), files.slice(start, end - start), row_bytes * _ROWS_OF_TASK


def _build(
    statement: Statement, snapshot: Snapshot, index: KeyIndex, files: pa.Table, task_bytes: int
) -> tuple[int, int]:
    """A segment of some files; its rows and bytes.

    :raises OSError: the store failed.
    """
    # Tasks take files in this order, so the numbers of a task's files are close to each other and take few bits.
    files = files.sort_by([("size", "descending")])
    names = InternalNames.beside([*snapshot.schema.names, *(column.physical_name for column in snapshot.schema)])
    file, row = names.of("file_number"), names.of("row_position")
    # Deleted rows have entries too: a later version may have them again.
    at = files.schema.get_field_index("deletion_vector")
    whole = pa.nulls(files.num_rows, files.schema.field(at).type)
    listed = files.set_column(at, files.schema.field(at), whole)
    packing = {"spark.sql.files.maxPartitionBytes": str(max(task_bytes, 1 << 20))}
    source = relation_over(statement, snapshot, listed, position=(file, row), settings=packing)
    keys = [Column(column.name) for column in index.columns]
    query = select(
        Alias(hash_expression(index.columns, keys), "h"),
        Alias(Column(file), "f"),
        Alias(Column(row), "r"),
        rows=source,
        where=every(*map(is_not_null, keys)),
        sort_by=[Column("h")],
    )
    folder = folder_of(snapshot.table_path, index.name)
    written = statement.write(
        WriteSpecification(
            path=folder,
            query=query.text(),
            schema=_STORED,
            partition_by=[],
            partitions_in_files=[],
            statistics=[],
            small_job=structs.replace(SMALL_JOB, settings=SMALL_JOB.settings | _WHOLE_FILES),
            settings=_WHOLE_FILES,
            options=_OPTIONS,
        )
    )
    store = snapshot.store
    parts = [described(store, folder, each.path, each.size) for each in written if each.rows]
    covering = list(zip(files["path"].to_pylist(), files["size"].to_pylist(), strict=True))
    put_segment(store, folder, snapshot.metadata.id, index, covering, parts)
    # What was put stays, whatever becomes of the rest of the statement.
    statement.begin_inner_commit()
    statement.end_inner_commit()
    return sum(part.rows for part in parts), sum(part.size for part in parts)
