"""Rows in parts, each of which brings other columns of the table: one write as far as anybody can see.

Owns what the parts have in common: the numbers of identity columns, metrics. Promises:

1. What a part lacks is computed for it as for a write of that part alone (:mod:`.rows`).
2. No number of an identity column is given twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from headwater.bridge.statement import Statement
from headwater.definition.changes import numbered
from headwater.protocol.types import StructField, StructType, parse_schema
from headwater.sql.composing import STAR, Alias, Relation, call, select
from headwater.statements.files.identities import after_rows
from headwater.statements.files.rows import Target, Written, check_rows, write_rows
from headwater.statements.running.opening import Options


class RowsPart(NamedTuple):
    """A plan with rows of the table.

    :param provided: the table's columns that the plan has.
    """

    plan: int
    provided: Sequence[str]


def parts_of(statement: Statement, plans: Sequence[int]) -> tuple[list[RowsPart], StructType]:
    """The rows of plans, in which a column has one type; and all of their columns. Plans with the same columns are one
    part.
    """
    alike: dict[tuple[str, ...], list[int]] = {}
    columns: dict[str, StructField] = {}
    for plan in plans:
        schema = parse_schema(statement.plan_schema(plan))
        alike.setdefault(tuple(schema.names), []).append(plan)
        for column in schema:
            columns.setdefault(column.name.lower(), column)
    parts = [
        RowsPart(some[0] if len(some) == 1 else statement.add_sources(some), names) for names, some in alike.items()
    ]
    return parts, StructType(tuple(columns.values()))


def write_parts(statement: Statement, target: Target, parts: Sequence[RowsPart], options: Options) -> Written:
    """Write the rows of all parts, as :func:`.rows.write_rows` does those of a plan."""
    all_written = Written()
    for part in parts:
        written = write_rows(statement, target, part.plan, part.provided, options)
        if written.schema is not None:
            target = _numbered(target, written.schema)
        all_written.add(written)
    return all_written


def check_parts(
    statement: Statement,
    target: Target,
    parts: Sequence[RowsPart],
    options: Options,
    *,
    checked: int | None,
    shown: int,
) -> list[dict[str, Any]]:
    """Check the rows of all parts, as :func:`.rows.check_rows` does those of a plan.

    :param checked: how many rows are checked; None for all.
    :param shown: how many of them, as they would be stored, are returned.
    """
    rows: list[dict[str, Any]] = []
    for number, part in enumerate(parts, 1):
        plan = part.plan if checked is None else statement.add_selection(f"SELECT * LIMIT {checked}", part.plan)
        rows += check_rows(statement, target, plan, part.provided, options, max(0, shown - len(rows)))
        if number == len(parts):
            break
        count = int(
            statement.query(select(Alias(call("count", STAR), "count"), rows=Relation(plan)).text())[0]["count"]
        )
        target = _numbered(target, after_rows(target.schema, part.provided, count))
        if checked is not None:
            checked -= count
            if checked <= 0:
                break
    return rows


def _numbered(target: Target, schema: StructType) -> Target:
    return Target(target.path, numbered(target.definition, schema))
