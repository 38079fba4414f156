"""Rows that a table already has, checked against a condition that every row must meet from now on.

Owns the check of NOT NULL and CHECK constraints when they are declared. Data skipping answers first: only files whose
statistics leave the answer open are read, in one job. Promise: a table with a violating row is refused, and the error
shows one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.bridge.statement import Statement
from headwater.log.files import canonical_path
from headwater.log.snapshot import Snapshot
from headwater.protocol.columns import parse_name
from headwater.protocol.types import schema_string
from headwater.pruning import leaves_rows
from headwater.pruning.predicates import UNKNOWN, Column, IsNull, Not, Predicate
from headwater.schema import visible
from headwater.schema.constraints import NOT_NULL
from headwater.sql.composing import STAR, Alias, call, every, select
from headwater.statements.files.file_lists import relation_over
from headwater.statements.files.rows import Target, check_conditions, stored_in_log
from headwater.statements.tables.draft import RowCheck


def check_existing_rows(
    checks: Sequence[RowCheck], snapshot: Snapshot, statement: Statement, proven: Snapshot | None = None
) -> None:
    """Return if every row of a snapshot meets the checks.

    :param proven: a version whose rows are known to meet them: only files that are new since then are looked at.
    :raises HeadwaterError: the error condition of the first check that a row violates, with that row.
    """
    files = snapshot.files
    concerned = _new_files(files, proven)
    open_checks: list[RowCheck] = []
    doubtful = pa.array(np.zeros(files.num_rows, bool))
    for check in checks:
        may_violate = pc.and_(concerned, leaves_rows(snapshot, [_predicate(check, snapshot, statement)]))
        if pc.any(may_violate).as_py():
            open_checks.append(check)
            doubtful = pc.or_(doubtful, may_violate)
    if open_checks:
        _read(open_checks, snapshot, files.filter(doubtful), statement)


def _new_files(files: pa.Table, proven: Snapshot | None) -> pa.Array:
    """Which of a snapshot's files were not in an earlier version."""
    if proven is None:
        return pa.array(np.ones(files.num_rows, bool))
    known = {canonical_path(path) for path in proven.files["path"].to_pylist()}
    return pa.array([canonical_path(path) not in known for path in files["path"].to_pylist()], pa.bool_())


def _predicate(check: RowCheck, snapshot: Snapshot, statement: Statement) -> Predicate:
    if check.check.kind == NOT_NULL:
        return Not(IsNull(Column(tuple(parse_name(check.check.name)))))
    condition = statement.condition(check.check.sql, schema_string(visible.for_reading(snapshot.schema)))
    return condition.predicate if condition.columns is not None else UNKNOWN


def _read(checks: Sequence[RowCheck], snapshot: Snapshot, files: pa.Table, statement: Statement) -> None:
    rows = relation_over(statement, snapshot, files)
    target = Target(snapshot.table_path, snapshot.definition)
    conditions = check_conditions([*checks], target, stored_in_log(statement))
    holds = every(*conditions)
    assert holds is not None
    statement.step("check the rows of the table")
    statement.query(select(Alias(call("count", STAR), "rows"), rows=rows, where=holds).text())
