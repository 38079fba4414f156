"""The target, restricted to the files a statement may touch.

Owns the relation a rewrite reads: its files and their order, which numbers them; the rows that are left out; and late
materialization: the columns that are read only for rows the condition is true for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from headwater.bridge.messages.callbacks import Restriction
from headwater.protocol.types import PRIMITIVES, DataType, DecimalType, PrimitiveType
from headwater.sql.composing import Relation
from headwater.statements.dml.attempt import Attempt
from headwater.statements.files.file_lists import file_list
from headwater.statements.maintenance import predicate_use
from headwater.statements.reads.loading import pinned_version
from headwater.statements.settings import LATE_FILE_BYTES
from headwater.stores import LocalStore

#: Late materialization opens a file a second time, which does not pay for files of fewer bytes (bench case
#: ``update-few``). The second size is for files that are not local.
_LATE_FILE_BYTES, _LATE_REMOTE_FILE_BYTES = 1 << 20, 16 << 20
#: Late columns are read value by value while at most one row in so many needs them; above that, reading all is faster.
#: With one row in a hundred, the bench case `update-vectors`, both take about the same time.
_ROWS_PER_LATE_VALUE = 64
#: Spark's settings of a scan that reads a few rows of each file: it makes tasks by the bytes of files, of which these
#: rows are few. Tasks of 512 MB are enough (bench ``python -m bench.key_index``), and each writes a file.
_FEW_ROWS_SETTINGS = {"spark.sql.files.maxPartitionBytes": str(512 << 20)}


@dataclass(frozen=True)
class Scan:
    """A relation over ``files``, rows of ``snapshot.files``; a file's number is its row here."""

    files: pa.Table
    plan: int

    @property
    def rows(self) -> Relation:
        """The relation in a query: its rows have the number of their file and their position in it."""
        return Relation(self.plan)


def scan_files(
    attempt: Attempt,
    files: pa.Table,
    gone: Mapping[int, BitMap64] | None = None,
    *,
    every_row: bool = False,
    values_prune: bool = False,
    only: Mapping[str, BitMap64] | None = None,
) -> Scan:
    """A scan of some of the snapshot's files.

    :param gone: as of :func:`~headwater.statements.files.file_lists.file_list`, like ``only``.
    :param every_row: whether all columns of all rows are needed, so that late materialization does not pay.
    :param values_prune: whether the keys of joins and the values of subqueries may leave out more files. A statement
        that reads such keys itself needs no second look.
    """
    snapshot = attempt.snapshot
    listed = file_list(snapshot, files, gone, only)
    plan = attempt.statement.restrict(
        attempt.request.message.target,
        Restriction(
            pinned=pinned_version(snapshot),
            listed_bytes=total_bytes(files),
            lists_deletion_vectors=listed["deletion_vector"].null_count < listed.num_rows,
            late_columns=[] if every_row else _late_columns(attempt, files),
            rows_per_late_value=_ROWS_PER_LATE_VALUE,
            file_column=attempt.request.names.file,
            row_column=attempt.request.names.row,
            row_tracking_columns=_row_tracking_columns(attempt),
            values_prune=values_prune,
            settings=_FEW_ROWS_SETTINGS if _reads_few(files, only or {}) else {},
            files=[list(row.values()) for row in listed.to_pylist()],
        ),
    )
    return Scan(files, plan)


def _reads_few(files: pa.Table, only: Mapping[str, BitMap64]) -> bool:
    """Whether most files, by their bytes, are files of which only some rows are read."""
    if not only:
        return False
    some = files.filter(pc.is_in(files["path"], pa.array(only, pa.string())))
    return 2 * total_bytes(some) >= total_bytes(files)


def _row_tracking_columns(attempt: Attempt) -> list[str]:
    names = attempt.request.names
    return [] if attempt.hidden_columns is None else [names.row_id, names.row_commit_version]


def _late_columns(attempt: Attempt, files: pa.Table) -> list[str]:
    """The columns for late materialization: flat ones that are not in the condition, of files that are large enough."""
    request = attempt.request
    least = _LATE_FILE_BYTES if isinstance(attempt.snapshot.store, LocalStore) else _LATE_REMOTE_FILE_BYTES
    if (given := LATE_FILE_BYTES.of(attempt.statement)) is not None:
        least = given
    if request.message.condition is None or total_bytes(files) < least * files.num_rows:
        return []
    return [
        field.name
        for field in attempt.snapshot.schema
        if _is_flat(field.type) and field.name not in request.condition_columns
    ]


def _is_flat(kind: DataType) -> bool:
    if isinstance(kind, PrimitiveType):
        return kind.name in PRIMITIVES and not pa.types.is_nested(PRIMITIVES[kind.name])
    return isinstance(kind, DecimalType)


def note_predicates(attempt: Attempt, files: pa.Table) -> None:
    """Count what a statement finds its rows by, for proposals of clustering columns.

    :param files: those that it reads.
    """
    keys = [key.column for key in attempt.request.keys]
    predicate_use.note(attempt.snapshot, attempt.request.predicates, attempt.statement, total_bytes(files), keys)


def total_bytes(files: pa.Table) -> int:
    """The size in bytes of rows of ``snapshot.files``."""
    return pc.sum(files["size"]).as_py() or 0
