"""The expectations that statements ask for, and the quarantine tables that they name.

Owns the step from a message or a property to an expectation: its condition is checked as that of a CHECK constraint,
and its quarantine table is looked up, so that a write finds it by its full name.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.bridge.messages.define import TableConstraint
from headwater.bridge.statement import Statement
from headwater.protocol.types import StructType, schema_string
from headwater.schema import expectations, visible
from headwater.schema.expectations import QUARANTINE, Expectation
from headwater.statements.files.quarantine import check_fits, quarantine_table
from headwater.statements.tables.row_conditions import check_constraint


def asked_expectation(constraint: TableConstraint) -> Expectation | None:
    """The expectation that a statement asks for; None for a constraint of another kind."""
    if constraint.kind != "expect" or constraint.name is None or constraint.expression is None:
        return None
    action = constraint.on_violation or expectations.KEEP
    return Expectation(constraint.name, constraint.expression, action, tuple(constraint.references))


def checked(
    asked: Expectation, schema: StructType, statement: Statement, *, table: str, names: Sequence[str]
) -> Expectation:
    """An expectation with the full name of its quarantine table, once its condition and that table are found to fit.

    :param schema: the columns of its own table, ``table``: where that is.
    :param names: of the other constraints, keys included, none of which it may have.
    :raises HeadwaterError: ``HEADWATER_INVALID_EXPECTATION``; those of
        :func:`~headwater.statements.tables.row_conditions.check_constraint`; Spark's own for a condition that does
        not resolve.
    """
    if asked.name.lower() in {name.lower() for name in names}:
        raise expectations.invalid(asked, "The table has a key of this name. Choose another one.")
    check_constraint(statement, asked.check, schema_string(visible.for_reading(schema)))
    if asked.action != QUARANTINE:
        return asked
    expectations.check_columns(asked, schema)
    found = quarantine_table(asked, schema, statement)
    asked = asked._replace(into=tuple(found.name))
    check_fits(asked, schema, found, table)
    return asked
