"""The options of ``writeStream``: which there are, and which exclude each other.

Owns the names. Options that Delta Lake's documentation has for reading have no effect on a sink and are accepted, as
applications give one set of options to reader and writer.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from headwater.errors import HeadwaterError
from headwater.statements.opening import Options
from headwater.statements.upsert.options import NAMES as UPSERT_OPTIONS

_WRITING = (
    "mergeSchema",
    "overwriteSchema",
    "userMetadata",
    "optimizeWrite",
    "dataChange",
    "compression",
    "maxRecordsPerFile",
)
_READING = (
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
    "excludeRegex",
    "ignoreFileDeletion",
    "ignoreChanges",
    "ignoreDeletes",
    "skipChangeCommits",
    "failOnDataLoss",
    "startingVersion",
    "startingTimestamp",
    "endingVersion",
    "endingTimestamp",
    "readChangeFeed",
    "readChangeData",
    "schemaTrackingLocation",
    "schemaLocation",
    "streamingSourceTrackingId",
    "allowSourceColumnDrop",
    "allowSourceColumnRename",
    "allowSourceColumnTypeChange",
    "withEventTimeOrder",
)
_TIME_TRAVEL = ("versionAsOf", "timestampAsOf")
#: Spark's own, of any streaming query. The last is ``clusterBy``, not a user's option.
_SPARKS = (
    "path",
    "checkpointLocation",
    "queryName",
    "asyncProgressTrackingEnabled",
    "asyncProgressTrackingCheckpointIntervalMs",
    "_asyncProgressTrackingOverrideSinkSupportCheck",
    "__clustering_columns",
)
_REPLACES = "a batch adds rows or, in output mode complete, replaces all"
_IDENTIFIED = "each batch is committed once, under the query's own id and the batch's number"
#: What only batch writes do, with the reason.
_OF_BATCH_WRITES = {
    "replaceWhere": _REPLACES,
    "replaceUsing": _REPLACES,
    "replaceOn": _REPLACES,
    "targetAlias": _REPLACES,
    "partitionOverwriteMode": _REPLACES,
    "txnAppId": _IDENTIFIED,
    "txnVersion": _IDENTIFIED,
}
#: Settings that Spark's Parquet writer and file systems take as options, whatever follows.
_OPEN_PREFIXES = ("parquet.", "fs.", "dfs.")
_KNOWN = {
    name.lower(): name for name in (*_WRITING, *UPSERT_OPTIONS, *_READING, *_TIME_TRAVEL, *_SPARKS, *_OF_BATCH_WRITES)
}


def check_options(given: Mapping[str, str | None], mode: str, path: str) -> None:
    """Refuse options that no batch can be written with.

    :param given: the options by name; those that are None mean nothing.
    :param mode: the output mode.
    :raises HeadwaterError: ``HEADWATER_UNKNOWN_STREAM_OPTION`` with the nearest name, ``HEADWATER_NOT_FOR_STREAMS``,
        ``DELTA_TIME_TRAVEL_WRITE_NOT_ALLOWED``, ``DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS``, ``DELTA_ILLEGAL_OPTION``.
    """
    options = Options(given)
    for name in given:
        if name.lower() in options and name.lower() not in _KNOWN and not name.lower().startswith(_OPEN_PREFIXES):
            near = difflib.get_close_matches(name.lower(), _KNOWN, n=1, cutoff=0.6)
            suggestion = f" Did you mean {_KNOWN[near[0]]}?" if near else ""
            raise HeadwaterError(
                "HEADWATER_UNKNOWN_STREAM_OPTION", {"verb": "writes to", "option": name, "suggestion": suggestion}
            )
    for name, reason in _OF_BATCH_WRITES.items():
        if name.lower() in options:
            raise HeadwaterError("HEADWATER_NOT_FOR_STREAMS", {"option": name, "reason": reason})
    if any(name.lower() in options for name in _TIME_TRAVEL):
        raise HeadwaterError("DELTA_TIME_TRAVEL_WRITE_NOT_ALLOWED", {"path": path})
    merges, overwrites = options.flag("mergeSchema"), options.flag("overwriteSchema")
    if merges and overwrites:
        raise HeadwaterError(
            "DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS", {"option1": "mergeSchema", "option2": "overwriteSchema"}
        )
    if overwrites and mode != "Complete":
        raise HeadwaterError(
            "DELTA_ILLEGAL_OPTION",
            {
                "name": "overwriteSchema",
                "input": "true",
                "explain": "needs outputMode('complete'); mergeSchema adds columns in the others",
            },
        )
