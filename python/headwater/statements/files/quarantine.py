"""Quarantine tables: rows that an expectation turns away, with what they violate, when, and what wrote them.

Owns what a quarantine table must be, and the step from staged rows to files of that table and to a transaction on it,
which stands or falls with that of the rows that are written
(:func:`~headwater.statements.running.committing.commit`). Promises: a log can name a quarantine table, but rows go only
into a table that takes them by a property of its own, with the rights of the session that writes; a table of other
columns is refused before anything is committed.
"""

from __future__ import annotations

import re

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.callbacks import NamedTable, StagedFiles, WrittenFile
from headwater.bridge.statement import Statement
from headwater.change_data.changelog import CHANGE_TYPE
from headwater.definition.changes import evolved, numbered
from headwater.log.groups import may_be_together
from headwater.protocol import properties
from headwater.protocol.column_metadata import CURRENT_DEFAULT, DECLARED_TYPE
from headwater.protocol.columns import all_fields, sql_name
from headwater.protocol.partition_paths import encode_path
from headwater.protocol.types import PrimitiveType, StructField, StructType, parse_schema, schema_string
from headwater.schema import visible
from headwater.schema.checks import INVALID_CHARACTERS
from headwater.schema.expectations import (
    ADDED_NAMES,
    QUARANTINE,
    REASON,
    SOURCE,
    TIME,
    Expectation,
    expectations,
    quarantine_columns,
    readable,
)
from headwater.schema.generated import generated_columns
from headwater.schema.identity import identity_columns
from headwater.sql.composing import Alias, Cast, Column, Expression, Relation, Text, call, select, type_text
from headwater.statements.files.judging import Judging, Violations
from headwater.statements.files.rows import Target, partition_values, stored_in_log, write_rows
from headwater.statements.files.unused import delete_unused
from headwater.statements.running.committing import transaction
from headwater.statements.running.opening import Options, open_snapshot
from headwater.stores import absolute_path
from headwater.transaction import Transaction
from headwater.transaction.commit_info import Provenance
from headwater.transaction.transaction import Beside

#: The type, outside the names of fields.
_TIMESTAMP = re.compile(r"`(?:[^`]|``)*`|\btimestamp\b")


def quarantine_table(expectation: Expectation, schema: StructType, statement: Statement) -> NamedTable:
    """The quarantine table that an expectation names, which takes rows.

    :param schema: the columns of the expectation's own table.
    :raises HeadwaterError: ``HEADWATER_QUARANTINE_TABLE``.
    """
    found = statement.table_named(expectation.into)
    name = ".".join(map(sql_name, found.name))
    if found.schema is None or found.path is None:
        columns = quarantine_columns(schema)
        listed = ", ".join(f"{sql_name(f.name)} {_in_words(f)}" for f in columns)
        asked = {properties.TAKES_QUARANTINED.name: "true"}
        if any(set(field.name) & set(INVALID_CHARACTERS) for _, field in all_fields(columns)):
            asked |= {properties.COLUMN_MAPPING_MODE.name: "name"}
        said = ", ".join(f"'{key}' = '{value}'" for key, value in asked.items())
        raise _unfit(
            expectation,
            name,
            f"There is no Delta table of this name. Create it: CREATE TABLE {name} ({listed}) USING delta "
            f"TBLPROPERTIES ({said})",
        )
    return found


def check_fits(expectation: Expectation, schema: StructType, found: NamedTable, table: str) -> None:
    """That rows of a table can be put into a quarantine table, as far as its columns say.

    :param schema: the table's columns, ``table``: where it is.
    :raises HeadwaterError: ``HEADWATER_QUARANTINE_TABLE``.
    """
    name = ".".join(map(sql_name, found.name))
    assert found.schema is not None
    if found.path == table:
        raise _unfit(expectation, name, "It is the table itself. Name another one.")
    columns, needed = parse_schema(found.schema), quarantine_columns(schema)
    for wanted in needed:
        if columns.find(wanted.name) is None:
            said = f"{sql_name(wanted.name)} {_in_words(wanted)}"
            raise _unfit(
                expectation, name, f"It lacks the column {said}. Use ALTER TABLE {name} ADD COLUMN {said} first."
            )
    _grown(expectation, name, columns, schema)
    computed = {each.name for each in generated_columns(columns)} | {each.name for each in identity_columns(columns)}
    for column in columns:
        is_computed = column.name in computed or CURRENT_DEFAULT in column.metadata
        is_own = needed.find(column.name) is None
        if column.nullable or is_own and is_computed or column.name.lower() in ADDED_NAMES:
            continue
        why = "which has no default and which no row has" if is_own else "and a row that is turned away may have null"
        hint = f"Use ALTER TABLE {name} ALTER COLUMN {sql_name(column.name)} DROP NOT NULL first."
        raise _unfit(expectation, name, f"Its column {sql_name(column.name)} is NOT NULL, {why} there. {hint}")


def settle(
    statement: Statement,
    txn: Transaction,
    target: Target,
    violations: Violations,
    operation: str,
    *,
    name: str | None = None,
) -> None:
    """Put staged rows into the quarantine table, by a transaction that is committed with ``txn``; and note for the
    history what became of rows that violate expectations.

    :param target: the table that the rows were written for.
    :param operation: as the history calls it, ``name``: the table's name; None for a table known by its path.
    :raises HeadwaterError: ``HEADWATER_QUARANTINE_TABLE``; those of writing to the quarantine table.
    """
    txn.metrics = dict(violations.metrics)
    txn.beside = None
    if not violations.staged:
        return
    wanted = expectations(txn.definition.metadata.configuration)
    expectation = next(each for each in wanted if each.action == QUARANTINE)
    found = quarantine_table(expectation, target.schema, statement)
    assert found.path is not None
    shown = ".".join(map(sql_name, found.name))
    snapshot = open_snapshot(found.path, statement)
    if not snapshot.definition.get(properties.TAKES_QUARANTINED):
        raise _unfit(
            expectation,
            shown,
            "It does not take quarantined rows. If it is to, use ALTER TABLE "
            f"{shown} SET TBLPROPERTIES ('{properties.TAKES_QUARANTINED.name}' = 'true').",
        )
    if own := readable(snapshot.metadata.configuration):
        raise _unfit(
            expectation,
            shown,
            "It has expectations of its own, which could turn its rows away. Drop them: ALTER TABLE "
            f"{shown} DROP CONSTRAINT {sql_name(own[0].name)}.",
        )
    beside = transaction(found.path, statement, snapshot)
    _check_place(expectation, shown, txn, beside)
    columns = _grown(expectation, shown, snapshot.schema, target.schema)
    if columns != snapshot.schema:
        beside.redefine(evolved(snapshot.definition, columns))
    into = Target(snapshot.table_path, beside.definition)
    judging = Judging.of(txn.definition)
    assert judging is not None
    rows = _staged_rows(statement, target, violations.staged)
    source = {"table": name or f"delta.`{target.path}`", "operation": operation}
    values = [*_quarantined(target.schema, into, judging, source), *_defaults(statement, target.schema, into)]
    query, names = select(*values, rows=rows), [value.name for value in values]
    statement.step("write rows that violate expectations")
    written = write_rows(statement, into, query, names, Options(None), data_change=True)
    if written.schema is not None:
        beside.redefine(numbered(beside.definition, written.schema))
    beside.add(written.files)
    metrics = {
        "numFiles": len(written.files),
        "numOutputRows": written.rows,
        "numOutputBytes": written.bytes,
    }
    provenance = Provenance("WRITE", {"mode": "Append", "partitionBy": snapshot.partition_columns}, metrics)
    paths = [encode_path(file.path) for file in violations.staged]
    txn.beside = Beside(beside, provenance, lambda: delete_unused(txn.store, target.path, paths, folders=True))


def _grown(expectation: Expectation, name: str, columns: StructType, schema: StructType) -> StructType:
    """The columns of a quarantine table with those that rows have and it has not.

    :param schema: the columns of the table that the rows were written for.
    :raises HeadwaterError: ``HEADWATER_QUARANTINE_TABLE`` for a column of another type. A length that is declared must
        be that of the table: it is checked where rows are written to that one.
    """
    added = []
    for column in quarantine_columns(schema):
        there, declared = columns.find(column.name), schema.find(column.name)
        if there is None:
            added.append(column)
            continue
        length = there.metadata.get(DECLARED_TYPE)
        is_as_long = length is None or declared is not None and declared.metadata.get(DECLARED_TYPE) == length
        if there.type.sql() != column.type.sql() or not is_as_long:
            own = str(length).upper() if length is not None else _in_words(there)
            hint = f"Use ALTER TABLE {name} ALTER COLUMN … TYPE, or another quarantine table."
            raise _unfit(
                expectation,
                name,
                f"Its column {sql_name(there.name)} is {own}, and must be {_in_words(column)}. {hint}",
            )
    return StructType((*columns, *added)) if added else columns


def _check_place(expectation: Expectation, name: str, txn: Transaction, beside: Transaction) -> None:
    """That one commit of each table can stand or fall together."""
    if txn.table_path == beside.table_path:
        raise _unfit(expectation, name, "It is the table itself. Name another one.")
    is_together = may_be_together(txn.table_path, beside.table_path) and not (
        txn.store.of_catalog or beside.store.of_catalog
    )
    if not is_together:
        raise _unfit(
            expectation,
            name,
            "Both tables must lie in one store, and no catalog may manage their commits. Name a table in the same "
            "store.",
        )


def _staged_rows(statement: Statement, target: Target, files: list[WrittenFile]) -> Relation:
    columns = visible.for_reading(target.schema)
    shown = StructType((*(_nullable(column) for column in columns), StructField(CHANGE_TYPE, PrimitiveType("string"))))
    physical = [field.physical_name for field in target.definition.partition_fields]
    listed: list[list[str | int | None]] = []
    for file in files:
        values = partition_values(target.schema, file.partition)
        path = absolute_path(target.path, encode_path(file.path))
        listed.append([path, file.size, file.modification_time, None, *(values.get(name) for name in physical)])
    staged = StagedFiles(
        path=target.path,
        table_schema=schema_string(target.schema),
        schema=schema_string(shown),
        partition_columns=list(target.partition_columns),
        column_mapping_mode=target.definition.mapping_mode,
        files=listed,
        size_in_bytes=sum(file.size for file in files),
    )
    return Relation(statement.add_staged(staged))


def _nullable(column: StructField) -> StructField:
    """A column as staged files have it: they hold rows that no NOT NULL has seen."""
    return quarantine_columns(StructType((column,))).fields[0]


def _in_words(column: StructField) -> str:
    """A column's type as SQL has it in each session: what TIMESTAMP alone means is a setting."""

    def said(found: re.Match[str]) -> str:
        return found[0] if found[0].startswith("`") else f"{found[0]}_ltz"

    return _TIMESTAMP.sub(said, type_text(column.type))


def _defaults(statement: Statement, schema: StructType, into: Target) -> list[Alias]:
    """The values of a quarantine table's other columns that have a default."""
    given, parsed = quarantine_columns(schema), stored_in_log(statement)
    return [
        Alias(Cast(parsed(str(column.metadata[CURRENT_DEFAULT])), column.type), column.name)
        for column in into.schema
        if CURRENT_DEFAULT in column.metadata and given.find(column.name) is None
    ]


def _quarantined(schema: StructType, into: Target, judging: Judging, source: dict[str, str]) -> list[Alias]:
    """The values of staged rows, with why, when and by what they were turned away; named as the quarantine table names
    its columns.
    """
    own: list[tuple[Expression, str]] = []
    for column in schema:
        stored = into.schema.find(column.name)
        if stored is not None and column.type != PrimitiveType("void"):
            own.append((Cast(Column(column.name), stored.type), column.name))
    violated = Cast(Column(CHANGE_TYPE), PrimitiveType("integer"))
    said = [part for name, value in source.items() for part in (Text(name), Text(value))]
    own += [
        (judging.reasons(violated), REASON),
        (call("current_timestamp"), TIME),
        (call("named_struct", *said), SOURCE),
    ]
    named = ((value, into.schema.find(name)) for value, name in own)
    return [Alias(value, column.name) for value, column in named if column is not None]


def _unfit(expectation: Expectation, table: str, reason: str) -> HeadwaterError:
    named = {"constraintName": expectation.name, "tableName": table, "reason": reason}
    return HeadwaterError("HEADWATER_QUARANTINE_TABLE", named)
