"""Which columns the conditions of a table use: its CHECK constraints, its expectations, the expressions of its
generated columns.

Spark says it, as the texts are SQL; each is resolved once.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.basics.errors import HeadwaterError
from headwater.bridge.statement import Statement
from headwater.protocol.columns import Path, find_path, format_name
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import StructType, schema_string
from headwater.schema import visible
from headwater.schema.constraints import Check
from headwater.schema.expectations import row_conditions
from headwater.schema.keys import Key, keys
from headwater.schema.reshaping import paths_of, without


class ColumnUses:
    """Whether conditions use columns. Each condition is resolved once over the columns as they are."""

    def __init__(self, statement: Statement, schema: StructType) -> None:
        self._statement = statement
        self._schema = schema
        self._known: dict[str, frozenset[str] | None] = {}

    def column(self, sql: str, path: Path) -> bool:
        """Whether a condition uses a column or field, or one in it."""
        columns = self._columns(sql)
        if columns is not None and (path[0].lower() not in columns or len(path) == 1):
            return path[0].lower() in columns
        left = schema_string(visible.for_reading(without(self._schema, [path])))
        return not self._statement.resolves(sql, left)

    def _columns(self, sql: str) -> frozenset[str] | None:
        """The top-level columns that a condition uses, in lower case; None where Spark does not say."""
        if sql not in self._known:
            text = schema_string(visible.for_reading(self._schema))
            found = self._statement.condition(sql, text).columns
            self._known[sql] = None if found is None else frozenset(name.lower() for name in found)
        return self._known[sql]


def refuse_constraints(uses: ColumnUses, checks: Sequence[Check], path: Path, change: str, table: str) -> None:
    """Refuse a change of a column that constraints use.

    :raises HeadwaterError: ``DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE``.
    """
    used = [f"{check.name}: {check.sql}" for check in checks if uses.column(check.sql, path)]
    if used:
        raise HeadwaterError(
            "DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE",
            {
                "operation": change,
                "columnName": format_name(path),
                "tableName": table,
                "constraints": "; ".join(used),
            },
        )


def refuse_keys(known: Sequence[Key], columns: Sequence[str], change: str, table: str) -> None:
    """Refuse a change of top-level columns that keys name.

    :raises HeadwaterError: ``DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE``.
    """
    changed = {name.lower() for name in columns}
    used = [key for key in known if changed & {name.lower() for name in key.columns}]
    if used:
        named = {
            "operation": change,
            "columnName": ", ".join(format_name((name,)) for name in columns),
            "tableName": table,
            "constraints": "; ".join(f"{key.name}: {key.sql}" for key in used),
        }
        raise HeadwaterError("DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE", named)


def refuse_lost_columns(statement: Statement, before: TableDefinition, schema: StructType, table: str) -> None:
    """Refuse other columns for a table that keeps its CHECK constraints and keys, if one uses a column that is gone.

    :raises HeadwaterError: ``DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE``.
    """
    for key in keys(before):
        lost = [name for name in key.columns if schema.find(name) is None]
        if lost:
            refuse_keys([key], lost, "drop", table)
    checks = row_conditions(before.metadata.configuration)
    uses = ColumnUses(statement, before.schema)
    for path in paths_of(before.schema) if checks else ():
        if find_path(schema, path) is None:
            refuse_constraints(uses, checks, path, "drop", table)
