"""INSERT, ``DataFrame.write`` and ``writeTo``: rows into an existing table.

Owns what a write may change: which columns the table will have, which files it replaces. ``resolve_write`` answers
while the statement is analysed, ``write`` does the work, ``plan_save`` decides whether a save by path creates a table
or writes into one.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Any

import msgspec

from headwater.basics.errors import HeadwaterError, illegal_option
from headwater.bridge.messages.define import CommitAnswer
from headwater.bridge.messages.read import TableDescription
from headwater.bridge.messages.write import (
    PlanSaveRequest,
    ResolvedWrite,
    ResolveWriteRequest,
    SavePlan,
    WriteRequest,
)
from headwater.bridge.statement import Statement
from headwater.catalogs.interface import Maintenance
from headwater.definition.changes import evolved, numbered
from headwater.log.snapshot import Snapshot, table_exists
from headwater.protocol.column_metadata import CURRENT_DEFAULT
from headwater.protocol.columns import format_name, nullable_in_structs
from headwater.protocol.types import (
    StructField,
    StructType,
    as_nullable,
    parse_schema,
    schema_string,
)
from headwater.schema import iceberg, mapping, visible
from headwater.schema.evolution import (
    lacking_fields,
    other_case_error,
    partition_mismatch_error,
    unknown_columns_error,
)
from headwater.schema.generated import generated_columns
from headwater.schema.identity import identity_columns
from headwater.statements.calls import reads
from headwater.statements.column_uses import refuse_lost_columns
from headwater.statements.files.quarantine import settle
from headwater.statements.files.rows import Target, write_rows
from headwater.statements.known_options import check_options
from headwater.statements.reads.loading import describe, names_version_of_table
from headwater.statements.running.committing import commit, idempotence, skip_if_done, transaction
from headwater.statements.running.managed_tables import check_allowed
from headwater.statements.running.opening import Options, SeenTable, locate, open_same, open_snapshot
from headwater.statements.running.rerunning import run_again_after_losses
from headwater.statements.settings import CASE_SENSITIVE, PARTITION_OVERWRITE_MODE
from headwater.statements.writes import upsert_options
from headwater.statements.writes.criteria import asks_to_replace, refuse_criteria, replace_criteria
from headwater.statements.writes.evolving import grown_schema, may_evolve
from headwater.statements.writes.given_options import check_given
from headwater.statements.writes.overwrite import (
    Overwrite,
    needs_change_data,
    remove_replaced,
    replace_where,
    replaced_metrics,
    row_checks,
)
from headwater.transaction import Transaction
from headwater.transaction.commit_info import Provenance


@reads
def plan_save(request: PlanSaveRequest, statement: Statement) -> SavePlan:
    """Whether ``save(path)`` creates, replaces, writes into, leaves alone or refuses the table at a path."""
    location = locate(request.table, statement)
    options, mode = Options(request.options), request.mode
    check_options(request.options)
    if "versionasof" in options or "timestampasof" in options or names_version_of_table(request.table, statement):
        raise HeadwaterError("DELTA_TIME_TRAVEL_WRITE_NOT_ALLOWED", {"path": request.table})
    overwriting = mode == "Overwrite"
    if upsert_options.asked(options):
        upsert_options.check(request.options, "overwrite" if overwriting else "append")
    exists = table_exists(location.path, location.store)
    if not exists:
        if overwriting:
            replace_criteria(options)
        else:
            refuse_criteria(options, "append")
        return SavePlan(action="create", mode="create")
    if mode == "Ignore":
        return SavePlan(action="skip")
    if mode == "ErrorIfExists":
        raise HeadwaterError("DELTA_PATH_EXISTS", {"path": location.path})
    snapshot = open_snapshot(request.table, statement)
    partitioning = request.partition_columns
    if overwriting and options.flag("overwriteSchema"):
        replace_criteria(options)
        if "replacewhere" in options or _is_dynamic(options, statement):
            raise HeadwaterError("DELTA_OVERWRITE_SCHEMA_WITH_DYNAMIC_PARTITION_OVERWRITE", {})
        return SavePlan(action="create", mode="replace")
    if partitioning and [p.lower() for p in partitioning] != [p.lower() for p in snapshot.partition_columns]:
        raise partition_mismatch_error(partitioning, snapshot.partition_columns)
    _check_append_options(options, overwriting)
    if asks_to_replace(options) and overwriting:
        return SavePlan(action="write", write="replace")
    return SavePlan(action="write", write="overwrite" if overwriting else "append")


def _check_append_options(options: Options, overwriting: bool) -> None:
    if "replacewhere" in options and not overwriting:
        raise HeadwaterError("DELTA_REPLACE_WHERE_IN_APPEND", {})
    if not overwriting:
        refuse_criteria(options, "append")


@reads
def resolve_write(request: ResolveWriteRequest, statement: Statement) -> ResolvedWrite:
    """The columns a write must bring, in the table's order: all it will have, less those it computes itself."""
    snapshot = open_snapshot(request.table, statement, request.version)
    options = Options(request.options)
    check_given(request.options, snapshot, statement, is_sql=request.is_sql)
    data = parse_schema(request.schema)
    table = snapshot.schema
    if not request.by_name:
        data = named_by_position(table, data)
    if upsert_options.asked(options):
        upsert_options.check(request.options, "overwrite" if request.replace_where is not None else request.mode)
        # Matched when they are merged: not all of them need be stored.
        return ResolvedWrite(schema=schema_string(data))
    refuse_criteria(options, "filter" if request.replace_where is not None else request.mode)
    target = table
    if _overwrites_schema(request, options):
        target = data
    elif may_evolve(options, statement):
        target = grown_schema(snapshot, data, statement, table_name=request.name or snapshot.table_path)
    elif request.by_name:
        if error := unknown_columns_error(table, data):
            raise error
        if request.is_sql:
            _check_fields(table, data, request.name or snapshot.table_path)
    if request.by_name and CASE_SENSITIVE.of(statement) and (error := other_case_error(target, data)):
        raise error
    given = {f.name.lower() for f in data}
    computed = _computed(target)
    for column in identity_columns(target):
        if column.name.lower() in given and not column.allow_explicit_insert:
            raise HeadwaterError("DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED", {"columnName": column.name})
    wanted = [f for f in target if f.name.lower() in given or f.name.lower() not in computed]
    if request.by_name:
        _check_required(wanted, given, is_sql=request.is_sql)
    # NOT NULL is a condition of the write's own query, whose error names the column; Spark's would not.
    return ResolvedWrite(schema=schema_string(visible.for_reading(nullable_in_structs(StructType(tuple(wanted))))))


def _check_required(wanted: Sequence[StructField], given: Set[str], *, is_sql: bool) -> None:
    """Refuse rows that would be null in a NOT NULL column whatever they are.

    :raises HeadwaterError: ``DELTA_INSERT_COLUMN_MISMATCH``, ``DELTA_MISSING_NOT_NULL_COLUMN_VALUE``.
    """
    for column in wanted:
        if not column.nullable and column.name.lower() not in given and CURRENT_DEFAULT not in column.metadata:
            condition = "DELTA_INSERT_COLUMN_MISMATCH" if is_sql else "DELTA_MISSING_NOT_NULL_COLUMN_VALUE"
            raise HeadwaterError(condition, {"columnName": format_name((column.name,))})


def _check_fields(table: StructType, data: StructType, name: str) -> None:
    """Refuse structs without some of their fields, as UPDATE and MERGE do: a forgotten value is no null.

    :raises HeadwaterError: ``DELTA_INSERT_COLUMN_ARITY_MISMATCH``.
    """
    if lacking := lacking_fields(table, data):
        fields = ", ".join(format_name(path) for path in lacking)
        raise HeadwaterError("DELTA_INSERT_COLUMN_ARITY_MISMATCH", {"tableName": name, "fields": fields})


def named_by_position(table: StructType, data: StructType) -> StructType:
    """By position, the first columns are the table's; those beyond keep their own names. A row that is not longer than
    one without the computed columns is a row of the others.
    """
    computed = _computed(table)
    names = [name for name in table.names if name.lower() not in computed]
    if len(data) > len(names):
        names = table.names
    return StructType(tuple(replace(f, name=names[i]) if i < len(names) else f for i, f in enumerate(data)))


def _computed(table: StructType) -> set[str]:
    return {c.name.lower() for c in generated_columns(table)} | {c.name.lower() for c in identity_columns(table)}


def _overwrites_schema(request: ResolveWriteRequest | WriteRequest, options: Options) -> bool:
    return bool(options.flag("overwriteSchema")) and request.mode == "overwrite" and request.replace_where is None


def write(request: WriteRequest, statement: Statement) -> CommitAnswer:
    """Write rows whose columns have been matched to the table, and commit; again after a conflict with another writer,
    where the rows are computed again and still have the table's columns.

    :raises HeadwaterError: the conflict, where that cannot be.
    """

    def may_run_again(error: HeadwaterError) -> bool:
        return not _has_old_rows(request) and still_fits(request, request.version, request.schema, statement)

    def waits_for_others() -> bool:
        return not request.reads_table and numbers_rows(request, request.schema, statement)

    return run_again_after_losses(
        request.table,
        statement,
        lambda: _write_once(request, statement),
        may_run_again,
        waits_for_others=waits_for_others,
    )


def numbers_rows(seen: SeenTable, schema: str, statement: Statement) -> bool:
    """Whether the table gives values to an identity column of rows with a schema. Such a write makes each MERGE and
    upsert lose that numbers rows meanwhile, and is much quicker: beside many of them, none would end.
    """
    given = {name.lower() for name in parse_schema(schema).names}
    return any(column.name.lower() not in given for column in identity_columns(open_same(seen, statement).schema))


def _has_old_rows(request: WriteRequest) -> bool:
    """Whether the rows, computed again, would still be those of an older version: Spark has fixed the version of the
    table that they come from. Of rows of unknown origin, only an overwrite would lose what another wrote meanwhile.
    """
    return request.reads_table or request.rows_are_fixed and request.mode != "append"


def still_fits(
    seen: SeenTable, version: int | None, schema: str, statement: Statement, among: Sequence[str] | None = None
) -> bool:
    """Whether a table still has the columns, with their types, that rows were matched to at a version; ``schema`` is
    the rows'.

    :param among: the names of the columns that matter; None for all.
    """
    if version is None:
        return False
    then, now = (open_same(seen, statement, each).schema for each in (version, None))
    names = None if among is None else {name.lower() for name in among}
    for name in parse_schema(schema).names:
        if names is not None and name.lower() not in names:
            continue
        before, after = then.find(name), now.find(name)
        if before is not None and (after is None or after.type.sql() != before.type.sql()):
            return False
    return True


def _write_once(request: WriteRequest, statement: Statement) -> CommitAnswer:
    options = Options(request.options)
    snapshot = open_same(request, statement, request.version if request.reads_table else None)
    if skip_if_done(snapshot, options, statement):
        return CommitAnswer(version=snapshot.version, skipped=True)
    txn = transaction(request.table, statement, snapshot)
    if request.reads_table:
        txn.read_whole_table()
    data = parse_schema(request.schema)
    overwrite = _overwrite_of(request, options, statement, snapshot)
    overwrites_schema = overwrite.kind == "all" and _overwrites_schema(request, options)
    evolve_metadata(txn, snapshot, data, options, statement, overwrites_schema=overwrites_schema)
    target = Target(snapshot.table_path, txn.definition)
    data_change = options.flag("dataChange") is not False
    if not data_change:
        check_allowed(snapshot, Maintenance.DATA_REORGANIZATION, "A write with dataChange = false", request.name)
    checks = row_checks(overwrite, statement)
    changes = needs_change_data(snapshot, overwrite, data_change)
    names = [f.name for f in data]
    written = write_rows(
        statement, target, request.plan, names, options, extra_checks=checks, data_change=data_change, changes=changes
    )
    if written.schema is not None:
        txn.redefine(numbered(txn.definition, written.schema))
    settle(statement, txn, target, written.violations, "WRITE", name=request.name)
    kept, removed = remove_replaced(
        statement,
        txn,
        snapshot,
        overwrite,
        written=written,
        data_change=data_change,
        changes=changes,
        options=options,
    )
    # Rows that a write without changes of data brings are the table's own, under new ids.
    txn.loses_row_ids = not data_change and bool(written.files) and removed.num_rows > 0
    txn.add([*written.files, *kept.files])
    for change in [*written.changes, *kept.changes]:
        txn.add_action(change)
    metrics = {
        "numFiles": len(written.files) + len(kept.files),
        "numOutputRows": written.rows + kept.rows,
        "numOutputBytes": written.bytes + kept.bytes,
        **replaced_metrics(snapshot, overwrite, written, kept, removed),
    }
    provenance = Provenance("WRITE", _parameters(overwrite, snapshot), metrics, options.user_metadata)
    return commit(txn, statement, provenance, application=idempotence(options, statement))


def _parameters(overwrite: Overwrite, snapshot: Snapshot) -> dict[str, Any]:
    parameters: dict[str, Any] = {
        "mode": "Append" if overwrite.kind == "append" else "Overwrite",
        "partitionBy": list(snapshot.partition_columns),
    }
    if overwrite.predicate is not None:
        parameters["predicate"] = overwrite.predicate
    if overwrite.kind == "dynamic":
        parameters["isDynamicPartitionOverwrite"] = "true"
    return parameters


def _overwrite_of(request: WriteRequest, options: Options, statement: Statement, snapshot: Snapshot) -> Overwrite:
    mode = request.mode
    predicate = request.replace_where or options.get("replacewhere")
    if mode == "append":
        _check_append_options(options, False)
        return Overwrite("append")
    if predicate is not None:
        if (
            mode == "dynamic"
            or "partitionoverwritemode" in options
            and options["partitionoverwritemode"].lower() == "dynamic"
        ):
            raise HeadwaterError("DELTA_REPLACE_WHERE_WITH_DYNAMIC_PARTITION_OVERWRITE", {})
        return replace_where(statement, snapshot, predicate)
    if snapshot.partition_columns and (mode == "dynamic" or _is_dynamic(options, statement)):
        return Overwrite("dynamic")
    return Overwrite("all")


def _is_dynamic(options: Options, statement: Statement) -> bool:
    value = options.get("partitionoverwritemode") or PARTITION_OVERWRITE_MODE.of(statement) or "static"
    if value.lower() not in ("static", "dynamic"):
        raise illegal_option("partitionOverwriteMode", value, "must be static or dynamic")
    return value.lower() == "dynamic"


def evolve_metadata(
    txn: Transaction,
    snapshot: Snapshot,
    data: StructType,
    options: Options,
    statement: Statement,
    *,
    overwrites_schema: bool,
) -> None:
    """Give the table the columns the data brings, where the write may do that.

    :raises HeadwaterError: ``DELTA_SCHEMA_CHANGED_SINCE_ANALYSIS_OF_WRITE`` if it may not, and the data brings a
        column that the table does not have, or no longer.
    """
    table = snapshot.schema
    if overwrites_schema:
        new = StructType(tuple(StructField(f.name, as_nullable(f.type), True, f.metadata) for f in data))
        refuse_lost_columns(statement, snapshot.definition, new, txn.metadata.name or f"delta.`{snapshot.table_path}`")
    elif may_evolve(options, statement):
        new = grown_schema(
            snapshot, data, statement, table_name=txn.metadata.name or snapshot.table_path, rows_are_cast=True
        )
    else:
        unknown = [f.name for f in data if table.find(f.name) is None]
        if unknown:
            raise HeadwaterError("DELTA_SCHEMA_CHANGED_SINCE_ANALYSIS_OF_WRITE", {"columns": ", ".join(unknown)})
        return
    if overwrites_schema or new != table:
        txn.redefine(evolved(snapshot.definition, new, overwrites=overwrites_schema))


def described_with(snapshot: Snapshot, schema: StructType) -> TableDescription | None:
    """The table with another schema, for the analysis of a statement that gives it this one; None if it has it."""
    if schema == snapshot.schema:
        return None
    configuration = snapshot.metadata.configuration
    if snapshot.definition.maps_columns:
        nested = iceberg.needs_nested_ids(configuration)
        schema, _ = mapping.assign(schema, mapping.max_column_id(configuration, schema), nested=nested)
    return msgspec.structs.replace(
        describe(snapshot),
        schema=schema_string(visible.for_reading(schema)),
        table_schema=schema_string(schema),
    )
