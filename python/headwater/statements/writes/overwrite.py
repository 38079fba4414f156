"""Overwrites: which files a write replaces, and which of their rows it keeps.

Owns the three ways of overwriting. Everything: all files are removed. By partition: the files of the partitions written
to are removed. By predicate (``replaceWhere``): files with matching rows are removed, and their other rows are copied
into new files.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headwater.basics.errors import HeadwaterError
from headwater.bridge.statement import Statement
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.actions import AddFile
from headwater.protocol.partition_values import parse_value
from headwater.protocol.types import PrimitiveType, StructField, schema_string
from headwater.pruning import leaves_rows, predicates, prune
from headwater.pruning.predicates import UNKNOWN, And, Comparison, Or, Predicate
from headwater.schema import visible
from headwater.schema.constraints import Check
from headwater.sql.composing import FALSE, Not, call, select
from headwater.statements.files.change_data import change_column, deleted_rows, with_changes
from headwater.statements.files.copied_rows import CopiedRows, copy_job
from headwater.statements.files.data_footers import live_rows
from headwater.statements.files.distribution import Gathering, gathering
from headwater.statements.files.partitions import in_partitions
from headwater.statements.files.rows import Target, Written, describe_files, parsed_by_spark
from headwater.statements.files.unused import delete_unused
from headwater.statements.running.committing import removals
from headwater.statements.running.opening import Options
from headwater.statements.settings import REPLACE_CHECKS_ROWS, REPLACES_BY_ANY_COLUMN
from headwater.transaction import Transaction


@dataclass(frozen=True)
class Overwrite:
    """What a write replaces. ``kind``: ``append`` (nothing), ``all``, ``dynamic`` (partitions written to),
    ``predicate``.

    :param predicate: as the user wrote it.
    :param plain: the same as Spark resolves it; unknown if it depends on more than the values of one row.
    """

    kind: str
    predicate: str | None = None
    plain: Predicate = UNKNOWN


def needs_change_data(snapshot: Snapshot, overwrite: Overwrite, data_change: bool) -> bool:
    """Whether the write needs change data. Where it removes and adds whole files, the log itself has the changes."""
    if overwrite.predicate is None or not data_change:
        return False
    if not snapshot.definition.get(properties.CHANGE_DATA_FEED):
        return False
    return bool(_matching(snapshot, overwrite)[1].num_rows > 0)


def remove_replaced(
    statement: Statement,
    txn: Transaction,
    snapshot: Snapshot,
    overwrite: Overwrite,
    *,
    written: Written,
    data_change: bool,
    changes: bool,
    options: Options,
) -> tuple[Written, pa.Table]:
    """Remove what the write replaces. Returns the rows copied and the rows of ``snapshot.files`` removed.

    :param written: the write's own rows.
    :param changes: whether each removed row is written as change data.
    :param options: the write's.
    """
    removed = snapshot.files.slice(0, 0)
    kept = Written()
    if overwrite.kind == "all":
        txn.read_whole_table()
        removed = snapshot.files
    elif overwrite.kind == "dynamic":
        predicate = _partitions_predicate(snapshot, written.files)
        if predicate is not None:
            txn.read_where([predicate])
            files, columns = snapshot.files, txn.definition.partition_fields
            partitions = [file.partition_values for file in written.files]
            removed = files.filter(in_partitions(statement, files["partition_values"], columns, partitions))
    elif overwrite.predicate is not None:
        if overwrite.plain == UNKNOWN:
            txn.read_whole_table()
        else:
            txn.read_where([overwrite.plain])
        removed, mixed = _matching(snapshot, overwrite)
        if mixed.num_rows:
            # Where a commit has change data files, readers of changes read nothing else: then these need every row.
            kept = _copy_others(
                statement,
                snapshot,
                overwrite.predicate,
                files=removed if changes else mixed,
                data_change=data_change,
                changes=changes,
                gathered=gathering(statement, snapshot.definition, options),
            )
            if changes and not kept.changes and not written.files:
                # No row is removed or added. The copies would read as changes.
                delete_unused(txn.store, snapshot.table_path, [file.path for file in kept.files])
                return Written(), removed.slice(0, 0)
    txn.remove(removals(removed, data_change))
    return kept, removed


def replaced_metrics(
    snapshot: Snapshot, overwrite: Overwrite, written: Written, kept: Written, removed: pa.Table
) -> dict[str, int]:
    """The operation metrics of what a write replaced; rows are counted where they are those of a predicate.

    :param kept: the rows copied, with ``removed`` as :func:`remove_replaced` returns them.
    """
    if overwrite.kind == "append":
        return {}
    metrics = {"numRemovedFiles": removed.num_rows, "numRemovedBytes": pc.sum(removed["size"]).as_py() or 0}
    if overwrite.predicate is not None:
        copied = sum(file.num_records or 0 for file in kept.files)
        metrics["numDeletedRows"] = sum(live_rows(snapshot, removed)) - copied
        metrics["numCopiedRows"] = copied
        metrics["numAddedChangeFiles"] = len(written.changes) + len(kept.changes)
    return metrics


def _matching(snapshot: Snapshot, overwrite: Overwrite) -> tuple[pa.Table, pa.Table]:
    """The files that may have matching rows, and those of them that may have others too; rows of
    ``snapshot.files``."""
    matching = prune(snapshot, overwrite.plain)
    both = pc.and_(matching, leaves_rows(snapshot, [overwrite.plain]))
    return snapshot.files.filter(matching), snapshot.files.filter(both)


def _copy_others(
    statement: Statement,
    snapshot: Snapshot,
    predicate: str,
    *,
    files: pa.Table,
    data_change: bool,
    changes: bool,
    gathered: Gathering | None,
) -> Written:
    """Copy the rows for which a predicate is not true, with the columns the table had before the write."""
    copied = CopiedRows.of(statement, snapshot, files)
    matches = parsed_by_spark(statement)(predicate)
    target = Target(snapshot.table_path, snapshot.definition)
    if changes:
        query = deleted_rows(snapshot.schema, copied.rows, matches, copied.row_ids)
    else:
        query = select(*copied.selected, rows=copied.rows, where=Not(call("coalesce", matches, FALSE)))
    job = copy_job(target, query, copied.hidden, gathered=gathered)
    if changes:
        job = with_changes(job, change_column(snapshot.schema))
    statement.step("copy rows that are not replaced")
    return describe_files(target, statement.write(job), data_change, has_pairs=True)


def replace_where(statement: Statement, snapshot: Snapshot, predicate: str) -> Overwrite:
    """The rows a predicate holds for; Spark's own error for one that is no condition over the table.

    :raises HeadwaterError: ``DELTA_NON_PARTITION_COLUMN_REFERENCE`` if the session allows only partition columns.
    """
    condition = statement.condition(predicate, schema_string(visible.for_reading(snapshot.schema)))
    any_column = REPLACES_BY_ANY_COLUMN.of(statement)
    partitions = {name.lower() for name in snapshot.partition_columns}
    columns = condition.columns
    if not any_column and (columns is None or not {name.lower() for name in columns} <= partitions):
        others = sorted(name for name in columns or () if name.lower() not in partitions)
        hint = f"Use them alone, or set {REPLACES_BY_ANY_COLUMN.name} to true."
        raise HeadwaterError(
            "DELTA_NON_PARTITION_COLUMN_REFERENCE",
            {
                "predicate": predicate,
                "columnName": ", ".join(others) or "more than the values of a row",
                "columnList": ", ".join(snapshot.partition_columns) or "there are none",
                "hint": hint,
            },
        )
    return Overwrite("predicate", predicate, UNKNOWN if columns is None else condition.predicate)


def row_checks(overwrite: Overwrite, statement: Statement) -> list[tuple[Check, str]]:
    """What the written rows must meet, as :func:`~headwater.statements.files.rows.write_rows` takes it: the predicate
    of the rows that they replace, unless the session switches the check off.
    """
    if overwrite.predicate is None or not REPLACE_CHECKS_ROWS.of(statement):
        return []
    return [(Check("replaceWhere", overwrite.predicate, "check"), "DELTA_REPLACE_WHERE_MISMATCH")]


def _partitions_predicate(snapshot: Snapshot, written: Iterable[AddFile]) -> Predicate | None:
    """The partitions written to, as a predicate; None if nothing was written."""
    combinations = {tuple(sorted(file.partition_values.items())) for file in written}
    fields = {field.physical_name: field for field in snapshot.definition.partition_fields}
    alternatives = [And(tuple(_equals(fields[name], text) for name, text in c)) for c in combinations]
    return Or(tuple(alternatives)) if alternatives else None


def _equals(column: StructField, text: str | None) -> Predicate:
    """That a partition column has the value of a text of the log."""
    if text and column.type == PrimitiveType("timestamp"):
        return UNKNOWN  # without a zone in the text, the value is its writer's
    try:
        value = predicates.literal(column.type, parse_value(text, column.type))
    except (ValueError, ArithmeticError):
        return UNKNOWN
    return Comparison("<=>", predicates.Column((column.name,)), value)
