"""The builder of MERGE.

Owns the statement's text: the clauses are collected in order, and :meth:`DeltaMergeBuilder.execute` writes one MERGE
and runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from pyspark.sql import DataFrame

from headwater.tables.names import quote, split_name
from headwater.tables.statement_inputs import (
    Expression,
    Sees,
    StatementInputs,
    assignments,
    check_assignments,
    check_expression,
)

Assignments: TypeAlias = "Mapping[str, Expression]"

_MATCHED = ("WHEN MATCHED", Sees.BOTH)
_NOT_MATCHED = ("WHEN NOT MATCHED", Sees.SOURCE)
_NOT_MATCHED_BY_SOURCE = ("WHEN NOT MATCHED BY SOURCE", Sees.TARGET)


@dataclass(frozen=True)
class _Clause:
    when: str
    sees: Sees
    condition: Expression | None
    action: Callable[[StatementInputs], str]

    def sql(self, inputs: StatementInputs) -> str:
        condition = "" if self.condition is None else f" AND {inputs.expression(self.condition, self.sees)}"
        return f"{self.when}{condition} THEN {self.action(inputs)}"


@dataclass(frozen=True)
class DeltaMergeBuilder:
    """The description of a MERGE; :meth:`DeltaTable.merge` returns one.

    Each method returns a new builder with one more clause. For each row, the clauses of a kind are tried in the order
    they were added; the first whose condition is true acts on the row. All but the last of a kind need a condition.
    Conditions and values are Columns or SQL text. Keys are names of the target's columns (nested fields with a dot),
    with or without the target's alias. :meth:`execute` raises the statement's errors.
    """

    _target: str
    _inputs: Callable[[], StatementInputs]
    _condition: Expression
    _clauses: tuple[_Clause, ...] = ()
    _schema_evolution: bool = False

    def whenMatchedUpdate(
        self, condition: Expression | None = None, set: Assignments | None = None
    ) -> DeltaMergeBuilder:
        """Update a matched row; values may use columns of both sides.

        :raises ValueError: ``set`` is missing or empty.
        :raises TypeError: an argument is of another type.
        """
        return self._update(_MATCHED, condition, set)

    def whenMatchedUpdateAll(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Update all columns of a matched row from the source's columns of the same names."""
        return self._with(_MATCHED, condition, lambda inputs: "UPDATE SET *")

    def whenMatchedDelete(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Delete a matched row."""
        return self._with(_MATCHED, condition, lambda inputs: "DELETE")

    def whenNotMatchedInsert(
        self, condition: Expression | None = None, values: Assignments | None = None
    ) -> DeltaMergeBuilder:
        """Insert a source row that has no match; condition and values may use the source's columns only.

        :raises ValueError: ``values`` is missing or empty.
        :raises TypeError: an argument is of another type.
        """
        check_assignments("values", values)
        given = dict(values or {})

        def action(inputs: StatementInputs) -> str:
            columns = ", ".join(quote(*split_name(column)) for column in given)
            return f"INSERT ({columns}) VALUES ({', '.join(inputs.expression(v, Sees.SOURCE) for v in given.values())})"

        return self._with(_NOT_MATCHED, condition, action)

    def whenNotMatchedInsertAll(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Insert a source row that has no match; all columns, by name."""
        return self._with(_NOT_MATCHED, condition, lambda inputs: "INSERT *")

    def whenNotMatchedBySourceUpdate(
        self, condition: Expression | None = None, set: Assignments | None = None
    ) -> DeltaMergeBuilder:
        """Update a target row that no source row matches; condition and values may use the target's columns only.

        :raises ValueError: ``set`` is missing or empty.
        :raises TypeError: an argument is of another type.
        """
        return self._update(_NOT_MATCHED_BY_SOURCE, condition, set)

    def whenNotMatchedBySourceDelete(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Delete a target row that no source row matches."""
        return self._with(_NOT_MATCHED_BY_SOURCE, condition, lambda inputs: "DELETE")

    def withSchemaEvolution(self) -> DeltaMergeBuilder:
        """Add the source's new columns and fields to the table."""
        return replace(self, _schema_evolution=True)

    def execute(self) -> DataFrame:
        """Run the MERGE.

        :returns: one row: ``num_affected_rows``, ``num_updated_rows``, ``num_deleted_rows``, ``num_inserted_rows``.
        """
        inputs = self._inputs()
        evolving = " WITH SCHEMA EVOLUTION" if self._schema_evolution else ""
        lines = [
            f"MERGE{evolving} INTO {self._target}",
            f"USING {inputs.source()}",
            f"ON {inputs.expression(self._condition, Sees.BOTH)}",
            *(clause.sql(inputs) for clause in self._clauses),
        ]
        return inputs.run("\n".join(lines))

    def _update(
        self, kind: tuple[str, Sees], condition: Expression | None, set: Assignments | None
    ) -> DeltaMergeBuilder:
        check_assignments("set", set)
        given = dict(set or {})
        return self._with(kind, condition, lambda inputs: f"UPDATE SET\n  {assignments(given, inputs, kind[1])}")

    def _with(
        self, kind: tuple[str, Sees], condition: Expression | None, action: Callable[[StatementInputs], str]
    ) -> DeltaMergeBuilder:
        if condition is not None:
            check_expression("condition", condition)
        return replace(self, _clauses=(*self._clauses, _Clause(*kind, condition, action)))
