"""ALTER TABLE and COMMENT ON: changes of a table's definition, one commit for each statement."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.define import (
    AddColumn,
    AddConstraint,
    AddConstraintRequest,
    AlterTableRequest,
    AnyTableChange,
    CheckSameSchemaRequest,
    ClusterBy,
    CommitAnswer,
    DropColumn,
    DropConstraint,
    DropConstraintRequest,
    DropKeyRequest,
    RemoveProperty,
    SetProperty,
    TableConstraint,
    UnsupportedChange,
)
from headwater.bridge.statement import Statement
from headwater.definition.changes import changed, unmapped
from headwater.key_index.definition import check_given
from headwater.protocol import properties
from headwater.protocol.clustering import FEATURES as CLUSTERING_FEATURES
from headwater.protocol.properties import (
    CONSTRAINT_PREFIX,
    KEY_PREFIX,
    PROPERTIES,
    TAKES_QUARANTINED,
    canonical_name,
    check_retention,
    normalize,
)
from headwater.schema import clustering
from headwater.schema.constraints import find_constraint
from headwater.schema.difference import describe_difference
from headwater.schema.expectations import asked_in, check_takes_all, find_expectation, without_expectation
from headwater.statements import notices
from headwater.statements.calls import call, own_statement
from headwater.statements.running import open_transactions
from headwater.statements.running.opening import open_snapshot
from headwater.statements.settings import ALLOWS_ARBITRARY, LOCATION_BYPASSES_CHECK
from headwater.statements.tables import alter_columns, alter_constraints, row_tracking
from headwater.statements.tables.alter_commit import alter
from headwater.statements.tables.alter_constraints import add_constraints, drop_constraints
from headwater.statements.tables.draft import Draft, Operation
from headwater.statements.tables.feature_traces import Work, check_names, remove_mapping
from headwater.statements.tables.unpartitioning import to_clustered

#: How properties begin that say how a table is kept: they may ask for features, versions, or files written again.
_PROPERTIES_THAT_ACT = ("delta.", "headwater.")
#: What cannot be done yet, as people say it.
_IN_WORDS = {
    "column_type": "change the type of a column",
    "column_nullability": "change whether a column may be null",
    "column_default": "set or drop the default of a column",
    "column_position": "move a column",
    "rename_column": "rename a column",
    "drop_column": "drop a column",
}


@call(commits=True, in_transaction=True)
def alter_table(request: AlterTableRequest, statement: Statement) -> CommitAnswer:
    """Apply the changes of a statement, all or none."""
    if open_transactions.current(statement) is not None:
        _check_undone_by_rollback(request)
    if _ends_mapping(request):
        _check_without_mapping(request, statement)
        remove_mapping(Work(request.table, request.name or request.table, statement))
    if row_tracking.is_asked(request):
        row_tracking.prepare(request, statement)
    clusterings = [change for change in request.changes if isinstance(change, ClusterBy)]
    if clusterings and len(clusterings) == len(request.changes):
        return alter(request.table, request.name, statement, to_clustered(clusterings), discards=False)
    return alter(request.table, request.name, statement, lambda draft: _apply(request.changes, draft))


@own_statement("constraints", output=None, commits=True, in_transaction=True)
def add_constraint(request: AddConstraintRequest, statement: Statement) -> CommitAnswer:
    """ADD CONSTRAINT of a Spark that does not parse it."""
    asked = request.arguments
    change = AddConstraint(constraint=TableConstraint(**msgspec.structs.asdict(asked)))
    return alter_table(AlterTableRequest(table=request.table, name=request.name, changes=[change]), statement)


@own_statement("constraints", output=None, commits=True, in_transaction=True)
def drop_constraint(request: DropConstraintRequest, statement: Statement) -> CommitAnswer:
    """DROP CONSTRAINT of a Spark that does not parse it."""
    asked = request.arguments
    change = DropConstraint(name=asked.name, if_exists=asked.if_exists, cascade=asked.cascade)
    return alter_table(AlterTableRequest(table=request.table, name=request.name, changes=[change]), statement)


@own_statement("alter", output=None, commits=True, in_transaction=True)
def drop_key(request: DropKeyRequest, statement: Statement) -> CommitAnswer:
    """DROP PRIMARY KEY and DROP FOREIGN KEY, which no Spark parses."""
    return alter(
        request.table,
        request.name,
        statement,
        lambda draft: alter_constraints.drop_key(request.arguments, draft),
    )


def _check_undone_by_rollback(request: AlterTableRequest) -> None:
    """Within a transaction over several statements: what one commit of metadata does, and depends on no version.

    :raises HeadwaterError: ``HEADWATER_NOT_IN_TRANSACTION``.
    """
    for change in request.changes:
        given = change.key if isinstance(change, (SetProperty, RemoveProperty)) else ""
        known = canonical_name(given, allow_arbitrary=True).startswith(_PROPERTIES_THAT_ACT)
        if known or isinstance(change, ClusterBy):
            what = f"ALTER TABLE of the property {given}" if known else "ALTER TABLE … CLUSTER BY"
            raise open_transactions.not_in_transaction(what, request.name or request.table)


def _ends_mapping(request: AlterTableRequest) -> bool:
    """Whether a statement takes the mode of column mapping back to none: each file is then written again."""
    for change in request.changes:
        if isinstance(change, (SetProperty, RemoveProperty)):
            key = canonical_name(change.key, allow_arbitrary=True)
            value = change.value if isinstance(change, SetProperty) else "none"
            if key == properties.COLUMN_MAPPING_MODE.name and value.lower() == "none":
                return True
    return False


def _check_without_mapping(request: AlterTableRequest, statement: Statement) -> None:
    """Refuse, before any file is written again, what the last commit would refuse."""
    snapshot = open_snapshot(request.table, statement)
    check_names(snapshot)
    draft = Draft.of(snapshot, statement, request.name or snapshot.table_path)
    draft.definition = unmapped(snapshot.definition)
    _apply(request.changes, draft)


def _apply(changes: Sequence[AnyTableChange], draft: Draft) -> Operation:
    kinds = {type(change) for change in changes}
    if apply := _statement_of(kinds, changes):
        return apply(changes, draft)
    parts = [[change for change in changes if type(change) in together] for together in _TOGETHER]
    if sum(map(len, parts)) < len(changes):
        asked = ", ".join(sorted({_in_words(change) for change in changes}))
        raise HeadwaterError("DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE", {"tableName": draft.name, "change": asked})
    operations = []
    for part in filter(None, parts):
        apply = _statement_of({type(change) for change in part}, part)
        assert apply is not None
        operations.append(apply(part, draft))
    parameters = {name: value for operation in operations for name, value in operation.parameters.items()}
    return Operation(operations[-1].name, parameters)


def _statement_of(
    kinds: Collection[type], changes: Sequence[AnyTableChange]
) -> Callable[[Any, Draft], Operation] | None:
    """What makes the changes of one SQL statement; None for changes that no statement has together."""
    # REPLACE COLUMNS drops first.
    if kinds == {AddColumn, DropColumn} and isinstance(changes[0], AddColumn):
        return None
    (only,) = kinds if len(kinds) == 1 else (None,)
    return alter_columns.statement_of(kinds) or (_STATEMENTS.get(only) if only else None)


def _in_words(change: AnyTableChange) -> str:
    kind = change.change if isinstance(change, UnsupportedChange) else str(change.__struct_config__.tag)
    return _IN_WORDS.get(kind, kind.replace("_", " "))


def set_properties(changes: Sequence[SetProperty], draft: Draft) -> Operation:
    """Give the table of a draft some properties, and what they entail."""
    before = draft.metadata
    given: dict[str, Any] = {change.key: change.value for change in changes}
    if "comment" in given:
        draft.definition = changed(draft.definition, description=given.pop("comment"))
    properties = normalize(given, allow_arbitrary=ALLOWS_ARBITRARY.of(draft.statement))
    _refuse_clustering_alone(properties)
    properties = _without_constraints(properties, before.configuration)
    properties, expected = asked_in(properties)
    for each in expected:
        # Spark's pipelines set all properties of a table each time.
        if find_expectation(before.configuration, each.name) != each:
            draft.set_configuration(without_expectation(draft.metadata.configuration, each.name))
            alter_constraints.add_expectation(each, draft)
    check_retention(properties, {**before.configuration, **properties})
    notices.of_properties(properties, draft.snapshot.table_path)
    draft.set_configuration({**draft.metadata.configuration, **properties})
    check_given(draft.definition, properties)
    if TAKES_QUARANTINED.name in properties:
        check_takes_all(draft.metadata.configuration)
    comment = {"comment": draft.metadata.description} if draft.metadata.description != before.description else {}
    return Operation("SET TBLPROPERTIES", {"properties": {**properties, **comment}})


def _refuse_clustering_alone(properties: Mapping[str, str]) -> None:
    if any(key.lower() == clustering.FEATURE_PROPERTY for key in properties):
        raise HeadwaterError(
            "DELTA_ALTER_TABLE_SET_CLUSTERING_TABLE_FEATURE_NOT_ALLOWED", {"feature": CLUSTERING_FEATURES[0]}
        )


def _without_constraints(given: Mapping[str, str], existing: Mapping[str, str]) -> dict[str, str]:
    """A constraint is added by a statement that checks it, and the rows; one that is there already may be repeated.

    :raises HeadwaterError: ``DELTA_ADD_CONSTRAINTS``.
    """
    constraints = {key: value for key, value in given.items() if key.startswith(CONSTRAINT_PREFIX)}
    for key, value in constraints.items():
        name = key[len(CONSTRAINT_PREFIX) :]
        known = find_constraint(existing, name)
        if known is None or known[1] != value:
            raise HeadwaterError("DELTA_ADD_CONSTRAINTS", {"property": key, "name": name, "expr": value})
    return {key: value for key, value in given.items() if key not in constraints}


def _unset_properties(changes: Sequence[RemoveProperty], draft: Draft) -> Operation:
    keys = [canonical_name(change.key, allow_arbitrary=True) for change in changes]
    for key in keys:
        known = PROPERTIES.get(key)
        is_kept = (known is not None and not known.settable) or key.startswith(KEY_PREFIX)
        if is_kept and key in draft.metadata.configuration:
            raise HeadwaterError("DELTA_CANNOT_MODIFY_TABLE_PROPERTY", {"prop": key})
    if "comment" in keys:
        draft.definition = changed(draft.definition, description=None)
    draft.set_configuration({k: v for k, v in draft.metadata.configuration.items() if k not in keys})
    return Operation("UNSET TBLPROPERTIES", {"properties": keys, "ifExists": "true"})


#: What makes the changes of a statement, all of one kind.
_STATEMENTS: dict[type, Callable[[Any, Draft], Operation]] = {
    SetProperty: set_properties,
    RemoveProperty: _unset_properties,
    AddConstraint: add_constraints,
    DropConstraint: drop_constraints,
}
#: What Spark's pipelines ask for at once, in the order in which it is done: columns may need a property.
_TOGETHER: tuple[Collection[type], ...] = ({SetProperty}, {DropColumn}, {AddColumn}, alter_columns.PARTS)


@call(commits=False, in_transaction=False, words="ALTER TABLE … SET LOCATION")
def check_same_schema(request: CheckSameSchemaRequest, statement: Statement) -> None:
    """ALTER TABLE … SET LOCATION: the other location must hold a table of the same columns.

    :raises HeadwaterError: ``DELTA_SET_LOCATION_SCHEMA_MISMATCH``; ``DELTA_MISSING_DELTA_TABLE`` if it holds none.
    """
    if LOCATION_BYPASSES_CHECK.of(statement):
        return
    here = open_snapshot(request.table, statement)
    try:
        there = open_snapshot(request.other, statement)
    except HeadwaterError as error:
        if error.condition != "DELTA_TABLE_NOT_FOUND":
            raise
        raise HeadwaterError("DELTA_MISSING_DELTA_TABLE", error.parameters) from None
    differences = describe_difference(here.schema, there.schema)
    if differences:
        raise HeadwaterError(
            "DELTA_SET_LOCATION_SCHEMA_MISMATCH",
            {"location": there.table_path, "differences": "\n".join(f"- {line}" for line in differences)},
        )
