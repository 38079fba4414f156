"""The change data of a transaction over several statements that none of its statements has written.

Owns the jobs that write it before COMMIT makes one commit of all (:mod:`headwater.groups.net_changes`): where one
statement wrote change data files, rows that others added or deleted must be in such files as well. Promise: each such
row is in them once, or COMMIT fails. What is read and written is bounded by the files that those statements added or
took rows out of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from headwater.bridge.statement import Statement
from headwater.groups.net_changes import DeletedRows
from headwater.log.snapshot import Snapshot
from headwater.protocol.actions import AddCDCFile
from headwater.statements.files.change_data import change_column, changed_rows, with_changes
from headwater.statements.files.copied_rows import check_none_lost
from headwater.statements.files.data_footers import live_rows, physical_rows
from headwater.statements.files.file_lists import relation_over
from headwater.statements.files.rows import Target, describe_files, specification
from headwater.statements.running.open_transactions import OpenTransaction
from headwater.statements.running.opening import CACHE, Options


def record_missing_changes(transaction: OpenTransaction, statement: Statement) -> None:
    """Write what the change data of a transaction lacks, for each table.

    :raises HeadwaterError: those of reading data files, and of writing.
    """
    for log in transaction.written:
        missing = log.missing_changes
        if missing is None:
            continue
        snapshot = CACHE.get(log.table_path, log)
        log.changes = [
            *_inserted(statement, snapshot, [file.path for file in missing.inserted]),
            *_deleted(statement, snapshot, log.pinned, missing.deleted),
        ]


def _inserted(statement: Statement, snapshot: Snapshot, paths: Sequence[str]) -> list[AddCDCFile]:
    files = _with_paths(snapshot, paths)
    return _write(statement, snapshot, files, "insert", {}, sum(live_rows(snapshot, files)))


def _deleted(
    statement: Statement, snapshot: Snapshot, before: Snapshot, deleted: Sequence[DeletedRows]
) -> list[AddCDCFile]:
    """Rows of files of the version that was read, with the columns that the table has now."""
    of_path = {rows.path: rows for rows in deleted}
    files = _with_paths(before, list(of_path))
    gone, expected = {}, 0
    for number, row in enumerate(files.to_pylist()):
        rows = physical_rows(before, row)
        gone[number] = of_path[row["path"]].others(rows)
        expected += rows - len(gone[number])
    return _write(statement, snapshot, files, "delete", gone, expected)


def _with_paths(snapshot: Snapshot, paths: Sequence[str]) -> pa.Table:
    files = snapshot.files.filter(pc.is_in(snapshot.files["path"], pa.array(paths, pa.string())))
    assert files.num_rows == len(paths), (files["path"].to_pylist(), paths)
    return files


def _write(
    statement: Statement,
    snapshot: Snapshot,
    files: pa.Table,
    kind: str,
    gone: Mapping[int, BitMap64],
    expected: int,
) -> list[AddCDCFile]:
    """Write rows of files as change data.

    :param gone: the positions of other rows, by file number.
    :param expected: how many rows there are.
    """
    if not expected:
        return []
    target = Target(snapshot.table_path, snapshot.definition)
    query = changed_rows(target.schema, relation_over(statement, snapshot, files, gone=gone), kind)
    job = with_changes(specification(target, query, Options(None)), change_column(target.schema))
    statement.step("write the change data of statements that wrote none")
    written = statement.write(job)
    check_none_lost(snapshot.table_path, expected, sum(file.rows for file in written))
    # No image of an update is without the other one: there is none.
    return describe_files(target, written, True, has_pairs=True).changes
