"""INSERT, ``DataFrame.write`` and ``writeTo``: rows into an existing table.

Owns what a write may change: which columns the table will have, which files it replaces. ``resolve_write`` answers
while the statement is analysed, ``write`` does the work, ``plan_save`` decides whether a save by path creates a table
or writes into one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headwater.bridge.messages.define import CommitAnswer
from headwater.bridge.messages.write import (
    PlanSaveRequest,
    ResolvedWrite,
    ResolveWriteRequest,
    SavePlan,
    WriteRequest,
)
from headwater.bridge.statement import Statement
from headwater.errors import HeadwaterError
from headwater.log.snapshot import Snapshot, table_exists
from headwater.protocol.columns import as_nullable, nullable_in_structs
from headwater.protocol.types import StructField, StructType, parse_schema, schema_string
from headwater.schema import mapping, visible
from headwater.schema.checks import check_schema
from headwater.schema.constraints import Check
from headwater.schema.evolution import merge_schemas
from headwater.schema.generated import generated_columns
from headwater.schema.identity import identity_columns
from headwater.statements.committing import commit, skip_if_done, transaction
from headwater.statements.opening import Options, locate, open_same, open_snapshot
from headwater.statements.read.scans import names_version_of_table
from headwater.statements.write.overwrite import (
    Overwrite,
    needs_change_data,
    remove_replaced,
    removed_bytes,
    replace_where,
)
from headwater.statements.write.rows import Target, unknown_columns_error, write_rows
from headwater.transaction import Transaction

AUTO_MERGE = "spark.databricks.delta.schema.autoMerge.enabled"
_DYNAMIC = "spark.sql.sources.partitionOverwriteMode"


def plan_save(request: PlanSaveRequest, statement: Statement) -> SavePlan:
    """Whether ``save(path)`` creates, replaces, writes into, leaves alone or refuses the table at a path."""
    location = locate(request.table, statement)
    options, mode = Options(request.options), request.mode
    if "versionasof" in options or "timestampasof" in options or names_version_of_table(request.table, statement):
        raise HeadwaterError("DELTA_TIME_TRAVEL_WRITE_NOT_ALLOWED", {"path": request.table})
    exists = table_exists(location.path, location.store)
    if not exists:
        return SavePlan(action="create", mode="create")
    if mode == "Ignore":
        return SavePlan(action="skip")
    if mode == "ErrorIfExists":
        raise HeadwaterError("DELTA_PATH_EXISTS", {"path": location.path})
    snapshot = open_snapshot(request.table, statement)
    partitioning = request.partition_columns
    overwriting = mode == "Overwrite"
    if overwriting and options.flag("overwriteSchema"):
        if "replacewhere" in options or _is_dynamic(options, statement):
            raise HeadwaterError("DELTA_OVERWRITE_SCHEMA_WITH_DYNAMIC_PARTITION_OVERWRITE", {})
        return SavePlan(action="create", mode="replace")
    if partitioning and [p.lower() for p in partitioning] != [p.lower() for p in snapshot.partition_columns]:
        raise HeadwaterError(
            "DELTA_PARTITION_COLUMNS_MISMATCH",
            {"given": ", ".join(partitioning), "existing": ", ".join(snapshot.partition_columns) or "none"},
        )
    _check_append_options(options, overwriting)
    return SavePlan(action="write", write="overwrite" if overwriting else "append")


def _check_append_options(options: Options, overwriting: bool) -> None:
    if "replacewhere" in options and not overwriting:
        raise HeadwaterError("DELTA_REPLACE_WHERE_IN_APPEND", {})


def resolve_write(request: ResolveWriteRequest, statement: Statement) -> ResolvedWrite:
    """The columns a write must bring, in the table's order: all it will have, less those it computes itself."""
    snapshot = open_snapshot(request.table, statement, request.version)
    options = Options(request.options)
    data = parse_schema(request.schema)
    table = snapshot.schema
    if not request.by_name:
        data = _named_by_position(table, data)
    target = table
    if _overwrites_schema(request, options):
        target = data
    elif _may_evolve(options, statement):
        target = merge_schemas(table, data, allow_widening=widens(snapshot), keep_existing_type=False)
    elif request.by_name and (error := unknown_columns_error(table, data)):
        raise error
    given = {f.name.lower() for f in data}
    computed = {c.name.lower() for c in generated_columns(target)} | {c.name.lower() for c in identity_columns(target)}
    if not request.by_name and len(data) <= len(table) - len(computed):
        # By position, a row without the computed columns is a row of the others.
        given = {f.name.lower() for f in table if f.name.lower() not in computed}
    for column in identity_columns(target):
        if column.name.lower() in given and not column.allow_explicit_insert:
            raise HeadwaterError("DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED", {"columnName": column.name})
    wanted = [f for f in target if f.name.lower() in given or f.name.lower() not in computed]
    # NOT NULL is a condition of the write's own query, whose error names the column; Spark's would not.
    return ResolvedWrite(schema=schema_string(visible.for_reading(nullable_in_structs(StructType(tuple(wanted))))))


def _named_by_position(table: StructType, data: StructType) -> StructType:
    """By position, the first columns are the table's; those beyond keep their own names."""
    return StructType(tuple(replace(f, name=table.fields[i].name) if i < len(table) else f for i, f in enumerate(data)))


def _overwrites_schema(request: ResolveWriteRequest | WriteRequest, options: Options) -> bool:
    return bool(options.flag("overwriteSchema")) and request.mode == "overwrite" and request.replace_where is None


def _may_evolve(options: Options, statement: Statement) -> bool:
    asked = options.flag("mergeSchema")
    return statement.flag(AUTO_MERGE) if asked is None else asked


def widens(snapshot: Snapshot) -> bool:
    """Whether columns of a table may take a wider type."""
    return snapshot.metadata.configuration.get("delta.enableTypeWidening", "false").lower() == "true"


def write(request: WriteRequest, statement: Statement) -> CommitAnswer:
    """Write rows whose columns have been matched to the table, and commit."""
    options = Options(request.options)
    snapshot = open_same(request, statement)
    if skip_if_done(snapshot, options, statement):
        return CommitAnswer(version=snapshot.version, skipped=True)
    txn = transaction(request.table, statement, snapshot)
    data = parse_schema(request.schema)
    overwrite = _overwrite_of(request, options, statement, snapshot)
    overwrites_schema = overwrite.kind == "all" and _overwrites_schema(request, options)
    _evolve_metadata(txn, snapshot, data, options, statement, overwrites_schema=overwrites_schema)
    target = Target(snapshot.table_path, txn.protocol, txn.metadata)
    data_change = options.flag("dataChange") is not False
    checks = _replace_where_checks(overwrite, statement)
    changes = needs_change_data(snapshot, overwrite, data_change)
    names = [f.name for f in data]
    written = write_rows(
        statement, target, request.plan, names, options, checks, data_change=data_change, changes=changes
    )
    if written.schema is not None:
        txn.update_metadata(replace(txn.metadata, schema_string=schema_string(written.schema)))
    kept, removed = remove_replaced(
        statement, txn, snapshot, overwrite, written=written, data_change=data_change, changes=changes
    )
    txn.add([*written.files, *kept.files])
    for change in [*written.changes, *kept.changes]:
        txn.add_action(change)
    return commit(
        txn,
        statement,
        options,
        operation="WRITE",
        parameters=_parameters(overwrite, snapshot),
        metrics={
            "numFiles": len(written.files) + len(kept.files),
            "numOutputRows": written.rows + kept.rows,
            "numOutputBytes": written.bytes + kept.bytes,
            **(
                {"numRemovedFiles": removed.num_rows, "numRemovedBytes": removed_bytes(removed)}
                if overwrite.kind != "append"
                else {}
            ),
        },
    )


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
    value = options.get("partitionoverwritemode") or statement.conf(_DYNAMIC) or "static"
    if value.lower() not in ("static", "dynamic"):
        raise HeadwaterError(
            "DELTA_ILLEGAL_OPTION",
            {"name": "partitionOverwriteMode", "input": value, "explain": "must be static or dynamic"},
        )
    return value.lower() == "dynamic"


def _evolve_metadata(
    txn: Transaction,
    snapshot: Snapshot,
    data: StructType,
    options: Options,
    statement: Statement,
    *,
    overwrites_schema: bool,
) -> None:
    """Give the table the columns the data brings, where the write may do that.

    :raises HeadwaterError: ``DELTA_METADATA_CHANGED`` where the columns were matched against another schema than the
        table has now.
    """
    table = snapshot.schema
    if overwrites_schema:
        new = StructType(tuple(StructField(f.name, as_nullable(f.type), True, f.metadata) for f in data))
    elif _may_evolve(options, statement):
        new = merge_schemas(table, data, allow_widening=widens(snapshot), keep_existing_type=False)
    else:
        unknown = [f.name for f in data if table.find(f.name) is None]
        if unknown:
            raise HeadwaterError("DELTA_SCHEMA_CHANGED_SINCE_ANALYSIS_OF_WRITE", {"columns": ", ".join(unknown)})
        return
    if new != table:
        set_schema(txn, new)


def set_schema(txn: Transaction, schema: StructType) -> None:
    """Give a transaction's table another schema: checked, and with ids for new columns where the table maps columns."""
    metadata = txn.metadata
    configuration = dict(metadata.configuration)
    if mapping.mode(configuration, txn.protocol) != "none":
        schema, highest = mapping.assign(schema, mapping.max_column_id(configuration, schema))
        configuration[mapping.MAX_ID] = str(highest)
    check_schema(schema, metadata.partition_columns, configuration)
    txn.update_metadata(replace(metadata, schema_string=schema_string(schema), configuration=configuration))


def _replace_where_checks(overwrite: Overwrite, statement: Statement) -> list[tuple[Check, str]]:
    if overwrite.predicate is None or not statement.flag(
        "spark.databricks.delta.replaceWhere.constraintCheck.enabled", True
    ):
        return []
    return [(Check("replaceWhere", overwrite.predicate, "check"), "DELTA_REPLACE_WHERE_MISMATCH")]
