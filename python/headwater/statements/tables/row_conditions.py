"""Conditions that rows of a table are checked by: what a CHECK constraint or an expectation may say.

Owns their check when they are declared. Spark resolves them over the table's columns.
"""

from __future__ import annotations

import json

from headwater.basics.errors import HeadwaterError
from headwater.bridge.statement import Statement
from headwater.protocol.types import parse_type
from headwater.schema.constraints import Check


def check_constraint(statement: Statement, check: Check, schema: str) -> None:
    """Spark's own error for a constraint that does not resolve over a schema (JSON).

    :raises HeadwaterError: ``DELTA_NON_BOOLEAN_CHECK_CONSTRAINT``, ``DELTA_UNSUPPORTED_CHECK_CONSTRAINT``; those of
        :meth:`~headwater.bridge.statement.Statement.check_storable`.
    """
    kind = parse_type(json.loads(statement.expression_type(check.sql, schema)))
    if kind.sql() != "boolean":
        raise HeadwaterError("DELTA_NON_BOOLEAN_CHECK_CONSTRAINT", {"name": check.name, "expr": check.sql})
    if statement.condition(check.sql, schema).columns is None:
        raise HeadwaterError("DELTA_UNSUPPORTED_CHECK_CONSTRAINT", {"name": check.name, "expr": check.sql})
    statement.check_storable(check.sql, schema)
