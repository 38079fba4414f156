"""ALTER TABLE's changes of columns: ADD, RENAME, DROP, REPLACE and ALTER COLUMN.

Owns what each asks of a table beyond its schema: column mapping, features, rows that must meet a new NOT NULL, and what
else depends on a column. Follows the protocol's chapters "Column Mapping", "Type Widening", "Column Invariants" and
"Default Columns". Promise: a column that something depends on is changed together with it, or not at all; the error
then names what depends on it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from typing import Any

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.define import (
    AddColumn,
    ChangeColumnDefault,
    ChangeColumnNullability,
    ChangeColumnType,
    ColumnPosition,
    CommentColumn,
    DropColumn,
    MoveColumn,
    RenameColumn,
)
from headwater.definition.changes import changed
from headwater.protocol import properties
from headwater.protocol.columns import (
    Path,
    all_fields,
    find_path,
    format_name,
    is_part,
    parse_name,
    parse_name_list,
    quote,
    type_at,
)
from headwater.protocol.features import supports
from headwater.protocol.index_properties import following_indexes
from headwater.protocol.indexed_columns import following_statistics_columns
from headwater.protocol.types import DataType, StructField, StructType, parse_type
from headwater.schema.checks import check_reserved_names
from headwater.schema.constraints import (
    NOT_NULL,
    Check,
    invariants,
    not_null_checks,
    set_default,
)
from headwater.schema.declared import as_stored, declared_type, with_declared
from headwater.schema.evolution import FIRST, After, NewColumn, add_columns, change_type, set_comment
from headwater.schema.expectations import check_new_columns, row_conditions
from headwater.schema.generated import generated_columns
from headwater.schema.identity import is_identity
from headwater.schema.keys import keys, primary_key
from headwater.schema.reshaping import (
    drop_column,
    follow_rename,
    is_within,
    last_column,
    move_column,
    paths_of,
    rename_column,
    replace_columns,
    set_nullable,
)
from headwater.statements.column_uses import ColumnUses, refuse_constraints, refuse_keys
from headwater.statements.tables.asked_keys import refuse_references
from headwater.statements.tables.definition import enforceable
from headwater.statements.tables.draft import Draft, Operation, RowCheck

#: One change within an ALTER COLUMN.
_Part = ChangeColumnType | ChangeColumnNullability | ChangeColumnDefault | CommentColumn | MoveColumn


def statement_of(kinds: Collection[type]) -> Callable[[Any, Draft], Operation] | None:
    """What makes the changes of one statement, by the kinds of its changes; None where these are none of columns, or
    not of one statement.
    """
    asked = set(kinds)
    if asked and asked <= set(PARTS):
        return _change_columns
    return _STATEMENTS.get(frozenset(asked))


# --- ADD COLUMNS -----------------------------------------------------------------------------------------------------


def _add_columns(changes: Sequence[AddColumn], draft: Draft) -> Operation:
    columns = [_new_column(change, draft) for change in changes]
    _set_schema(draft, add_columns(with_declared(draft.schema), columns))
    described = [
        {"column": _described(draft.schema, c.path), **_position(a.position)}
        for c, a in zip(columns, changes, strict=True)
    ]
    return Operation("ADD COLUMNS", {"columns": described})


def _new_column(change: AddColumn, draft: Draft) -> NewColumn:
    kind = _type(change)
    if change.default is not None:
        raise HeadwaterError(
            "WRONG_COLUMN_DEFAULTS_FOR_DELTA_ALTER_TABLE_ADD_COLUMN_NOT_SUPPORTED",
            {
                "tableName": draft.name,
                "columnName": format_name(change.path),
                "type": kind.sql().upper(),
                "default": change.default,
            },
        )
    position = change.position
    where = None if position is None else FIRST if position.after is None else After(position.after)
    return NewColumn(tuple(change.path), kind, change.nullable, change.comment, where)


def _type(change: AddColumn | ChangeColumnType) -> DataType:
    kind = parse_type(json.loads(change.type))
    return kind if change.declared_type is None else declared_type(kind, change.declared_type)


# --- RENAME COLUMN, DROP COLUMNS, REPLACE COLUMNS --------------------------------------------------------------------


def _rename_columns(changes: Sequence[RenameColumn], draft: Draft) -> Operation:
    (change,) = changes
    path, name = tuple(change.path), change.new_name
    if find_path(draft.schema, path) is not None and find_path(draft.schema, (*path[:-1], name)) is None:
        # Expressions ignore case, so they follow a rename that changes nothing else.
        _refuse_dependents(draft, [path], "rename")
    _require_mapping(draft, "DELTA_UNSUPPORTED_RENAME_COLUMN")
    _refuse_referenced(draft, path)
    schema = rename_column(with_declared(draft.schema), path, name)
    partition_columns = [follow_rename((column,), path, name)[0] for column in draft.metadata.partition_columns]
    draft.definition = changed(draft.definition, partition_columns=tuple(partition_columns))
    _follow_in_properties(draft, lambda column: follow_rename(column, path, name))
    _set_schema(draft, schema)
    renamed = {"oldColumnPath": format_name(path), "newColumnPath": format_name((*path[:-1], name))}
    return Operation("RENAME COLUMN", renamed)


def _refuse_referenced(draft: Draft, path: Path) -> None:
    """Refuse a new name for a column of a primary key, if foreign keys refer to it: they have the old one."""
    known = keys(draft.definition)
    primary = primary_key(known)
    if primary is not None and len(path) == 1 and path[0].lower() in map(str.lower, primary.columns):
        refuse_references(primary, known, draft.name, draft.statement, "rename a column of")


def _drop_columns(changes: Sequence[DropColumn], draft: Draft) -> Operation:
    paths = [
        tuple(change.path)
        for change in changes
        if not (change.if_exists and find_path(draft.schema, change.path) is None)
    ]
    schema = with_declared(draft.schema)
    if paths:
        _require_mapping(draft, "DELTA_UNSUPPORTED_DROP_COLUMN")
    for path in paths:
        schema = drop_column(schema, path)
    if paths:
        _prepare_drop(draft, paths, schema)
    _set_schema(draft, schema)
    return Operation("DROP COLUMNS", {"columns": [format_name(path) for path in paths]})


def _replace_columns(changes: Sequence[DropColumn | AddColumn], draft: Draft) -> Operation:
    schema = with_declared(draft.schema)
    # The statement has the columns of its analysis.
    asked = [change.path[0] for change in changes if isinstance(change, DropColumn)]
    if sorted(asked) != sorted(schema.names):
        raise HeadwaterError(
            "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS",
            {"tableName": draft.name, "then": ", ".join(asked), "now": ", ".join(schema.names)},
        )
    columns = [_new_column(change, draft) for change in changes if isinstance(change, AddColumn)]
    mapped = properties.COLUMN_MAPPING_MODE.of(draft.metadata.configuration) != "none"
    replaced = replace_columns(schema, columns, may_drop=mapped, allow_widening=_widens(draft))
    gone = [path for path in paths_of(schema) if find_path(replaced, path) is None]
    dropped = [path for path in gone if not any(path != other and is_within(path, other) for other in gone)]
    if dropped:
        _prepare_drop(draft, dropped, replaced)
    retyped = [
        path
        for path in paths_of(schema)
        if path not in gone and _is_retyped(type_at(schema, path), type_at(replaced, path))
    ]
    for path in retyped:
        _check_type_change(draft, path)
    if retyped:
        _refuse_dependents(draft, retyped, "change the type of")
    _check_new_not_nulls(schema, replaced, draft)
    if (primary := primary_key(keys(draft.definition))) is not None:
        nullable = [name for name in primary.columns if (field := replaced.find(name)) is not None and field.nullable]
        refuse_keys([primary], nullable, "drop NOT NULL of", draft.name)
    _set_schema(draft, replaced)
    described = [_described(draft.schema, (field.name,)) for field in draft.schema]
    return Operation("REPLACE COLUMNS", {"columns": described})


def _check_new_not_nulls(schema: StructType, replaced: StructType, draft: Draft) -> None:
    """Have the rows checked where a field that stays becomes NOT NULL; a new field is null in all of them."""
    declared = {check.name for check in not_null_checks(schema)}
    for check in not_null_checks(replaced):
        path = parse_name(check.name)
        if check.name in declared:
            continue
        if find_path(schema, path) is None:
            raise HeadwaterError(
                "DELTA_OPERATION_NOT_ALLOWED",
                {
                    "operation": f"REPLACE COLUMNS with the new NOT NULL column {check.name}",
                    "hint": "Add it as nullable.",
                },
            )
        draft.row_checks.append(RowCheck(check, "DELTA_NEW_NOT_NULL_VIOLATION"))


def _is_retyped(old: DataType | None, new: DataType | None) -> bool:
    """Whether a column changed in itself; a struct changes in its fields."""
    return old != new and not isinstance(old, StructType) and not _has_structs(old)


def _has_structs(kind: DataType | None) -> bool:
    return kind is not None and bool(list(all_fields(kind)))


def _require_mapping(draft: Draft, condition: str) -> None:
    if properties.COLUMN_MAPPING_MODE.of(draft.metadata.configuration) == "none":
        raise HeadwaterError(condition, {"tableName": draft.name})


def _prepare_drop(draft: Draft, paths: Sequence[Path], schema: StructType) -> None:
    """Let go of columns, or refuse. ``schema``: without them."""
    partitions = [column for column in draft.metadata.partition_columns if _within_any((column,), paths)]
    if partitions:
        columns = ", ".join(format_name((column,)) for column in partitions)
        raise HeadwaterError(
            "DELTA_UNSUPPORTED_DROP_PARTITION_COLUMN", {"tableName": draft.name, "columnList": columns}
        )
    clustered = [column for column in draft.snapshot.clustering_columns or [] if _within_any(column, paths)]
    if clustered:
        columns = ", ".join(map(format_name, clustered))
        raise HeadwaterError(
            "DELTA_UNSUPPORTED_DROP_CLUSTERING_COLUMN", {"tableName": draft.name, "columnList": columns}
        )
    if len(schema) <= len(draft.metadata.partition_columns):
        raise last_column(paths[-1])
    refuse_keys(keys(draft.definition), [path[0] for path in paths if len(path) == 1], "drop", draft.name)
    _refuse_dependents(draft, paths, "drop")
    _follow_in_properties(draft, lambda column: None if _within_any(column, paths) else column)


def _within_any(path: Sequence[str], columns: Sequence[Path]) -> bool:
    return any(is_within(path, column) for column in columns)


def _follow_in_properties(draft: Draft, follow: Callable[[Path], Path | None]) -> None:
    configuration = following_indexes(following_statistics_columns(draft.metadata.configuration, follow), follow)
    draft.definition = changed(draft.definition, configuration=configuration)


# --- ALTER COLUMN ----------------------------------------------------------------------------------------------------


def _change_columns(changes: Sequence[_Part], draft: Draft) -> Operation:
    schema = with_declared(draft.schema)
    for change in changes:
        schema = PARTS[type(change)](change, schema, draft)
    _set_schema(draft, schema)
    columns: dict[Path, dict[str, Any]] = {}
    for change in changes:
        described = columns.setdefault(tuple(change.path), _described(draft.schema, change.path))
        described |= _position(change.position) if isinstance(change, MoveColumn) else {}
    if len(columns) == 1:
        (described,) = columns.values()
        return Operation("CHANGE COLUMN", {"position": described.pop("position", None), "column": described})
    return Operation("CHANGE COLUMNS", {"columns": list(columns.values())})


def _change_type(change: ChangeColumnType, schema: StructType, draft: Draft) -> StructType:
    kind = _type(change)
    if is_identity(_top(schema, change.path)) and type_at(schema, change.path) != kind:
        _check_type_change(draft, change.path)
    changed = change_type(schema, change.path, kind, allow_widening=_widens(draft))
    if changed != schema:
        _check_type_change(draft, change.path)
        if as_stored(changed) != as_stored(schema):
            _refuse_dependents(draft, [tuple(change.path)], "change the type of")
    return changed


def _check_type_change(draft: Draft, path: Sequence[str]) -> None:
    column = _top(draft.schema, path)
    if is_identity(column):
        raise HeadwaterError(
            "DELTA_IDENTITY_COLUMNS_ALTER_COLUMN_NOT_SUPPORTED",
            {"columnName": column.name, "reason": "Its type must be BIGINT."},
        )
    if any(column.name == generated.name for generated in generated_columns(draft.schema)):
        raise HeadwaterError(
            "DELTA_OPERATION_NOT_ALLOWED",
            {
                "operation": f"Changing the type of the generated column {format_name(path)}",
                "hint": "Its type is that of its expression.",
            },
        )


def _change_nullability(change: ChangeColumnNullability, schema: StructType, draft: Draft) -> StructType:
    changed = set_nullable(schema, change.path, change.nullable)
    if change.nullable and len(change.path) == 1 and (primary := primary_key(keys(draft.definition))) is not None:
        refuse_keys([primary], change.path, "drop NOT NULL of", draft.name)
    if changed != schema and not change.nullable:
        check = Check(format_name(change.path), f"{quote(change.path)} IS NOT NULL", NOT_NULL)
        draft.row_checks.append(RowCheck(check, "DELTA_NEW_NOT_NULL_VIOLATION"))
    return changed


def _change_default(change: ChangeColumnDefault, schema: StructType, draft: Draft) -> StructType:
    if is_part(schema, change.path):
        raise HeadwaterError(
            "DELTA_UNSUPPORTED_FIELD_UPDATE_NON_STRUCT",
            {"columnName": format_name(change.path), "change": "given a default"},
        )
    changed = set_default(schema, change.path, change.default)
    if changed == schema or change.default is None:
        return changed
    name, column = format_name(change.path), _top(schema, change.path)
    if len(change.path) > 1:
        what, hint = "field", "Only top-level columns can have a default."
    elif is_identity(column):
        reason = (
            "It has no default, because the table numbers each row without a value for it. To give values yourself, "
            "declare the column GENERATED BY DEFAULT AS IDENTITY."
        )
        raise HeadwaterError(
            "DELTA_IDENTITY_COLUMNS_ALTER_COLUMN_NOT_SUPPORTED", {"columnName": name, "reason": reason}
        )
    elif any(column.name == g.name for g in generated_columns(schema)):
        what, hint = "generated column", "Its expression gives the value of each row that brings none."
    elif not supports(draft.protocol, "allowColumnDefaults"):
        raise HeadwaterError(
            "WRONG_COLUMN_DEFAULTS_FOR_DELTA_FEATURE_NOT_ENABLED", {"tableName": draft.name, "columnName": name}
        )
    else:
        return changed
    raise HeadwaterError("DELTA_OPERATION_NOT_ALLOWED", {"operation": f"A default of the {what} {name}", "hint": hint})


def _change_comment(change: CommentColumn, schema: StructType, draft: Draft) -> StructType:
    return set_comment(schema, change.path, change.comment)


def _move(change: MoveColumn, schema: StructType, draft: Draft) -> StructType:
    after = change.position.after
    return move_column(schema, change.path, None if after is None else After(after))


def _top(schema: StructType, path: Sequence[str]) -> StructField:
    column = schema.find(path[0])
    assert column is not None
    return column


# --- what they share -------------------------------------------------------------------------------------------------


def _set_schema(draft: Draft, schema: StructType) -> None:
    check_reserved_names(schema, draft.metadata.configuration, writing=True)
    check_new_columns(draft.metadata.configuration, schema)
    draft.set_schema(enforceable(as_stored(schema), draft.statement))


def _widens(draft: Draft) -> bool:
    return properties.TYPE_WIDENING.of(draft.metadata.configuration)


def _refuse_dependents(draft: Draft, paths: Sequence[Path], change: str) -> None:
    """Refuse a change of columns that constraints or generated columns use.

    :raises HeadwaterError: ``DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE``,
        ``DELTA_GENERATED_COLUMNS_DEPENDENT_COLUMN_CHANGE``.
    """
    schema = draft.schema
    uses = ColumnUses(draft.statement, schema)
    # A generated column that is dropped depends on nothing any more.
    generated = [c for c in generated_columns(schema) if change != "drop" or not _within_any((c.name,), paths)]
    for path in paths:
        checks = [*row_conditions(draft.metadata.configuration), *_kept_invariants(schema, paths, change)]
        refuse_constraints(uses, checks, path, change, draft.name)
        columns = [f"{c.name}: {c.sql}" for c in generated if uses.column(f"({c.sql}) IS NOT NULL", path)]
        if columns:
            raise HeadwaterError(
                "DELTA_GENERATED_COLUMNS_DEPENDENT_COLUMN_CHANGE",
                {
                    "operation": change,
                    "columnName": format_name(path),
                    "tableName": draft.name,
                    "generatedColumns": "; ".join(columns),
                },
            )


def _kept_invariants(schema: StructType, paths: Sequence[Path], change: str) -> list[Check]:
    kept = invariants(schema)
    return [c for c in kept if change != "drop" or not _within_any(parse_name_list(c.name)[0], paths)]


def _described(schema: StructType, path: Sequence[str]) -> dict[str, Any]:
    """A column as the history shows it."""
    field = find_path(schema, path)
    kind = type_at(schema, path)
    assert kind is not None
    text = kind.to_json()
    shown = {} if field is None else {k: v for k, v in field.metadata.items() if not k.startswith("delta.")}
    return {
        "name": format_name(path),
        "type": text if isinstance(text, str) else text["type"],
        "nullable": field is None or field.nullable,
        "metadata": shown,
    }


def _position(position: ColumnPosition | None) -> dict[str, str]:
    if position is None:
        return {}
    return {"position": "FIRST" if position.after is None else f"AFTER {format_name((position.after,))}"}


#: What makes each change of an ALTER COLUMN, by its kind.
PARTS: dict[type, Callable[[Any, StructType, Draft], StructType]] = {
    ChangeColumnType: _change_type,
    ChangeColumnNullability: _change_nullability,
    ChangeColumnDefault: _change_default,
    CommentColumn: _change_comment,
    MoveColumn: _move,
}
#: What makes each other statement, by the kinds of its changes.
_STATEMENTS: dict[frozenset[type], Callable[[Any, Draft], Operation]] = {
    frozenset({AddColumn}): _add_columns,
    frozenset({RenameColumn}): _rename_columns,
    frozenset({DropColumn}): _drop_columns,
    frozenset({DropColumn, AddColumn}): _replace_columns,
}
