"""ALTER TABLE … ADD CONSTRAINT, DROP CONSTRAINT, DROP PRIMARY KEY and DROP FOREIGN KEY.

Owns the change of the table properties ``delta.constraints.<name>``, as the protocol's chapter "CHECK Constraints"
says, and of those of keys (:mod:`headwater.schema.keys`) and expectations (:mod:`headwater.schema.expectations`).
Promise: a CHECK constraint or an enforced key is added only where the rows in the table meet it; no row is read for
another key or an expectation.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.define import AddConstraint, DropConstraint, DropKeyArguments
from headwater.key_index.definition import index_over
from headwater.protocol.columns import parse_name, sql_name
from headwater.protocol.types import schema_string
from headwater.schema import expectations, keys, visible
from headwater.schema.constraints import CHECK, Check, add_constraint, drop_constraint
from headwater.schema.expectations import Expectation
from headwater.schema.keys import Key
from headwater.statements.files.enforced_keys import check_rows
from headwater.statements.maintenance.findings import in_statements
from headwater.statements.settings import DROPS_CONSTRAINT_IF_EXISTS
from headwater.statements.tables.asked_expectations import asked_expectation, checked
from headwater.statements.tables.asked_keys import asked_key, possible_index, refuse_references, with_parent
from headwater.statements.tables.draft import Draft, Operation, RowCheck
from headwater.statements.tables.row_conditions import check_constraint

_VIOLATED = "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION"


def add_constraints(changes: Sequence[AddConstraint], draft: Draft) -> Operation:
    """Add CHECK constraints, keys and expectations.

    :raises HeadwaterError: ``DELTA_UNSUPPORTED_CONSTRAINT`` for a constraint of another kind,
        ``DELTA_CONSTRAINT_ALREADY_EXISTS``, ``DELTA_NON_BOOLEAN_CHECK_CONSTRAINT``,
        ``DELTA_UNSUPPORTED_CHECK_CONSTRAINT``, those of :func:`headwater.schema.keys.check_key` and
        :func:`headwater.statements.tables.asked_keys.with_parent`; Spark's own for a condition that does not resolve.
    """
    parameters = {}
    for change in changes:
        constraint = change.constraint
        if (asked := asked_key(constraint, draft.name)) is not None:
            known, name = keys.keys(draft.definition), parse_name(draft.name)
            key = with_parent(asked, draft.schema, known, name, draft.statement)
            draft.set_configuration(keys.with_key(draft.definition, key))
            if key.enforced:
                _enforce(key, draft)
            parameters = {"name": key.name, "expr": key.sql}
            continue
        if (expected := asked_expectation(constraint)) is not None:
            added = add_expectation(expected, draft)
            parameters = {"name": added.name, "expr": added.clause}
            continue
        if constraint.kind != "check" or constraint.expression is None or constraint.name is None:
            raise HeadwaterError("DELTA_UNSUPPORTED_CONSTRAINT", {"constraint": constraint.kind})
        keys.check_name({}, keys.keys(draft.definition), constraint.name)
        expectations.check_name(draft.metadata.configuration, constraint.name)
        configuration = add_constraint(draft.metadata.configuration, constraint.name, constraint.expression)
        check = Check(constraint.name, constraint.expression, CHECK)
        check_constraint(draft.statement, check, schema_string(visible.for_reading(draft.schema)))
        draft.set_configuration(configuration)
        draft.row_checks.append(RowCheck(check, _VIOLATED))
        parameters = {"name": constraint.name, "expr": constraint.expression}
    return Operation("ADD CONSTRAINT", parameters)


def _enforce(key: Key, draft: Draft) -> None:
    """Check what an enforced key needs: an index, and rows without duplicates.

    :raises HeadwaterError: ``HEADWATER_KEY_NEEDS_INDEX``, ``HEADWATER_DUPLICATE_KEY``.
    """
    definition = draft.definition
    if index_over(definition, key.columns) is None:
        name, columns = possible_index(definition, key)
        table, listed = in_statements(draft.name), ", ".join(map(sql_name, columns))
        raise HeadwaterError(
            "HEADWATER_KEY_NEEDS_INDEX",
            {
                "constraintName": key.name,
                "tableName": draft.name,
                "statement": f"CREATE INDEX {sql_name(name)} ON {table} ({listed})",
            },
        )
    draft.reads_rows = True
    check_rows(draft.statement, draft.snapshot, definition, key, draft.name)


def add_expectation(asked: Expectation, draft: Draft) -> Expectation:
    """Add an expectation, once it is found to fit the table.

    :raises HeadwaterError: those of :func:`~headwater.statements.tables.asked_expectations.checked` and
        :func:`~headwater.schema.expectations.with_expectation`.
    """
    names = [key.name for key in keys.keys(draft.definition)]
    added = checked(asked, draft.schema, draft.statement, table=draft.snapshot.table_path, names=names)
    draft.set_configuration(expectations.with_expectation(draft.metadata.configuration, added))
    return added


def drop_constraints(changes: Sequence[DropConstraint], draft: Draft) -> Operation:
    """Drop CHECK constraints, keys and expectations.

    :raises HeadwaterError: ``DELTA_CONSTRAINT_DOES_NOT_EXIST`` unless IF EXISTS; ``HEADWATER_KEY_IS_REFERENCED``.
    """
    parameters: dict[str, str | None] = {}
    for change in changes:
        if (key := keys.find_key(draft.definition, change.name)) is not None:
            return _drop_key(key, draft, cascade=change.cascade)
        before = draft.metadata.configuration
        if (expected := expectations.find_expectation(before, change.name)) is not None:
            draft.set_configuration(expectations.without_expectation(before, change.name))
            parameters = {"name": expected.name, "expr": expected.clause}
            continue
        if_exists = change.if_exists or DROPS_CONSTRAINT_IF_EXISTS.of(draft.statement)
        configuration = drop_constraint(before, change.name, if_exists=if_exists)
        dropped = next((value for key, value in before.items() if key not in configuration), None)
        if configuration != before:
            draft.set_configuration(configuration)
        parameters = {"name": change.name, **({} if dropped is None else {"expr": dropped})}
    return Operation("DROP CONSTRAINT", parameters)


def drop_key(asked: DropKeyArguments, draft: Draft) -> Operation:
    """Drop the primary key, or the foreign key of some columns, in their order.

    :raises HeadwaterError: ``DELTA_CONSTRAINT_DOES_NOT_EXIST`` unless IF EXISTS; ``HEADWATER_KEY_IS_REFERENCED``.
    """
    known = keys.keys(draft.definition)
    if asked.columns is None:
        found, what = keys.primary_key(known), "PRIMARY KEY"
    else:
        wanted = [name.lower() for name in asked.columns]
        foreign = (key for key in known if key.kind == keys.FOREIGN)
        found = next((key for key in foreign if [name.lower() for name in key.columns] == wanted), None)
        what = f"FOREIGN KEY ({', '.join(asked.columns)})"
    if found is not None:
        return _drop_key(found, draft, cascade=asked.cascade)
    if not (asked.if_exists or DROPS_CONSTRAINT_IF_EXISTS.of(draft.statement)):
        raise HeadwaterError("DELTA_CONSTRAINT_DOES_NOT_EXIST", {"constraintName": what})
    return Operation("DROP CONSTRAINT", {"name": what})


def _drop_key(key: Key, draft: Draft, *, cascade: bool) -> Operation:
    dropped = [key]
    if key.kind == keys.PRIMARY:
        own = refuse_references(key, keys.keys(draft.definition), draft.name, draft.statement, "drop", cascade=cascade)
        dropped += own
    draft.set_configuration(keys.without_keys(draft.metadata.configuration, [key.name for key in dropped]))
    return Operation("DROP CONSTRAINT", {"name": key.name, "expr": key.sql})
