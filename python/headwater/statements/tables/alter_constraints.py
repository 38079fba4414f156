"""ALTER TABLE … ADD CONSTRAINT and DROP CONSTRAINT: conditions that every row must meet.

Owns the change of the table properties ``delta.constraints.<name>``. Follows the protocol's chapter "CHECK
Constraints". Promise: a constraint is added only where every row in the table meets it.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.define import AddConstraint, DropConstraint
from headwater.protocol.types import schema_string
from headwater.schema import visible
from headwater.schema.constraints import CHECK, Check, add_constraint, drop_constraint
from headwater.statements.settings import DROPS_CONSTRAINT_IF_EXISTS
from headwater.statements.tables.definition import check_constraint
from headwater.statements.tables.draft import Draft, Operation, RowCheck

_VIOLATED = "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION"


def add_constraints(changes: Sequence[AddConstraint], draft: Draft) -> Operation:
    """Add CHECK constraints.

    :raises HeadwaterError: ``DELTA_UNSUPPORTED_CONSTRAINT`` for a key, ``DELTA_CONSTRAINT_ALREADY_EXISTS``,
        ``DELTA_NON_BOOLEAN_CHECK_CONSTRAINT``, ``DELTA_UNSUPPORTED_CHECK_CONSTRAINT``; Spark's own for a condition that
        does not resolve.
    """
    parameters = {}
    for change in changes:
        constraint = change.constraint
        if constraint.kind != "check" or constraint.expression is None or constraint.name is None:
            raise HeadwaterError("DELTA_UNSUPPORTED_CONSTRAINT", {"constraint": constraint.kind})
        configuration = add_constraint(draft.metadata.configuration, constraint.name, constraint.expression)
        check = Check(constraint.name, constraint.expression, CHECK)
        check_constraint(draft.statement, check, schema_string(visible.for_reading(draft.schema)))
        draft.set_configuration(configuration)
        draft.row_checks.append(RowCheck(check, _VIOLATED))
        parameters = {"name": constraint.name, "expr": constraint.expression}
    return Operation("ADD CONSTRAINT", parameters)


def drop_constraints(changes: Sequence[DropConstraint], draft: Draft) -> Operation:
    """Drop CHECK constraints.

    :raises HeadwaterError: ``DELTA_CONSTRAINT_DOES_NOT_EXIST`` unless IF EXISTS.
    """
    parameters: dict[str, str | None] = {}
    for change in changes:
        before = draft.metadata.configuration
        if_exists = change.if_exists or DROPS_CONSTRAINT_IF_EXISTS.of(draft.statement)
        configuration = drop_constraint(before, change.name, if_exists=if_exists)
        dropped = next((value for key, value in before.items() if key not in configuration), None)
        if configuration != before:
            draft.set_configuration(configuration)
        parameters = {"name": change.name, **({} if dropped is None else {"expr": dropped})}
    return Operation("DROP CONSTRAINT", parameters)
