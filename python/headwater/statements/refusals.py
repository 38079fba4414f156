"""Refusals: requests that always end in an error, for example a write to an older version.

The JVM asks here, so that it raises no error texts of its own.
"""

from __future__ import annotations

from typing import NoReturn

from headwater.bridge.hadoop_files import failure_of
from headwater.bridge.messages.trouble import (
    AssignedTwiceRequest,
    InsertIntoDirectoryRequest,
    InvalidTimestampRequest,
    InvalidVersionRequest,
    MissingPathRequest,
    NoFileSystemRequest,
    NotATableRequest,
    NotClonedRequest,
    NotConvertedRequest,
    NotDeltaRequest,
    NothingAtPathRequest,
    NotOfOneRowRequest,
    OldVersionRequest,
    PathOperationRequest,
    ReplaceOtherFormatRequest,
    TruncatePartitionRequest,
    TwoVersionsRequest,
    UnresolvedInMergeRequest,
    UnsupportedPredicateRequest,
)
from headwater.bridge.messages.write import ReplaceConditionRequest
from headwater.bridge.statement import Statement
from headwater.errors import HeadwaterError
from headwater.protocol.columns import quote
from headwater.sql.composing import FOR_SPARK, Text
from headwater.statements.calls import refuses
from headwater.stores.schemes import connector_of


@refuses
def missing_path(request: MissingPathRequest, statement: Statement) -> NoReturn:
    """``format("delta")`` without a path."""
    raise HeadwaterError("DELTA_PATH_NOT_SPECIFIED", {})


@refuses
def invalid_version(request: InvalidVersionRequest, statement: Statement) -> NoReturn:
    """A version to travel to that is no number."""
    raise HeadwaterError("DELTA_TIME_TRAVEL_INVALID_BEGIN_VALUE", {"version": request.version})


@refuses
def invalid_timestamp(request: InvalidTimestampRequest, statement: Statement) -> NoReturn:
    """A time to travel to that is no timestamp."""
    raise HeadwaterError("DELTA_TIMESTAMP_INVALID", {"expr": request.timestamp})


@refuses
def unsupported_predicate(request: UnsupportedPredicateRequest, statement: Statement) -> NoReturn:
    """An overwrite by a predicate with a subquery, or one whose value differs from call to call."""
    condition = "DELTA_UNSUPPORTED_REPLACE_WHERE" if request.deterministic else "INVALID_NON_DETERMINISTIC_EXPRESSIONS"
    raise HeadwaterError(condition, {"predicate": request.predicate})


@refuses
def two_versions(request: TwoVersionsRequest, statement: Statement) -> NoReturn:
    """A read that names both a version and a time."""
    raise HeadwaterError("DELTA_ONEOF_IN_TIMETRAVEL", {})


@refuses
def old_version(request: OldVersionRequest, statement: Statement) -> NoReturn:
    """A change of an older version."""
    raise HeadwaterError("DELTA_TIME_TRAVEL_WRITE_NOT_ALLOWED", {"path": request.table})


_VIEWS = {
    "filter": "DELTA_UNEXPECTED_PARTIAL_SCAN",
    "view": "DELTA_UNSUPPORTED_SOURCE",
    "rows": "DELTA_UNSUPPORTED_SOURCE",
    "columns": "HEADWATER_VIEW_OF_OTHER_COLUMNS",
    "computed": "DELTA_CANNOT_RESOLVE_COLUMN",
}


_REASONS = {
    "view": "it is, or reads, a view that a catalog keeps, and rows are changed through temporary views alone.",
    "rows": "they are not the rows of one Delta table, because the view joins, groups, sorts, limits or computes rows, "
    "or reads changes. A view whose rows can be changed selects columns of one table.",
}


@refuses
def not_a_table(request: NotATableRequest, statement: Statement) -> NoReturn:
    """A change of a view's rows."""
    operation = f"{request.statement} WITH SCHEMA EVOLUTION" if request.kind == "evolution" else request.statement
    parameters = {"operation": operation, "viewName": request.name}
    if request.kind in _REASONS:
        parameters["reason"] = _REASONS[request.kind]
    if request.column is not None:
        parameters["columnName"] = request.column
    raise HeadwaterError(_VIEWS.get(request.kind, "DELTA_OPERATION_ON_VIEW_NOT_ALLOWED"), parameters)


@refuses
def assigned_twice(request: AssignedTwiceRequest, statement: Statement) -> NoReturn:
    """Two values for one column of a row."""
    condition = "DELTA_DUPLICATE_COLUMNS_ON_INSERT" if request.insert else "DELTA_CONFLICT_SET_COLUMN"
    raise HeadwaterError(condition, {"columnList": ", ".join(dict.fromkeys(request.columns))})


@refuses
def truncate_partition(request: TruncatePartitionRequest, statement: Statement) -> NoReturn:
    """TRUNCATE TABLE of some partitions."""
    values = " AND ".join(
        f"{quote([column])} = {Text(value).text(FOR_SPARK)}" for column, value in request.partition.items()
    )
    raise HeadwaterError(
        "DELTA_TRUNCATE_TABLE_PARTITION_NOT_SUPPORTED", {"tableName": request.name, "condition": values or "…"}
    )


@refuses
def not_of_one_row(request: NotOfOneRowRequest, statement: Statement) -> NoReturn:
    """A condition or value that would be of many rows, or many of one."""
    raise HeadwaterError("DELTA_AGGREGATION_NOT_SUPPORTED", {"expression": request.expression})


_REPLACE_CONDITIONS = {
    "ambiguous": "DELTA_INSERT_REPLACE_ON_AMBIGUOUS_COLUMNS_IN_CONDITION",
    "unresolved": "DELTA_INSERT_REPLACE_ON_UNRESOLVED_COLUMNS_IN_CONDITION",
    "random": "DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED",
}


@refuses
def replace_condition(request: ReplaceConditionRequest, statement: Statement) -> NoReturn:
    """A condition of INSERT … REPLACE ON or MERGE with a name or a part that it cannot have."""
    near = request.near or "none"
    raise HeadwaterError(_REPLACE_CONDITIONS[request.kind], {"columnNames": request.name, "near": near})


@refuses
def insert_into_directory(request: InsertIntoDirectoryRequest, statement: Statement) -> NoReturn:
    """INSERT OVERWRITE DIRECTORY … USING delta, which would leave files without a log."""
    path = (request.path or "/path").removeprefix("file:")
    raise HeadwaterError(
        "DELTA_OPERATION_NOT_ALLOWED",
        {
            "operation": "INSERT OVERWRITE DIRECTORY",
            "hint": f"Use CREATE OR REPLACE TABLE delta.`{path}` USING delta AS SELECT …, or INSERT OVERWRITE "
            f"delta.`{path}` where the table exists.",
        },
    )


@refuses
def refuse_for_path(request: PathOperationRequest, statement: Statement) -> NoReturn:
    """A statement about a metastore's entry, on a table that is only a path."""
    if request.operation.endswith("SET LOCATION"):
        raise HeadwaterError("DELTA_CANNOT_SET_LOCATION_ON_PATH_IDENTIFIER", {"path": request.table})
    hint = (
        "To remove the data, delete the directory."
        if request.operation == "DROP TABLE"
        else f"Run CREATE TABLE <name> USING delta LOCATION '{request.table}' first, then use that name."
    )
    raise HeadwaterError(
        "DELTA_OPERATION_ON_PATH_NOT_ALLOWED", {"operation": request.operation, "path": request.table, "hint": hint}
    )


#: How statements call a table that is none of Delta's.
_NOT_DELTA = {
    "REORG": "DELTA_NOT_A_DELTA_TABLE",
    "SYNC IDENTITY": "DELTA_IDENTITY_COLUMNS_ALTER_NON_DELTA_FORMAT",
    "READING CHANGES": "DELTA_TABLE_ONLY_OPERATION",
}
#: The same of a path where there is nothing, in quotes and after ``delta.``.
_MISSING_QUOTED = {
    "DESCRIBE DETAIL": "DELTA_FILE_NOT_FOUND",
    "DESCRIBE HISTORY": "DELTA_TABLE_ONLY_OPERATION",
    "OPTIMIZE": "DELTA_TABLE_ONLY_OPERATION",
    "VACUUM": "DELTA_TABLE_ONLY_OPERATION",
}
_MISSING = {"DESCRIBE HISTORY": "DELTA_TABLE_ONLY_OPERATION", "REORG": "DELTA_ONLY_OPERATION"}


@refuses
def nothing_at_path(request: NothingAtPathRequest, statement: Statement) -> NoReturn:
    """A statement about the table at a path where there is nothing."""
    known = _MISSING_QUOTED if request.quoted else _MISSING
    condition = known.get(request.command, "DELTA_MISSING_DELTA_TABLE")
    raise HeadwaterError(condition, {"operation": request.command, "tableName": request.table, "path": request.table})


_CLAUSES = {
    "matched": "WHEN MATCHED",
    "not_matched": "WHEN NOT MATCHED",
    "not_matched_by_source": "WHEN NOT MATCHED BY SOURCE",
}
_SIDES = {
    "not_matched": "A row of the source without a match has no row of the target: the clause sees the source's columns "
    "only.",
    "not_matched_by_source": "A row of the target without a match has no row of the source: the clause sees the "
    "target's columns only.",
}


@refuses
def unresolved_in_merge(request: UnresolvedInMergeRequest, statement: Statement) -> NoReturn:
    """A name in a MERGE that no column has which the clause can see."""
    clause = _CLAUSES.get(request.clause)
    hint = _SIDES.get(request.clause, "") if request.is_of_other_side else "Check the spelling."
    raise HeadwaterError(
        "DELTA_MERGE_UNRESOLVED_EXPRESSION",
        {
            "sqlExpr": request.name,
            "clause": request.part if clause is None else f"{request.part} of {clause}",
            "cols": ", ".join(request.columns),
            "hint": hint,
        },
    )


@refuses
def not_delta(request: NotDeltaRequest, statement: Statement) -> NoReturn:
    """A statement of Delta tables on a table that is none."""
    command = request.command.replace("_", " ").upper()
    condition = _NOT_DELTA.get(command, "DELTA_ONLY_OPERATION")
    raise HeadwaterError(
        condition, {"operation": command, "tableName": request.name, "provider": "", "hint": "Name a Delta table."}
    )


@refuses
def not_cloned(request: NotClonedRequest, statement: Statement) -> NoReturn:
    """CLONE of a view, or of a table of another format."""
    raise HeadwaterError("DELTA_CLONE_UNSUPPORTED_SOURCE", {"name": request.name, "format": request.format})


@refuses
def not_converted(request: NotConvertedRequest, statement: Statement) -> NoReturn:
    """CONVERT TO DELTA of a view, or of a table that has no files of its own."""
    raise HeadwaterError("DELTA_CONVERT_NON_PARQUET_TABLE", {"tableId": request.name, "sourceName": request.format})


@refuses
def replace_other_format(request: ReplaceOtherFormatRequest, statement: Statement) -> NoReturn:
    """REPLACE TABLE … USING delta of a table of another format."""
    if request.provider == "VIEW":
        raise HeadwaterError("DELTA_CANNOT_WRITE_INTO_VIEW", {"table": request.name})
    hint = "REPLACE does not turn it into one. Drop it first, then create the Delta table, or use another name."
    raise HeadwaterError(
        "DELTA_NOT_A_DELTA_TABLE",
        {"tableName": request.name, "provider": f" (it is: {request.provider})", "hint": hint},
    )


@refuses
def no_file_system(request: NoFileSystemRequest, statement: Statement) -> NoReturn:
    """A path that Hadoop has no working file system for."""
    path = request.table
    reason = failure_of(path, request.causes).strerror
    scheme = path.partition(":")[0].lower()
    raise HeadwaterError(
        "HEADWATER_FILE_SYSTEM_NOT_USABLE", {"path": path, "reason": reason, "connector": connector_of(scheme)}
    )
