"""Copying rows of data files into other files.

Owns the job that copies bins, of :mod:`headwater.statements.files.copied_rows`: a task a bin reads the bin's files one
after another and writes one file, so rows keep their order, unless the caller's query arranges them otherwise. Owns the
settings for how large files become. Follows the protocol's chapter "Deletion Vectors". Promises: every live row is in
the copies once; nothing here commits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa
from msgspec.structs import replace

from headwater.bridge.messages.callbacks import WriteSpecification
from headwater.bridge.statement import Statement
from headwater.log.snapshot import Snapshot
from headwater.protocol.actions import AddFile
from headwater.protocol.table_definition import TableDefinition
from headwater.sql.composing import Column, Query, Rows, select
from headwater.statements.files.bins import Bin
from headwater.statements.files.copied_rows import CopiedRows, check_none_lost, copy_job
from headwater.statements.files.cubes import in_cube_of
from headwater.statements.files.data_footers import live_rows
from headwater.statements.files.rows import Target, describe_files
from headwater.statements.running.committing import removals
from headwater.statements.settings import OPTIMIZE_MAX_SIZE, file_size
from headwater.transaction.moved_rows import Copy

#: How ``HeadwaterCommitProtocol`` begins the name of a file: with the number of the task that wrote it.
_PART = re.compile(r"(?:^|/)part-(\d+)-")


def max_file_size(statement: Statement, definition: TableDefinition) -> int:
    """How large a file may become by copying others of a table into it, in bytes.

    :raises HeadwaterError: ``DELTA_ILLEGAL_OPTION``.
    """
    return file_size(OPTIMIZE_MAX_SIZE, statement, definition)


class Packed(NamedTuple):
    """Files that a job copies: rows of ``snapshot.files``, and how many live rows each has."""

    files: pa.Table
    live: list[int]

    @staticmethod
    def of(snapshot: Snapshot, files: pa.Table, bins: Sequence[Bin]) -> Packed:
        """The files of bins, bin by bin."""
        positions = [position for each in bins for position in each.positions]
        packed = files.take(pa.array(positions, pa.int64()))
        return Packed(packed, live_rows(snapshot, packed))


#: Makes the query of a copy, of the files, a relation of their rows, and the columns that the copy has.
Arranged = Callable[[Packed, Rows, Sequence[Column]], Query]


def copy_bins(
    statement: Statement,
    snapshot: Snapshot,
    files: pa.Table,
    bins: Sequence[Bin],
    target: Target,
    arranged: Arranged | None = None,
) -> list[Copy]:
    """Copy bins of files, the deleted rows left out, each into one file.

    :param files: rows of ``snapshot.files``, which the bins' positions are of.
    :param target: the table as it will be; it has the columns that it has.
    :param arranged: for rows in another order: a query that keeps the rows of each task in it.
    :raises HeadwaterError: ``DELTA_NUM_RECORDS_MISMATCH`` if a row would be lost.
    """
    if not bins:
        return []
    packed = Packed.of(snapshot, files, bins)
    tasks = [len(each.positions) for each in bins]
    made = _copied(statement, snapshot, packed, target, arranged or _as_they_are, tasks)
    outputs: list[list[AddFile]] = [[] for _ in bins]
    for output in made:
        outputs[_task_of(output)].append(output)
    sources = removals(packed.files, data_change=False)
    copies: list[Copy] = []
    start = 0
    for count, files_of_bin in zip(tasks, outputs, strict=True):
        end = start + count
        if arranged is None:
            files_of_bin = in_cube_of(packed.files.slice(start, count), files_of_bin, snapshot.schema, target.schema)
        copies.append(Copy(sources[start:end], packed.live[start:end], files_of_bin, in_order=arranged is None))
        start = end
    return copies


def copy_bin(
    statement: Statement, snapshot: Snapshot, files: pa.Table, each: Bin, target: Target, arranged: Arranged
) -> Copy:
    """Copy a bin of files, the deleted rows left out, into as many files as its query makes tasks; as
    :func:`copy_bins`."""
    packed = Packed.of(snapshot, files, [each])
    made = _copied(statement, snapshot, packed, target, arranged, ())
    return Copy(removals(packed.files, data_change=False), packed.live, made, in_order=False)


def _as_they_are(packed: Packed, rows: Rows, columns: Sequence[Column]) -> Query:
    return select(*columns, rows=rows)


def _copied(
    statement: Statement,
    snapshot: Snapshot,
    packed: Packed,
    target: Target,
    arranged: Arranged,
    tasks: Sequence[int],
) -> list[AddFile]:
    """The copies of files.

    :param tasks: how many files each task reads, in order; without it, Spark packs the files into tasks.
    """
    copied = CopiedRows.of(statement, snapshot, packed.files, tasks)
    query = arranged(packed, copied.rows, copied.selected)
    job = _without_sort(copy_job(target, query, copied.hidden))
    written = describe_files(target, statement.write(job), False)
    check_none_lost(snapshot.table_path, sum(packed.live), written.rows)
    return written.files


def _without_sort(job: WriteSpecification) -> WriteSpecification:
    """A job whose rows stay as they are: Spark sorts the rows of each task by the partition columns, unless a task may
    write several files at once. Here, all rows of a task are of one partition.
    """
    settings = {"spark.sql.maxConcurrentOutputFileWriters": "2"}
    small = replace(job.small_job, settings={**job.small_job.settings, **settings})
    return replace(job, settings={**job.settings, **settings}, small_job=small)


def _task_of(output: AddFile) -> int:
    """The number of the task, and so of the bin, that wrote a file."""
    found = _PART.search(output.path)
    assert found is not None, output.path
    return int(found[1])
