"""What a SELECT reads: the files of its scans, and aggregates that the log answers.

Promise: a scan lists every file that may hold a matching row.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.basics.times import date_text
from headwater.bridge.messages.read import (
    AggregateAnswer,
    AggregateRequest,
    ColumnStatistics,
    FileListAnswer,
    ScanRequest,
    ScansRequest,
    ScanStatistics,
)
from headwater.bridge.statement import Statement
from headwater.log.snapshot import Snapshot
from headwater.pruning import aggregate_from_log, estimate, prune_all
from headwater.pruning.limits import Order, first_rows
from headwater.pruning.predicates import Predicate, decode
from headwater.statements.calls import reads
from headwater.statements.files.file_lists import ROW_TRACKING, answer_files, tracks_rows
from headwater.statements.files.indexed_rows import by_predicates
from headwater.statements.maintenance import predicate_use
from headwater.statements.running.opening import (
    note_read,
    open_same,
)

#: What a scan needs of a file; its statistics' text, the bulk of a snapshot, is not among it.
_LISTED = ("path", "size", "modification_time", "deletion_vector", "partition_values")


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
    files = every = snapshot.select((*_LISTED, *ROW_TRACKING) if tracks_rows(snapshot) else _LISTED)
    mask = _chosen(request, snapshot, predicates)
    indexed = None
    if mask is not None and request.limit is None:
        indexed = by_predicates(statement, snapshot, predicates, mask)
        mask = mask if indexed is None else indexed.files
    if mask is not None and mask.true_count == len(mask):
        mask = None
    if mask is not None:
        files = every.filter(mask)
    if predicates:
        predicate_use.note(snapshot, predicates, statement, pc.sum(files["size"]).as_py() or 0)
    statistics = None if request.columns is None else _statistics(snapshot, mask, request.columns)
    answer = answer_files(snapshot, files, statement, all_files=every.num_rows, statistics=statistics)
    answer.index = None if indexed is None else indexed.name
    return answer


def _chosen(request: ScanRequest, snapshot: Snapshot, predicates: Sequence[Predicate]) -> pa.BooleanArray | None:
    """A boolean a file; ``None`` for all of them."""
    if request.limit is None:
        return prune_all(snapshot, predicates) if predicates else None
    by = request.order
    order = None if by is None else Order(by.column, by.descending, by.nulls_first)
    return first_rows(snapshot, predicates, request.limit, order)


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


@reads
def aggregate(request: AggregateRequest, statement: Statement) -> AggregateAnswer | None:
    """The rows of an aggregate where the log holds them exactly; None if it does not."""
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
