"""Reading the change data feed: ``table_changes``, the option ``readChangeFeed`` and CHANGES FROM.

Owns what the three share: the bounds as the user wrote them, and the answer from which the JVM builds a relation.
Promise: the range and its files are fixed when the query is analyzed. Later versions are not in it, and a file that
VACUUM deleted meanwhile is an error when it is read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import NoReturn

from headwater.bridge.messages.read import (
    AsksForChangesRequest,
    BoundsOfCallRequest,
    CallBounds,
    ChangeGroup,
    ChangesAnswer,
    ChangesBound,
    CheckChangeFilesRequest,
    FunctionArgument,
    TableChangesRequest,
)
from headwater.bridge.statement import Statement
from headwater.changes.bounds import Bound, resolve
from headwater.changes.feed import open_feed
from headwater.changes.files import ChangedFile, file_not_found
from headwater.changes.schemas import SCHEMA_MODE, Definition
from headwater.errors import HeadwaterError
from headwater.log.history import CommitTimes
from headwater.log.segment import list_log
from headwater.log.snapshot import Snapshot
from headwater.protocol.actions import DeletionVector
from headwater.protocol.types import PrimitiveType, StructField, StructType, schema_string
from headwater.schema import visible
from headwater.statements.opening import Options, open_snapshot
from headwater.statements.read.scans import MOST_FILES_CHECKED, describe_vector
from headwater.statements.write.change_data import CHANGE_TYPE
from headwater.stores import absolute_path
from headwater.times import timestamp_text

COMMIT_VERSION, COMMIT_TIMESTAMP = "_commit_version", "_commit_timestamp"
_CHANGE_COLUMNS = (
    StructField(CHANGE_TYPE, PrimitiveType("string")),
    StructField(COMMIT_VERSION, PrimitiveType("long")),
    StructField(COMMIT_TIMESTAMP, PrimitiveType("timestamp")),
)
_OUT_OF_RANGE = "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled"
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_TIMES = ("string", "timestamp", "timestamp_ntz", "date")


def table_changes(request: TableChangesRequest, statement: Statement) -> ChangesAnswer:
    """The changes of a table as groups of files, which a relation each reads.

    :raises HeadwaterError: those of the bounds and of opening the feed.
    """
    if request.time_travel:
        raise HeadwaterError("DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS", {"tableName": request.table})
    if request.deduplication_mode == "netChanges":
        raise HeadwaterError("DELTA_CHANGELOG_UNSUPPORTED_OPTION", {"option": "deduplicationMode = netChanges"})
    asked = _asked(request.bounds)
    snapshot = open_snapshot(request.table, statement)
    times = CommitTimes(
        list_log(snapshot.table_path, snapshot.store), snapshot.metadata, snapshot.store, snapshot.version
    )
    versions = resolve(*asked, times, snapshot.version, may_be_after_latest=statement.flag(_OUT_OF_RANGE))
    if versions is None:
        return _empty(snapshot)
    feed = open_feed(
        versions,
        snapshot,
        times,
        lambda version: open_snapshot(request.table, statement, version),
        statement.conf(SCHEMA_MODE) or "endVersion",
    )
    return describe_feed(snapshot.table_path, feed.definition, feed.files, feed.timestamps, versions.last)


def bounds_of_call(request: BoundsOfCallRequest, statement: Statement) -> CallBounds:
    """The table and bounds of ``table_changes('name', start [, end])`` or ``table_changes_by_path``.

    :raises HeadwaterError: ``INCORRECT_NUMBER_OF_ARGUMENTS``, ``DELTA_UNSUPPORTED_EXPRESSION``,
        ``DELTA_CDC_NON_CONSTANT_ARGUMENT``.
    """
    function, arguments = request.function, request.arguments
    if not 2 <= len(arguments) <= 3:
        raise HeadwaterError("INCORRECT_NUMBER_OF_ARGUMENTS", {"functionName": function, "found": len(arguments)})
    for position, argument in enumerate(arguments, 1):
        if not argument.constant:
            raise HeadwaterError(
                "DELTA_CDC_NON_CONSTANT_ARGUMENT",
                {"pos": position, "functionName": function, "sqlExpr": argument.sql},
            )
    table, *given = arguments
    if table.type != "string" or table.value is None:
        _unsupported(table, "table", "a string")
    bounds = []
    for name, argument in zip(("starting", "ending"), given, strict=False):
        if argument.value is not None and argument.type in _INTEGERS:
            kind = "Version"
        elif argument.value is None or argument.type in _TIMES:
            kind = "Timestamp"
        else:
            _unsupported(argument, name.removesuffix("ing"), "a whole number, a string or a timestamp")
        bounds.append(ChangesBound(name=f"{name}{kind}", value=argument.value, micros=argument.micros))
    return CallBounds(table=table.value, bounds=bounds)


def asks_for_changes(request: AsksForChangesRequest, statement: Statement) -> bool:
    """Whether a reader's options ask for the change feed.

    :raises HeadwaterError: ``DELTA_ILLEGAL_OPTION``.
    """
    options = Options(request.options)
    return bool(options.flag("readChangeFeed")) or bool(options.flag("readChangeData"))


def check_change_files(request: CheckChangeFilesRequest, statement: Statement) -> None:
    """Name a file of a scan that is gone before any task looks for it; only where looking is cheap.

    :raises HeadwaterError: ``DELTA_CHANGE_DATA_FILE_NOT_FOUND``.
    """
    if statement.flag("spark.sql.files.ignoreMissingFiles"):
        return
    for file in request.files:
        for needed in (file.path, *_vector_files(file.rows)):
            if needed.startswith("/") and not os.path.exists(needed):
                raise file_not_found(file.version, needed, request.table)


def _unsupported(argument: FunctionArgument, name: str, supported: str) -> NoReturn:
    raise HeadwaterError(
        "DELTA_UNSUPPORTED_EXPRESSION",
        {"expType": argument.type.upper(), "causedBy": name, "supportedTypes": supported},
    )


def _asked(given: Sequence[ChangesBound]) -> tuple[Bound, Bound | None]:
    """The two bounds of a read.

    :raises HeadwaterError: ``DELTA_MULTIPLE_CDC_BOUNDARY``, ``DELTA_NO_START_FOR_CDC_READ`` and those of a bound.
    """
    found: dict[str, list[ChangesBound]] = {"starting": [], "ending": []}
    for bound in given:
        found["starting" if bound.name.lower().startswith("starting") else "ending"].append(bound)
    for side, several in found.items():
        if len(several) > 1:
            raise HeadwaterError("DELTA_MULTIPLE_CDC_BOUNDARY", {"startingOrEnding": side})
    if not found["starting"]:
        raise HeadwaterError("DELTA_NO_START_FOR_CDC_READ", {})
    start = _bound(found["starting"][0])
    return start, _bound(found["ending"][0]) if found["ending"] else None


def _bound(given: ChangesBound) -> Bound:
    value, inclusive = given.value, given.inclusive
    if value is None:
        raise HeadwaterError("DELTA_CDC_READ_NULL_RANGE_BOUNDARY", {})
    if given.name.lower().endswith("version"):
        text = value.strip()
        if not (text.isascii() and text.isdigit()):
            raise HeadwaterError("DELTA_VERSION_INVALID", {"version": value})
        return Bound(version=int(text), inclusive=inclusive)
    if given.micros is None:
        raise HeadwaterError("DELTA_TIMESTAMP_INVALID", {"expr": value})
    return Bound(timestamp=int(given.micros), inclusive=inclusive)


def _empty(snapshot: Snapshot) -> ChangesAnswer:
    return ChangesAnswer(
        path=snapshot.table_path,
        table_id=snapshot.metadata.id,
        version=snapshot.version,
        schema=with_change_columns(snapshot.schema),
        table_schema=schema_string(snapshot.schema),
        column_mapping_mode="none",
        most_files_checked=MOST_FILES_CHECKED,
        groups=[],
    )


def with_change_columns(schema: StructType) -> str:
    """A table's schema with the columns that say what changed and when."""
    return schema_string(StructType((*visible.for_reading(schema), *_CHANGE_COLUMNS)))


def describe_feed(
    table_path: str, definition: Definition, files: Sequence[ChangedFile], timestamps: Mapping[int, int], last: int
) -> ChangesAnswer:
    """Changes up to the version ``last`` as groups of files, read with a definition."""
    schema = definition.schema
    partition_columns = list(definition.metadata.partition_columns)
    physical = [field.physical_name for name in partition_columns if (field := schema.find(name)) is not None]
    change_files = [file for file in files if file.change_type is None]
    data_files = [file for file in files if file.change_type is not None]
    constants: tuple[tuple[list[ChangedFile], list[str]], ...] = ((data_files, [CHANGE_TYPE]), (change_files, []))
    return ChangesAnswer(
        path=table_path,
        table_id=definition.metadata.id,
        version=last,
        schema=with_change_columns(schema),
        table_schema=schema_string(schema),
        column_mapping_mode=definition.mapping_mode,
        most_files_checked=MOST_FILES_CHECKED,
        groups=[
            ChangeGroup(
                partition_columns=[*partition_columns, *names, COMMIT_VERSION, COMMIT_TIMESTAMP],
                files=[_listed(file, physical, table_path, timestamps[file.version]) for file in some],
                size_in_bytes=sum(file.size for file in some),
                has_deletion_vectors=any(file.without or file.only for file in some),
            )
            for some, names in constants
            if some
        ],
    )


def _listed(
    file: ChangedFile, partition_names: Sequence[str], table_path: str, timestamp: int
) -> list[str | int | None]:
    """A file as the JVM's lists have it: path, size, time, deletion vector, then the partition columns as texts."""
    return [
        absolute_path(table_path, file.path),
        file.size,
        timestamp if file.modification_time is None else file.modification_time,
        _rows(file, table_path),
        *(file.partition_values.get(name) for name in partition_names),
        *([] if file.change_type is None else [file.change_type]),
        str(file.version),
        f"{timestamp_text(timestamp * 1000, digits=3)}Z",
    ]


def _rows(file: ChangedFile, table_path: str) -> str | None:
    """Which rows to read: a deletion vector as in any scan, or a list of two, of rows to read and of rows not to."""
    without = None if file.without is None else _vector(file.without, table_path)
    if file.only is None:
        return without
    return json.dumps([_vector(file.only, table_path), without])


def _vector(vector: DeletionVector, table_path: str) -> str:
    return describe_vector(table_path, asdict(vector))


def _vector_files(rows: str | None) -> list[str]:
    """The files of deletion vectors that reading a file's rows needs, from what :func:`_rows` gave."""
    if rows is None:
        return []
    vectors = json.loads(rows) if rows.startswith("[") else [rows]
    return [v.split(" ", 2)[2] for v in vectors if v is not None and not v.startswith("inline ")]
