"""Copying data files, several into one, so that the same rows lie in other files.

Owns the job that copies: a task a bin reads the bin's files one after another and writes one file, so rows keep their
order. Owns the settings for how large files become. Follows the protocol's chapters "Deletion Vectors" and "Row
Tracking". Promises: every live row is in the copies once, in order, with its row id; nothing here commits.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from headwater.bridge.messages.callbacks import WriteSpecification
from headwater.bridge.statement import Statement
from headwater.errors import HeadwaterError
from headwater.log.snapshot import Snapshot
from headwater.protocol.actions import AddFile
from headwater.protocol.row_tracking import hidden_columns
from headwater.sql.composing import Column, select
from headwater.statements.committing import removals, vector_of
from headwater.statements.internal_names import InternalNames
from headwater.statements.maintain.bins import Bin
from headwater.statements.opening import Options
from headwater.statements.read.data_footers import data_footer
from headwater.statements.read.scans import relation_over
from headwater.statements.write.row_ids import with_row_ids
from headwater.statements.write.rows import Target, describe_files, is_void, specification
from headwater.transaction.moved_rows import Copy

MAX_FILE_SIZE = "spark.databricks.delta.optimize.maxFileSize"
#: Bytes; the default of the format's other writers.
DEFAULT_FILE_SIZE = 1 << 30
#: How the names of the tags begin that say which cube of a clustered table a file is of.
_CUBE = "ZCUBE_"
#: How ``HeadwaterCommitProtocol`` begins the name of a file: with the number of the task that wrote it.
_PART = re.compile(r"(?:^|/)part-(\d+)-")


def max_file_size(statement: Statement) -> int:
    """How large a file may become by copying others into it, in bytes.

    :raises HeadwaterError: ``DELTA_ILLEGAL_OPTION``.
    """
    return statement.whole_number(MAX_FILE_SIZE, DEFAULT_FILE_SIZE)


def copy_bins(
    statement: Statement, snapshot: Snapshot, files: pa.Table, bins: Sequence[Bin], target: Target
) -> list[Copy]:
    """Copy bins of files, the deleted rows left out, each into one file.

    :param files: rows of ``snapshot.files``, which the bins' positions are of.
    :param target: the table as it will be; it has the columns that it has.
    :raises HeadwaterError: ``DELTA_INTERNAL_ERROR`` where a row would be lost.
    """
    if not bins:
        return []
    packed = files.take(pa.array([position for each in bins for position in each.positions], pa.int64()))
    hidden = hidden_columns(snapshot.protocol, snapshot.metadata)
    names = InternalNames.beside([*snapshot.schema.names, *(column.physical_name for column in snapshot.schema)])
    row_ids = [] if hidden is None else [names.of("row_id"), names.of("row_commit_version")]
    rows = relation_over(statement, snapshot, packed, row_ids, [len(each.positions) for each in bins])
    columns = [Column(column.name) for column in snapshot.schema if not is_void(column)]
    query = select(*columns, *map(Column, row_ids), rows=rows)
    job = with_row_ids(_without_sort(specification(target, query, Options(None))), hidden, target)
    written = describe_files(target, statement.write(job), False)
    outputs: list[list[AddFile]] = [[] for _ in bins]
    for output in written.files:
        outputs[_task_of(output)].append(output)
    sources = removals(packed, data_change=False)
    live = [_live_rows(snapshot, row) for row in packed.to_pylist()]
    if written.rows != sum(live):
        reason = f"{sum(live)} rows are to be copied, and {written.rows} were; nothing was committed"
        raise HeadwaterError("DELTA_INTERNAL_ERROR", {"reason": reason})
    copies: list[Copy] = []
    start = 0
    for each, made in zip(bins, outputs, strict=True):
        end = start + len(each.positions)
        copies.append(Copy(sources[start:end], live[start:end], _laid_out_as(packed.slice(start, end - start), made)))
        start = end
    return copies


def _laid_out_as(sources: pa.Table, outputs: list[AddFile]) -> list[AddFile]:
    """The copies of files of one cube are of that cube; in clustered tables, they would be clustered again."""
    cubes = {
        (row["clustering_provider"], tuple((key, value) for key, value in row["tags"] or () if key.startswith(_CUBE)))
        for row in sources.select(["clustering_provider", "tags"]).to_pylist()
    }
    (provider, tags), *others = cubes
    if others or provider is None or not tags:
        return outputs
    cube = dict(tags)
    return [
        dataclasses.replace(each, clustering_provider=provider, tags={**(each.tags or {}), **cube}) for each in outputs
    ]


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


def _live_rows(snapshot: Snapshot, row: Mapping[str, Any]) -> int:
    """The rows of a file that are not deleted; from its footer where the log does not have their number."""
    vector = vector_of(row["deletion_vector"])
    count = json.loads(row["stats"]).get("numRecords") if row["stats"] else None
    if not isinstance(count, int):
        count = data_footer(snapshot, row["path"], row["size"]).num_rows
    return int(count) - (vector.cardinality if vector is not None else 0)
