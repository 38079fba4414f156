"""The options that a streaming query may be given, and the refusal of others.

Owns the names, as their documentation spells them: a new option is added to :data:`SOURCES` or :data:`SINKS` here.
Reader and writer take the options of both, as applications give one set to the two; what has no effect is no error. An
option with a dot in its name is a setting of something else, such as a file system, Parquet or a user's own wrapper,
and passes.
"""

from __future__ import annotations

from collections.abc import Mapping

from headwater.errors import HeadwaterError
from headwater.statements import notices
from headwater.statements.commit.opening import Options
from headwater.statements.write.upsert_options import NAMES as UPSERT_OPTIONS
from headwater.suggestions import did_you_mean

#: What a table as a stream's source takes.
SOURCES = (
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
    "wholeCommits",
    "startingVersion",
    "startingTimestamp",
    "endingVersion",
    "endingTimestamp",
    "ignoreDeletes",
    "ignoreChanges",
    "ignoreFileDeletion",
    "skipChangeCommits",
    "failOnDataLoss",
    "excludeRegex",
    "readChangeFeed",
    "readChangeData",
    "readChangelog",
    "changelogFormat",
    "tombstones",
    "schemaTrackingLocation",
    "schemaLocation",
    "streamingSourceTrackingId",
    "allowSourceColumnRename",
    "allowSourceColumnDrop",
    "allowSourceColumnTypeChange",
    "withEventTimeOrder",
)
#: What a table as a stream's sink takes.
SINKS = (
    "mergeSchema",
    "overwriteSchema",
    "userMetadata",
    "optimizeWrite",
    "dataChange",
    "compression",
    "maxRecordsPerFile",
)
#: What only batch queries do. A sink says why it does not.
BATCHES = (
    "versionAsOf",
    "timestampAsOf",
    "replaceWhere",
    "replaceUsing",
    "replaceOn",
    "targetAlias",
    "partitionOverwriteMode",
    "txnAppId",
    "txnVersion",
)
#: Spark's own, of any streaming query, table or Parquet file. The last is ``clusterBy``, not a user's option.
SPARKS = (
    "path",
    "provider",
    "checkpointLocation",
    "queryName",
    "asyncProgressTrackingEnabled",
    "asyncProgressTrackingCheckpointIntervalMs",
    "_asyncProgressTrackingOverrideSinkSupportCheck",
    "datetimeRebaseMode",
    "int96RebaseMode",
    "__clustering_columns",
)
_KNOWN = {name.lower(): name for name in (*SOURCES, *SINKS, *UPSERT_OPTIONS, *BATCHES, *SPARKS)}


def check_known(given: Mapping[str, str | None], verb: str) -> None:
    """Refuse options that mean nothing to a streaming query, mostly misspelled ones.

    :param given: the options by name; those that are None mean nothing.
    :param verb: what the query does with the table: ``reads`` or ``writes to``.
    :raises HeadwaterError: ``HEADWATER_UNKNOWN_STREAM_OPTION`` with the nearest name.
    """
    options = Options(given)
    notices.of_options(options)
    for name in given:
        if name.lower() in options and name.lower() not in _KNOWN and "." not in name:
            suggestion = did_you_mean(name, _KNOWN.values())
            raise HeadwaterError(
                "HEADWATER_UNKNOWN_STREAM_OPTION", {"verb": verb, "option": name, "suggestion": suggestion}
            )
