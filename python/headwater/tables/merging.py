"""MERGE, clause by clause."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from pyspark.sql import DataFrame

from headwater.tables.handing_over import (
    Expression,
    HandingOver,
    Sees,
    assignments,
    check_assignments,
    check_expression,
)
from headwater.tables.names import quote, split_name

if TYPE_CHECKING:
    from headwater.tables.table import DeltaTable

Assignments: TypeAlias = "Mapping[str, Expression]"

_MATCHED = ("WHEN MATCHED", Sees.BOTH)
_NOT_MATCHED = ("WHEN NOT MATCHED", Sees.SOURCE)
_NOT_MATCHED_BY_SOURCE = ("WHEN NOT MATCHED BY SOURCE", Sees.TARGET)


@dataclass(frozen=True)
class _Clause:
    when: str
    sees: Sees
    condition: Expression | None
    action: Callable[[HandingOver], str]

    def sql(self, over: HandingOver) -> str:
        condition = "" if self.condition is None else f" AND {over.expression(self.condition, self.sees)}"
        return f"{self.when}{condition} THEN {self.action(over)}"


@dataclass(frozen=True)
class DeltaMergeBuilder:
    """A MERGE being described; made by :meth:`DeltaTable.merge`.

    Each method gives a new builder with one more clause. The clauses of a kind are looked at in the order they were
    added, the first whose condition holds acts on the row; all but the last of a kind need a condition. Conditions and
    values are Columns or SQL text; keys are names of the target's columns, fields with a dot, with the target's alias
    before them or not. Errors of the statement are raised by :meth:`execute`.
    """

    _table: DeltaTable
    _source: DataFrame
    _condition: Expression
    _clauses: tuple[_Clause, ...] = ()
    _schema_evolution: bool = False

    def whenMatchedUpdate(
        self, condition: Expression | None = None, set: Assignments | None = None
    ) -> DeltaMergeBuilder:
        """Update a matched row; values may name columns of both sides.

        :raises ValueError: ``set`` is missing or empty.
        :raises TypeError: an argument is of another type.
        """
        return self._update(_MATCHED, condition, set)

    def whenMatchedUpdateAll(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Update all columns of a matched row with the source's of the same names."""
        return self._with(_MATCHED, condition, lambda over: "UPDATE SET *")

    def whenMatchedDelete(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Delete a matched row."""
        return self._with(_MATCHED, condition, lambda over: "DELETE")

    def whenNotMatchedInsert(
        self, condition: Expression | None = None, values: Assignments | None = None
    ) -> DeltaMergeBuilder:
        """Insert a source row that has no match; condition and values see the source alone.

        :raises ValueError: ``values`` is missing or empty.
        :raises TypeError: an argument is of another type.
        """
        check_assignments("values", values)
        given = dict(values or {})

        def action(over: HandingOver) -> str:
            columns = ", ".join(quote(*split_name(column)) for column in given)
            return f"INSERT ({columns}) VALUES ({', '.join(over.expression(v, Sees.SOURCE) for v in given.values())})"

        return self._with(_NOT_MATCHED, condition, action)

    def whenNotMatchedInsertAll(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Insert a source row that has no match, all its columns by name."""
        return self._with(_NOT_MATCHED, condition, lambda over: "INSERT *")

    def whenNotMatchedBySourceUpdate(
        self, condition: Expression | None = None, set: Assignments | None = None
    ) -> DeltaMergeBuilder:
        """Update a row of the target that no source row matches; condition and values see the target alone.

        :raises ValueError: ``set`` is missing or empty.
        :raises TypeError: an argument is of another type.
        """
        return self._update(_NOT_MATCHED_BY_SOURCE, condition, set)

    def whenNotMatchedBySourceDelete(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Delete a row of the target that no source row matches."""
        return self._with(_NOT_MATCHED_BY_SOURCE, condition, lambda over: "DELETE")

    def withSchemaEvolution(self) -> DeltaMergeBuilder:
        """Let the source add columns and fields to the table."""
        return replace(self, _schema_evolution=True)

    def execute(self) -> DataFrame:
        """Run the MERGE.

        :returns: one row: ``num_affected_rows``, ``num_updated_rows``, ``num_deleted_rows``, ``num_inserted_rows``.
        """
        over = self._table._handing_over(self._source)
        evolving = " WITH SCHEMA EVOLUTION" if self._schema_evolution else ""
        lines = [
            f"MERGE{evolving} INTO {self._table._target}",
            f"USING {over.source()}",
            f"ON {over.expression(self._condition, Sees.BOTH)}",
            *(clause.sql(over) for clause in self._clauses),
        ]
        return over.run("\n".join(lines))

    def _update(
        self, kind: tuple[str, Sees], condition: Expression | None, set: Assignments | None
    ) -> DeltaMergeBuilder:
        check_assignments("set", set)
        given = dict(set or {})
        return self._with(kind, condition, lambda over: f"UPDATE SET\n  {assignments(given, over, kind[1])}")

    def _with(
        self, kind: tuple[str, Sees], condition: Expression | None, action: Callable[[HandingOver], str]
    ) -> DeltaMergeBuilder:
        if condition is not None:
            check_expression("condition", condition)
        return replace(self, _clauses=(*self._clauses, _Clause(*kind, condition, action)))
