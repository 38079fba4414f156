"""Schema evolution of a statement: whether it may change its table's columns, and the columns afterwards.

Owns what INSERT, MERGE, upserts and streams share of it. The rules themselves are :mod:`headwater.schema.evolution`'s.
"""

from __future__ import annotations

from headwater.basics.errors import HeadwaterError
from headwater.bridge.statement import Statement
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.columns import find_path, format_name
from headwater.protocol.types import StructType
from headwater.schema.constraints import invariants
from headwater.schema.evolution import merge_schemas, widened_columns
from headwater.schema.expectations import row_conditions
from headwater.schema.generated import generated_columns
from headwater.statements.column_uses import ColumnUses
from headwater.statements.running.opening import Options
from headwater.statements.settings import AUTO_MERGE


def may_evolve(options: Options, statement: Statement) -> bool:
    """Whether a write may give the table the columns that its rows bring."""
    asked = options.flag("mergeSchema")
    return AUTO_MERGE.of(statement) if asked is None else asked


def widens(snapshot: Snapshot) -> bool:
    """Whether columns of a table may take a wider type."""
    return snapshot.definition.get(properties.TYPE_WIDENING)


def grown_schema(
    snapshot: Snapshot, data: StructType, statement: Statement, *, table_name: str, rows_are_cast: bool = False
) -> StructType:
    """The table's schema with what the data brings. A column takes the data's type where it may widen; else it keeps
    its own, and the rows are cast to it.

    :param table_name: for people.
    :param rows_are_cast: the rows have the table's types by now: another type means that the table has changed since.
    :raises HeadwaterError: ``DELTA_GENERATED_COLUMNS_DATA_TYPE_MISMATCH``, ``DELTA_CONSTRAINT_DATA_TYPE_MISMATCH``
        where a column that would be widened is used by either; those of merging schemas.
    """
    table = snapshot.schema
    schema = merge_schemas(table, data, allow_widening=widens(snapshot), keep_existing_type=not rows_are_cast)
    if schema != table and widens(snapshot):
        _refuse_dependents(snapshot, schema, statement, table_name)
    return schema


def _refuse_dependents(snapshot: Snapshot, schema: StructType, statement: Statement, table_name: str) -> None:
    table = snapshot.schema
    paths = widened_columns(table, schema)
    if not paths:
        return
    generated = [(f"{c.name}: {c.sql}", f"({c.sql}) IS NOT NULL") for c in generated_columns(table)]
    conditions = [*row_conditions(snapshot.metadata.configuration), *invariants(table)]
    checks = [(f"{check.name}: {check.sql}", check.sql) for check in conditions]
    uses = ColumnUses(statement, table)
    for path in paths:
        old, new = find_path(table, path), find_path(schema, path)
        assert old is not None
        assert new is not None
        fill = {
            "columnName": format_name(path),
            "tableName": table_name,
            "columnType": old.type.sql(),
            "dataType": new.type.sql(),
        }
        if used := [shown for shown, sql in generated if uses.column(sql, path)]:
            raise HeadwaterError(
                "DELTA_GENERATED_COLUMNS_DATA_TYPE_MISMATCH", {**fill, "generatedColumns": "; ".join(used)}
            )
        if used := [shown for shown, sql in checks if uses.column(sql, path)]:
            raise HeadwaterError("DELTA_CONSTRAINT_DATA_TYPE_MISMATCH", {**fill, "constraints": "; ".join(used)})
