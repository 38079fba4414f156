"""The WHERE of a maintenance statement: a condition over partition columns, which chooses whole partitions.

Promise: the choice is exact. What pruning cannot evaluate, such as a function of Spark's, Spark evaluates.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.basics.errors import HeadwaterError
from headwater.bridge.statement import Statement
from headwater.log.snapshot import Snapshot
from headwater.protocol.columns import format_name
from headwater.protocol.partition_values import texts_of
from headwater.protocol.types import schema_string
from headwater.pruning import leaves_rows, prune
from headwater.schema import visible
from headwater.sql.composing import Alias, Cast, Column, Expression, TableFunction, Text, call, select
from headwater.statements.files.rows import parsed_by_spark
from headwater.statements.internal_names import InternalNames


def files_in_partitions(snapshot: Snapshot, statement: Statement, condition: str | None, table: str) -> pa.Array:
    """Which files lie in the partitions for which a condition is true; all files without a condition.

    :param table: the table's name, for messages.
    :raises HeadwaterError: ``DELTA_NON_PARTITION_COLUMN_REFERENCE`` for a condition about anything else; Spark's own
        errors for a text that is no condition.
    """
    if condition is None:
        return pa.array(np.ones(snapshot.num_files, bool))
    known = statement.condition(condition, schema_string(visible.for_reading(snapshot.schema)))
    partitions = {name.lower() for name in snapshot.partition_columns}
    others = None if known.columns is None else sorted(n for n in known.columns if n.lower() not in partitions)
    if others is None or others:
        raise HeadwaterError(
            "DELTA_NON_PARTITION_COLUMN_REFERENCE",
            {
                "predicate": condition,
                "columnName": "a subquery or a value that differs each time" if others is None else _names(others),
                "columnList": _names(snapshot.partition_columns) if partitions else f"{table} has none",
                "hint": "Leave the others out: the statement takes whole partitions.",
            },
        )
    matching = prune(snapshot, known.predicate)
    doubtful = pc.and_(matching, leaves_rows(snapshot, [known.predicate]))
    if not pc.any(doubtful).as_py():
        return matching
    values = snapshot.select(["partition_values"])["partition_values"]
    texts = [texts_of(values, snapshot.partition_field(name).physical_name) for name in snapshot.partition_columns]
    rows = list(zip(*(column.to_pylist() for column in texts), strict=True))
    asked = list(dict.fromkeys(row for row, doubt in zip(rows, doubtful.to_pylist(), strict=True) if doubt))
    accepted = _accepted(snapshot, statement, condition, asked)
    exact = [
        row in accepted if doubt else sure
        for row, doubt, sure in zip(rows, doubtful.to_pylist(), matching.to_pylist(), strict=True)
    ]
    return pa.array(exact, pa.bool_())


def _names(columns: Sequence[str]) -> str:
    return ", ".join(format_name((column,)) for column in columns)


def _accepted(
    snapshot: Snapshot, statement: Statement, condition: str, partitions: Sequence[tuple[str | None, ...]]
) -> set[tuple[str | None, ...]]:
    """The partitions, each given by the text of its values, that Spark accepts."""
    fields = [snapshot.partition_field(name) for name in snapshot.partition_columns]
    numbered = [
        {"n": number, **{f"p{i}": value for i, value in enumerate(values)}} for number, values in enumerate(partitions)
    ]
    shape = ", ".join(["n INT", *(f"p{i} STRING" for i in range(len(fields)))])
    rows = TableFunction(call("inline", call("from_json", Text(json.dumps(numbered)), Text(f"array<struct<{shape}>>"))))
    number = InternalNames.beside([field.name for field in fields]).of("number")
    values: list[Expression] = [Alias(Column("n"), number)]
    values += [Alias(Cast(Column(f"p{i}"), field.type), field.name) for i, field in enumerate(fields)]
    query = select(Column(number), rows=select(*values, rows=rows), where=parsed_by_spark(statement)(condition))
    statement.step("choose partitions")
    return {partitions[int(row[number])] for row in statement.query(query.text())}
