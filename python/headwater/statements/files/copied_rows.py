"""Rows of a table that are copied into new files: their columns, their row ids, the job that writes them.

Owns what every copy has, whichever statement makes it: a compaction, an overwrite that keeps other rows, a DELETE,
UPDATE or MERGE without deletion vectors. Follows the protocol's chapter "Row Tracking". Promise: a copy has each live
row of its files with its row id, or nothing is committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.callbacks import WriteSpecification
from headwater.bridge.statement import Statement
from headwater.log.snapshot import Snapshot
from headwater.protocol.row_tracking import HiddenColumns
from headwater.sql.composing import Column, Query, Rows
from headwater.statements.files.distribution import Gathering
from headwater.statements.files.file_lists import relation_over
from headwater.statements.files.row_ids import with_row_ids
from headwater.statements.files.rows import Target, is_void, specification
from headwater.statements.internal_names import InternalNames
from headwater.statements.running.opening import Options


class CopiedRows(NamedTuple):
    """The live rows of files, with the columns that the version has.

    :param columns: without those that no file holds.
    :param row_ids: the columns of row tracking that follow them; none without it.
    :param hidden: what those are called in files.
    """

    rows: Rows
    columns: list[Column]
    row_ids: list[str]
    hidden: HiddenColumns | None

    @staticmethod
    def of(statement: Statement, snapshot: Snapshot, files: pa.Table, tasks: Sequence[int] = ()) -> CopiedRows:
        """The rows of ``files``, rows of ``snapshot.files``.

        :param tasks: how many files each task reads, in order; without it, Spark packs the files into tasks.
        """
        hidden = snapshot.definition.hidden_columns
        names = InternalNames.beside([*snapshot.schema.names, *(column.physical_name for column in snapshot.schema)])
        row_ids = [] if hidden is None else [names.of("row_id"), names.of("row_commit_version")]
        rows = relation_over(statement, snapshot, files, row_ids, tasks)
        columns = [Column(column.name) for column in snapshot.schema if not is_void(column)]
        return CopiedRows(rows, columns, row_ids, hidden)

    @property
    def selected(self) -> list[Column]:
        """The columns of a copy, in order."""
        return [*self.columns, *map(Column, self.row_ids)]


def copy_job(
    target: Target,
    query: Query,
    hidden: HiddenColumns | None,
    options: Options | None = None,
    gathered: Gathering | None = None,
) -> WriteSpecification:
    """A job that writes copies of rows.

    :param query: the rows; their row ids follow the table's columns, unless ``hidden`` is None.
    :param gathered: how rows are gathered before they are written, for an optimized write.
    """
    if gathered is not None:
        query = gathered.of(query, target.partition_columns)
    options = Options(None) if options is None else options
    return with_row_ids(specification(target, query, options, is_gathered=gathered is not None), hidden, target)


def check_none_lost(table_path: str, expected: int, found: int) -> None:
    """Check that no row is lost, whatever mistake of ours or of a file's statistics would lose it.

    :param expected: how many rows the log says that the files have; ``found``: how many were copied or replaced.
    :raises HeadwaterError: ``DELTA_NUM_RECORDS_MISMATCH``.
    """
    if found != expected:
        raise HeadwaterError(
            "DELTA_NUM_RECORDS_MISMATCH", {"tableLocation": table_path, "expected": expected, "found": found}
        )
