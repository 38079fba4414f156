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
    NotDeltaRequest,
    NotOfOneRowRequest,
    OldVersionRequest,
    PathOperationRequest,
    ReplaceOtherFormatRequest,
    TruncatePartitionRequest,
    TwoVersionsRequest,
    UnsupportedPredicateRequest,
)
from headwater.bridge.messages.write import ReplaceConditionRequest
from headwater.bridge.statement import Statement
from headwater.errors import HeadwaterError
from headwater.protocol.columns import quote
from headwater.sql.composing import FOR_SPARK, Text

#: What opens paths of a scheme, where it is no part of Spark.
_CONNECTORS = {
    "s3a": "org.apache.hadoop:hadoop-aws, in the version of Spark's Hadoop",
    "s3": "org.apache.hadoop:hadoop-aws, in the version of Spark's Hadoop, and set spark.hadoop.fs.s3.impl to "
    "org.apache.hadoop.fs.s3a.S3AFileSystem, or name the path with s3a",
    "abfss": "org.apache.hadoop:hadoop-azure, in the version of Spark's Hadoop",
    "abfs": "org.apache.hadoop:hadoop-azure, in the version of Spark's Hadoop",
    "gs": "Google's connector for Hadoop",
}


def missing_path(request: MissingPathRequest, statement: Statement) -> NoReturn:
    """``format("delta")`` without a path."""
    raise HeadwaterError("DELTA_PATH_NOT_SPECIFIED", {})


def invalid_version(request: InvalidVersionRequest, statement: Statement) -> NoReturn:
    """A version to travel to that is no number."""
    raise HeadwaterError("DELTA_TIME_TRAVEL_INVALID_BEGIN_VALUE", {"version": request.version})


def invalid_timestamp(request: InvalidTimestampRequest, statement: Statement) -> NoReturn:
    """A time to travel to that is no timestamp."""
    raise HeadwaterError("DELTA_TIMESTAMP_INVALID", {"expr": request.timestamp})


def unsupported_predicate(request: UnsupportedPredicateRequest, statement: Statement) -> NoReturn:
    """An overwrite by a predicate with a subquery, or one whose value differs from call to call."""
    raise HeadwaterError("DELTA_UNSUPPORTED_REPLACE_WHERE", {"predicate": request.predicate})


def two_versions(request: TwoVersionsRequest, statement: Statement) -> NoReturn:
    """A read that names both a version and a time."""
    raise HeadwaterError("DELTA_ONEOF_IN_TIMETRAVEL", {})


def old_version(request: OldVersionRequest, statement: Statement) -> NoReturn:
    """A change of an older version."""
    raise HeadwaterError("DELTA_TIME_TRAVEL_WRITE_NOT_ALLOWED", {"path": request.table})


_VIEWS = {
    "filter": "DELTA_UNEXPECTED_PARTIAL_SCAN",
    "rows": "DELTA_UNSUPPORTED_SOURCE",
    "columns": "HEADWATER_VIEW_OF_OTHER_COLUMNS",
    "computed": "DELTA_CANNOT_RESOLVE_COLUMN",
}


def not_a_table(request: NotATableRequest, statement: Statement) -> NoReturn:
    """A change of a view's rows."""
    operation = f"{request.statement} WITH SCHEMA EVOLUTION" if request.kind == "evolution" else request.statement
    parameters = {"operation": operation, "viewName": request.name}
    if request.column is not None:
        parameters["columnName"] = request.column
    raise HeadwaterError(_VIEWS.get(request.kind, "DELTA_OPERATION_ON_VIEW_NOT_ALLOWED"), parameters)


def assigned_twice(request: AssignedTwiceRequest, statement: Statement) -> NoReturn:
    """Two values for one column of a row."""
    condition = "DELTA_DUPLICATE_COLUMNS_ON_INSERT" if request.insert else "DELTA_CONFLICT_SET_COLUMN"
    raise HeadwaterError(condition, {"columnList": ", ".join(dict.fromkeys(request.columns))})


def truncate_partition(request: TruncatePartitionRequest, statement: Statement) -> NoReturn:
    """TRUNCATE TABLE of some partitions."""
    values = " AND ".join(
        f"{quote([column])} = {Text(value).text(FOR_SPARK)}" for column, value in request.partition.items()
    )
    raise HeadwaterError(
        "DELTA_TRUNCATE_TABLE_PARTITION_NOT_SUPPORTED", {"tableName": request.name, "condition": values or "…"}
    )


def not_of_one_row(request: NotOfOneRowRequest, statement: Statement) -> NoReturn:
    """A condition or value that would be of many rows, or many of one."""
    raise HeadwaterError("DELTA_AGGREGATION_NOT_SUPPORTED", {"expression": request.expression})


_REPLACE_CONDITIONS = {
    "ambiguous": "DELTA_INSERT_REPLACE_ON_AMBIGUOUS_COLUMNS_IN_CONDITION",
    "unresolved": "DELTA_INSERT_REPLACE_ON_UNRESOLVED_COLUMNS_IN_CONDITION",
    "random": "DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED",
}


def replace_condition(request: ReplaceConditionRequest, statement: Statement) -> NoReturn:
    """A condition of INSERT … REPLACE ON or MERGE with a name or a part that it cannot have."""
    near = request.near or "none"
    raise HeadwaterError(_REPLACE_CONDITIONS[request.kind], {"columnNames": request.name, "near": near})


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


def for_path(request: PathOperationRequest, statement: Statement) -> NoReturn:
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


def not_delta(request: NotDeltaRequest, statement: Statement) -> NoReturn:
    """A statement of Delta tables on a table that is none."""
    command = request.command.replace("_", " ").upper()
    raise HeadwaterError("DELTA_ONLY_OPERATION", {"operation": command, "tableName": request.name})


def replace_other_format(request: ReplaceOtherFormatRequest, statement: Statement) -> NoReturn:
    """REPLACE TABLE … USING delta of a table of another format."""
    raise HeadwaterError("DELTA_NOT_A_DELTA_TABLE", {"tableName": request.name, "provider": request.provider})


def no_file_system(request: NoFileSystemRequest, statement: Statement) -> NoReturn:
    """A path that Hadoop has no working file system for."""
    path = request.table
    reason = failure_of(path, request.causes).strerror
    scheme = path.partition(":")[0].lower()
    connector = _CONNECTORS.get(scheme, f"the JARs of a file system for {scheme}")
    raise HeadwaterError("HEADWATER_FILE_SYSTEM_NOT_USABLE", {"path": path, "reason": reason, "connector": connector})
