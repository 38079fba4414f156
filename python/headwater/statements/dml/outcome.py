"""The job of a rewrite, and its effect on the table's files.

Owns the job and its result: the files and change data it wrote, the positions of the rows it replaced by file, the
number of rows of each action. And what follows from these: a file is removed once all of its rows are replaced; of
other files, the replaced rows are marked in a deletion vector, or the unchanged rows are copied into new files. Follows
the protocol's chapters "Deletion Vectors" and "Add CDC File".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from msgspec.structs import replace
from pyroaring import BitMap64

from headwater.bridge.messages.callbacks import WriteSpecification, WrittenFile
from headwater.log import deletion_vectors
from headwater.log.files import file_of, vector_of
from headwater.protocol.actions import AddCDCFile, AddFile, DeletionVector
from headwater.protocol.types import StructType, schema_string
from headwater.sql.composing import Alias, Column, Expression, Query, Resolved, select
from headwater.statements.dml.attempt import Attempt
from headwater.statements.dml.encodings import writer_options
from headwater.statements.dml.rewrite import Rewrite
from headwater.statements.dml.scan import Scan, scan_files
from headwater.statements.files.change_data import is_change_file, with_changes
from headwater.statements.files.copied_rows import check_none_lost, copy_job
from headwater.statements.files.data_footers import live_rows, physical_rows
from headwater.statements.files.judging import unstaged
from headwater.statements.files.row_ids import with_row_ids
from headwater.statements.files.rows import STATIC_PLAN_SETTINGS, Written, describe_files, is_void, specification
from headwater.statements.files.unused import delete_unused
from headwater.statements.running.committing import removals
from headwater.statements.settings import MOST_RECORDS_PER_FILE
from headwater.transaction.row_level import Mark, marked_file

#: A single file up to this size is rewritten by the job that looks for the rows to replace, though it may have none
#: (bench cases ``update-small`` and ``delete-small``, whose files are far smaller; none measures the limit).
_SMALL_FILE_BYTES = 16 << 20


@dataclass
class Job:
    """The result of a rewrite's job.

    :param positions: the positions of the replaced rows, by file number of the scan.
    :param actions: the number of rows of each action.
    :param repeated: the number of target rows that were replaced more than once.
    :param source: the numbers of the source rows that have a match, where the rewrite notes them.
    :param source_rows: the number of source rows, where the rewrite counts them.
    :param raw: the files as the writer described them, without those of change data; those with rows for the quarantine
        table as well.
    """

    written: Written
    changes: list[AddCDCFile]
    positions: dict[int, BitMap64]
    actions: dict[int, int]
    repeated: int
    source: BitMap64
    source_rows: int
    raw: list[WrittenFile]

    @property
    def replaced(self) -> int:
        """The number of target rows that are replaced."""
        return sum(len(positions) for positions in self.positions.values())


def steps(attempt: Attempt, whole: bool) -> int:
    """How many jobs it takes to replace rows, the one that finds them included.

    :param whole: whether that job also writes the unchanged rows of the files.
    """
    return 1 if whole or attempt.writes_vectors else 2


def run_job(
    attempt: Attempt, rewrite: Rewrite, replaced: pa.Table | None = None, *, planned_ahead: bool = False
) -> Job:
    """Run a rewrite.

    :param replaced: the files whose rows it may write, as rows of ``snapshot.files``.
    :param planned_ahead: whether Spark plans it once, without adaptive execution, as nothing is shuffled unless the
        rows are gathered.
    """
    specification = _specification(attempt, rewrite, replaced)
    if planned_ahead and not rewrite.is_gathered:
        specification = replace(specification, settings=STATIC_PLAN_SETTINGS)
    answer = attempt.statement.write_tracked(specification)
    tracked = answer.tracked
    assert tracked is not None
    has_pairs = rewrite.has_pairs and not _cuts_files(attempt, specification)
    files, staged = unstaged(answer.files)
    actions = tracked.actions
    if rewrite.judging is not None:
        actions, found = rewrite.judging.counts(actions)
        found.staged = staged
        attempt.violations.add(found)
    written = describe_files(attempt.target, files, True, has_pairs=has_pairs)
    return Job(
        written=written,
        changes=written.changes,
        positions={number: BitMap64.deserialize(bitmap) for number, bitmap in tracked.positions.items()},
        actions=actions,
        repeated=tracked.repeated,
        source=BitMap64.deserialize(tracked.source),
        source_rows=answer.counted,
        raw=[*(file for file in files if not is_change_file(file)), *staged],
    )


def _cuts_files(attempt: Attempt, specification: WriteSpecification) -> bool:
    """Whether a task begins another file after some number of rows, which may part a pair."""
    most = specification.options.get("maxRecordsPerFile") or MOST_RECORDS_PER_FILE.of(attempt.statement)
    return most.strip().isdecimal() and int(most) > 0


def _specification(attempt: Attempt, rewrite: Rewrite, replaced: pa.Table | None) -> WriteSpecification:
    # Rows that are not written need no options.
    hidden = attempt.hidden_columns if rewrite.has_row_ids else None
    spec = specification(attempt.target, rewrite.query, attempt.request.options, is_gathered=rewrite.is_gathered)
    if replaced is not None and rewrite.has_rows:
        spec = _written_as(attempt, replaced, spec)
    spec = replace(with_row_ids(spec, hidden, attempt.target), tracked=True)
    if not rewrite.has_rows:
        return replace(spec, schema=schema_string(StructType(())), partition_by=[])
    if not rewrite.has_changes:
        return spec
    return with_changes(spec, attempt.request.names.change, stages=rewrite.stages)


def _written_as(attempt: Attempt, replaced: pa.Table, job: WriteSpecification) -> WriteSpecification:
    """A job that encodes columns as the files do whose rows it writes: ``replaced``, rows of ``snapshot.files``."""
    return replace(job, options=job.options | writer_options(attempt, replaced))


@dataclass
class Effect:
    """What a statement does to files.

    :param removed: the numbers of files that get a tombstone.
    :param marked: those of them that are added again with a deletion vector, by number.
    :param copied: the files with copies of unchanged rows.
    """

    removed: list[int] = field(default_factory=list)
    marked: dict[int, AddFile] = field(default_factory=dict)
    copied: Written = field(default_factory=Written)
    vectors_added: int = 0
    vectors_updated: int = 0
    vectors_removed: int = 0

    @property
    def files_gone(self) -> int:
        """How many files are no longer part of the table, with any deletion vector."""
        return len(self.removed) - len(self.marked)


def replace_rows(attempt: Attempt, scanned: Scan, positions: Mapping[int, BitMap64]) -> Effect:
    """Remove rows from files.

    The transaction gets a tombstone for each file and, for files with unchanged rows, either the file with a deletion
    vector or new files with copies of these rows.
    """
    effect = Effect()
    rows = scanned.files.take(pa.array(sorted(positions), pa.int64())).to_pylist()
    partly: dict[int, BitMap64] = {}
    by_number = dict(zip(sorted(positions), rows, strict=True))
    for number, row in by_number.items():
        effect.removed.append(number)
        gone = positions[number]
        before = vector_of(row["deletion_vector"])
        if before is not None:
            gone = gone | deletion_vectors.read(before, attempt.snapshot.table_path, attempt.snapshot.store)
        if len(gone) < physical_rows(attempt.snapshot, row):
            partly[number] = gone
        elif before is not None:
            effect.vectors_removed += 1
    if partly and attempt.writes_vectors:
        _mark(attempt, effect, {number: by_number[number] for number in partly}, partly)
    elif partly:
        effect.copied = _copy(attempt, scanned, partly)
    removed = scanned.files.take(pa.array(effect.removed, pa.int64()))
    tombstones = dict(zip(effect.removed, removals(removed), strict=True))
    if _may_share_files(attempt):
        for number, add in effect.marked.items():
            rows_in_file = physical_rows(attempt.snapshot, by_number[number])
            attempt.txn.mark(Mark(tombstones.pop(number), add, positions[number], rows_in_file))
    else:
        attempt.txn.add(effect.marked.values())
    attempt.txn.remove(tombstones.values())
    attempt.txn.add(effect.copied.files)
    return effect


def _may_share_files(attempt: Attempt) -> bool:
    """Whether another writer may mark other rows of the same files (row-level concurrency).

    The rows the statement depends on must be known by their keys, or be the rows it marks. They are more than those
    where the source or a subquery reads the table too, or where rows are inserted because none matched.
    """
    txn = attempt.txn
    return txn.reads_keys or (not txn.reads_whole_table and not attempt.request.not_matched)


def replaces_whole(attempt: Attempt, files: pa.Table) -> bool:
    """Whether the job that finds the rows also writes the unchanged rows, if there is one small file, to save a job.

    Not with Python functions, which would run for rows the condition is not true for; nor with expectations, which
    may leave a row of the table in its place.
    """
    request = attempt.request
    if (
        attempt.writes_vectors
        or attempt.judging is not None
        or request.message.condition is None
        or request.message.runs_python
        or files.num_rows != 1
    ):
        return False
    return int(files["size"][0].as_py()) <= _SMALL_FILE_BYTES


def kept_rows(job: Job, new: int) -> int:
    """How many of the rows a job wrote are unchanged; ``new``: how many are not."""
    return job.written.rows - new


def replace_whole_files(attempt: Attempt, scanned: Scan, job: Job, new: int) -> Effect:
    """Remove all files, whose unchanged rows the job wrote into its own; none is removed if no row is replaced.

    :param new: how many of the rows written are not unchanged rows of the files.
    """
    if not job.positions:
        unused = [*(file.path for file in job.written.files), *(change.path for change in job.changes)]
        delete_unused(attempt.txn.store, attempt.snapshot.table_path, unused)
        job.written, job.changes = Written(), []
        return Effect()
    rows = sum(live_rows(attempt.snapshot, scanned.files))
    check_none_lost(attempt.snapshot.table_path, rows, job.replaced + kept_rows(job, new))
    vectors = scanned.files.num_rows - scanned.files["deletion_vector"].null_count
    attempt.txn.remove(removals(scanned.files))
    attempt.txn.add(job.written.files)
    copied = Written(files=job.written.files, rows=kept_rows(job, new))
    job.written = Written()
    return Effect(removed=list(range(scanned.files.num_rows)), copied=copied, vectors_removed=vectors)


def _mark(attempt: Attempt, effect: Effect, rows: Mapping[int, Any], gone: Mapping[int, BitMap64]) -> None:
    table, store = attempt.snapshot.table_path, attempt.snapshot.store
    written = deletion_vectors.write_file([gone[number] for number in rows], table, store)
    for (number, row), vector in zip(rows.items(), written, strict=True):
        if row["deletion_vector"] is None:
            effect.vectors_added += 1
        else:
            effect.vectors_updated += 1
        effect.marked[number] = _marked(attempt, row, vector)


def _marked(attempt: Attempt, row: Mapping[str, Any], vector: DeletionVector) -> AddFile:
    marked = marked_file(file_of(row), vector, physical_rows(attempt.snapshot, row))
    return dataclasses.replace(marked, data_change=True)


def _copy(attempt: Attempt, scanned: Scan, gone: Mapping[int, BitMap64]) -> Written:
    """Copy the unchanged rows into new files."""
    numbers = sorted(gone)
    files = scanned.files.take(pa.array(numbers, pa.int64()))
    left_out = {i: gone[number] for i, number in enumerate(numbers)}
    query = _copies(attempt, scan_files(attempt, files, left_out, every_row=True))
    attempt.statement.last_step("copy the other rows of changed files")
    job = copy_job(attempt.target, query, attempt.hidden_columns, attempt.request.options, attempt.gathered)
    listed = attempt.statement.write(_written_as(attempt, files, job))
    written = describe_files(attempt.target, listed, True)
    rows = sum(physical_rows(attempt.snapshot, row) for row in files.to_pylist())
    check_none_lost(attempt.snapshot.table_path, rows, sum(map(len, gone.values())) + written.rows)
    return written


def _copies(attempt: Attempt, scanned: Scan) -> Query:
    """The rows of a scan with the table's columns, and row ids where it has them."""
    columns: list[Expression] = [
        Alias(Resolved(number), column.name)
        for number, column in zip(attempt.request.message.columns, attempt.target.schema, strict=True)
        if not is_void(column)
    ]
    if attempt.hidden_columns is not None:
        columns += [Column(attempt.request.names.row_id), Column(attempt.request.names.row_commit_version)]
    return select(*columns, rows=scanned.rows)
