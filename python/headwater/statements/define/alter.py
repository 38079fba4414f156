"""ALTER TABLE and COMMENT ON: changes of a table's definition, one commit for each statement."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from headwater.bridge.messages.define import (
    AddColumn,
    AlterTableRequest,
    AnyTableChange,
    CheckSameSchemaRequest,
    CommentColumn,
    CommitAnswer,
    RemoveProperty,
    SetProperty,
    UnsupportedChange,
)
from headwater.bridge.statement import Statement
from headwater.errors import HeadwaterError
from headwater.log.snapshot import Snapshot
from headwater.protocol.actions import Metadata
from headwater.protocol.indexed_columns import check_statistics_columns
from headwater.protocol.properties import allows_arbitrary, canonical_name, normalize, refuse_universal_format
from headwater.protocol.requirements import protocol_for, without_protocol_properties
from headwater.protocol.types import parse_schema, parse_type, schema_string
from headwater.schema import mapping
from headwater.schema.checks import check_schema
from headwater.schema.difference import describe_difference
from headwater.schema.evolution import FIRST, After, NewColumn, add_columns, set_comment
from headwater.statements import notices
from headwater.statements.committing import commit, transaction
from headwater.statements.opening import Options, open_snapshot
from headwater.statements.write.insert import set_schema
from headwater.transaction import Transaction

#: What cannot be done yet, as people say it.
_IN_WORDS = {
    "add_constraint": "add a constraint",
    "drop_constraint": "drop a constraint",
    "cluster_by": "change the columns it is clustered by",
    "column_type": "change the type of a column",
    "column_nullability": "change whether a column may be null",
    "column_default": "set or drop the default of a column",
    "column_position": "move a column",
    "rename_column": "rename a column",
    "drop_column": "drop a column",
}


def alter_table(request: AlterTableRequest, statement: Statement) -> CommitAnswer:
    """Apply the changes of a statement, all or none."""
    snapshot = open_snapshot(request.table, statement)
    kinds = {type(change) for change in request.changes}
    if len(kinds) != 1 or (apply := _STATEMENTS.get(kinds.pop())) is None:
        asked = ", ".join(sorted({_in_words(change) for change in request.changes}))
        name = request.name or snapshot.table_path
        raise HeadwaterError("DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE", {"tableName": name, "change": asked})
    txn = transaction(request.table, statement, snapshot)
    txn.read_whole_table()
    operation, parameters = apply(request.changes, txn, snapshot, statement)
    if txn.metadata == snapshot.metadata and txn.protocol == snapshot.protocol:
        return CommitAnswer(version=snapshot.version)
    return commit(txn, statement, Options(None), operation, parameters)


def _in_words(change: AnyTableChange) -> str:
    kind = change.change if isinstance(change, UnsupportedChange) else str(change.__struct_config__.tag)
    return _IN_WORDS.get(kind, kind.replace("_", " "))


def _set_properties(
    changes: Sequence[SetProperty], txn: Transaction, snapshot: Snapshot, statement: Statement
) -> tuple[str, dict[str, Any]]:
    metadata = txn.metadata
    given: dict[str, Any] = {change.key: change.value for change in changes}
    if "comment" in given:
        metadata = replace(metadata, description=given.pop("comment"))
    properties = normalize(given, allow_arbitrary=allows_arbitrary(statement.confs))
    refuse_universal_format(properties, snapshot.table_path, metadata.configuration)
    notices.of_properties(properties, snapshot.table_path)
    configuration = {**metadata.configuration, **properties}
    _install(txn, snapshot, replace(metadata, configuration=configuration))
    shown = {
        **properties,
        **({"comment": metadata.description} if metadata.description != snapshot.metadata.description else {}),
    }
    return "SET TBLPROPERTIES", {"properties": shown}


def _install(txn: Transaction, snapshot: Snapshot, metadata: Metadata) -> None:
    """Give a table another configuration, and what that entails: protocol, column ids, checks."""
    configuration = dict(metadata.configuration)
    old = snapshot.metadata.configuration
    mapping.check_mode_change(old, configuration)
    schema = parse_schema(metadata.schema_string)
    if mapping.mode(configuration) != "none" and mapping.mode(old) == "none":
        schema, highest = mapping.assign(schema, mapping.max_column_id(configuration, schema), keep_names=True)
        configuration[mapping.MAX_ID] = str(highest)
    check_schema(schema, metadata.partition_columns, configuration)
    check_statistics_columns(schema, metadata.partition_columns, configuration)
    metadata = replace(
        metadata,
        schema_string=schema_string(schema) if schema != snapshot.schema else metadata.schema_string,
        configuration=configuration,
    )
    protocol = protocol_for(metadata, snapshot.protocol)
    if protocol != snapshot.protocol:
        txn.update_protocol(protocol)
    txn.update_metadata(replace(metadata, configuration=without_protocol_properties(configuration)))


def _unset_properties(
    changes: Sequence[RemoveProperty], txn: Transaction, snapshot: Snapshot, statement: Statement
) -> tuple[str, dict[str, Any]]:
    keys = [canonical_name(change.key, allow_arbitrary=True) for change in changes]
    metadata = txn.metadata
    if "comment" in keys:
        metadata = replace(metadata, description=None)
    configuration = {k: v for k, v in metadata.configuration.items() if k not in keys}
    _install(txn, snapshot, replace(metadata, configuration=configuration))
    return "UNSET TBLPROPERTIES", {"properties": keys, "ifExists": "true"}


def _add_columns(
    changes: Sequence[AddColumn], txn: Transaction, snapshot: Snapshot, statement: Statement
) -> tuple[str, dict[str, Any]]:
    columns = [_new_column(change) for change in changes]
    set_schema(txn, add_columns(snapshot.schema, columns))
    _require_protocol(txn, snapshot)
    described = [
        {"column": {"name": ".".join(c.path), "type": c.type.to_json(), "nullable": c.nullable, "metadata": {}}}
        for c in columns
    ]
    return "ADD COLUMNS", {"columns": described}


def _require_protocol(txn: Transaction, snapshot: Snapshot) -> None:
    protocol = protocol_for(txn.metadata, snapshot.protocol)
    if protocol != snapshot.protocol:
        txn.update_protocol(protocol)


def _new_column(change: AddColumn) -> NewColumn:
    if change.default is not None:
        raise HeadwaterError("WRONG_COLUMN_DEFAULTS_FOR_DELTA_ALTER_TABLE_ADD_COLUMN_NOT_SUPPORTED", {})
    position = change.position
    where = None if position is None else FIRST if position.after is None else After(position.after)
    return NewColumn(
        tuple(change.path),
        parse_type(json.loads(change.type)),
        change.nullable,
        change.comment,
        where,
        change.declared_type,
    )


def _comment_columns(
    changes: Sequence[CommentColumn], txn: Transaction, snapshot: Snapshot, statement: Statement
) -> tuple[str, dict[str, Any]]:
    schema = snapshot.schema
    for change in changes:
        schema = set_comment(schema, change.path, change.comment)
    set_schema(txn, schema)
    path = changes[0].path
    column = {"name": path[-1], "comment": changes[0].comment}
    return "CHANGE COLUMN", {"column": {"path": ".".join(path), **column}}


#: What makes the changes of a statement, all of one kind; returns the operation and its parameters in the history.
_STATEMENTS: dict[type, Callable[[Any, Transaction, Snapshot, Statement], tuple[str, dict[str, Any]]]] = {
    SetProperty: _set_properties,
    RemoveProperty: _unset_properties,
    AddColumn: _add_columns,
    CommentColumn: _comment_columns,
}


def check_same_schema(request: CheckSameSchemaRequest, statement: Statement) -> None:
    """ALTER TABLE … SET LOCATION: the other location must hold a table of the same columns.

    :raises HeadwaterError: ``DELTA_SET_LOCATION_SCHEMA_MISMATCH``, and ``DELTA_TABLE_NOT_FOUND`` where it holds none.
    """
    here, there = open_snapshot(request.table, statement), open_snapshot(request.other, statement)
    differences = describe_difference(here.schema, there.schema)
    if differences:
        raise HeadwaterError(
            "DELTA_SET_LOCATION_SCHEMA_MISMATCH",
            {"location": there.table_path, "differences": "\n".join(f"- {line}" for line in differences)},
        )
