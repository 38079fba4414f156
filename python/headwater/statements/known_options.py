"""The options of readers, writers, streams and of WITH, and the refusal of misspelt ones.

Owns the options' names and meanings: a new one is added to :data:`OPTIONS` here, from which checks, suggestions and
``docs/options.md`` come (``python -m headwater.statements.known_options``). What a value means, the code that reads it
knows. Reader and writer take the options of both, as applications give one set to the two; names compare ignoring case.

Promise: an option that some other layer may mean is never refused. WITH and streams, and writes by keys, have no
options but those here: they refuse any other name. DataFrames pass on options of formats, file systems and frameworks
too: there, only a misspelling of a known name is refused (:func:`headwater.suggestions.misspelt`), and another unknown
name warns once. A name with a dot is a setting of something else, such as a file system or Parquet.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import NamedTuple

from headwater.errors import HeadwaterError
from headwater.suggestions import did_you_mean, misspelt
from headwater.warn_once import warn_once


class Option(NamedTuple):
    """An option. ``unused``: whether it does nothing here, which is then what ``meaning`` explains."""

    name: str
    meaning: str
    unused: bool = False


_ASIDE = "the table property delta.writePartitionColumnsToParquet decides"
#: Of queries, batch and stream.
READS = (
    Option("versionAsOf", "the version to read"),
    Option("timestampAsOf", "the time as of which to read"),
    Option("readChangeFeed", "true: the changes of the table, not its rows"),
    Option("readChangeData", "an older name of readChangeFeed"),
    Option("readChangelog", "true: the changes in pairs of before and after"),
    Option("changelogFormat", "how these are read: rows or debezium"),
    Option("tombstones", "false: no events without a value after deletions, in the format debezium"),
    Option("startingVersion", "the version from which on changes are read; `latest` for a stream"),
    Option("startingTimestamp", "the time from which on changes are read"),
    Option("endingVersion", "the last version whose changes are read"),
    Option("endingTimestamp", "the time up to which changes are read"),
)
#: Of a table as a stream's source.
STREAMS = (
    Option("maxFilesPerTrigger", "files of a micro-batch, at most"),
    Option("maxBytesPerTrigger", "bytes of a micro-batch, about, such as 10m"),
    Option("wholeCommits", "true: a micro-batch has all of a commit"),
    Option("ignoreDeletes", "true: the stream reads on although partitions were deleted"),
    Option("ignoreChanges", "true: the stream reads on although files were written again"),
    Option("ignoreFileDeletion", "both of these, as it was once called"),
    Option("skipChangeCommits", "true: commits that change rows are left out"),
    Option("failOnDataLoss", "false: the stream reads on although versions that it needs are gone"),
    Option("excludeRegex", "files whose path matches are left out"),
    Option("schemaTrackingLocation", "where the stream keeps the schemas that it has read"),
    Option("schemaLocation", "a shorter name of schemaTrackingLocation"),
    Option("streamingSourceTrackingId", "tells two sources of one stream apart that read one table"),
    Option("allowSourceColumnRename", "the version whose renamed columns the stream may read, or always"),
    Option("allowSourceColumnDrop", "the same for dropped columns"),
    Option("allowSourceColumnTypeChange", "the same for wider types"),
    Option("withEventTimeOrder", "true: the first snapshot is read in the order of the watermark's column"),
)
#: Of writes, batch and stream.
WRITES = (
    Option("mergeSchema", "true: the write may add columns"),
    Option("overwriteSchema", "true: an overwrite may replace the columns"),
    Option("userMetadata", "a text for the history"),
    Option("optimizeWrite", "true or false: rows are gathered into few, large files"),
    Option("dataChange", "false: the write only arranges rows in another way"),
    Option("compression", "the codec of data files"),
    Option("maxRecordsPerFile", "rows of a data file, at most"),
)
#: Of batch writes alone.
BATCH_WRITES = (
    Option("replaceWhere", "the condition whose rows an overwrite replaces"),
    Option("replaceUsing", "the columns whose equal rows an overwrite replaces"),
    Option("replaceOn", "the condition over both rows by which an overwrite replaces"),
    Option("targetAlias", "what replaceOn calls the table"),
    Option("partitionOverwriteMode", "dynamic: an overwrite replaces the partitions that get rows; static: all"),
    Option("txnAppId", "identifies a writer, so that a repeated write is skipped"),
    Option("txnVersion", "the number of the write, which grows"),
)
#: Of writes by keys.
KEYED_WRITES = (
    Option("idCols", "the key columns: a row replaces the one with the same keys; a changelog pairs its rows by them"),
    Option("sequenceBy", "which of two events of a key is the newer"),
    Option("deleteWhen", "the condition for which an event deletes its key"),
    Option("ignoreNullUpdates", "true: a null keeps the key's previous value"),
    Option("exceptColumns", "columns of the events that are not stored"),
    Option("storedAs", "scd1 keeps the newest row of a key, scd2 all of them"),
    Option("tombstoneRetention", "how long the sequences of deleted keys are remembered"),
)
#: Spark's own that act on a table's files or its queries.
SPARKS = (
    Option("path", "where the table is"),
    Option("checkpointLocation", "where a stream keeps its progress"),
    Option("queryName", "the name of a stream"),
    Option("asyncProgressTrackingEnabled", "refused: a batch would be in the table before its offsets are written"),
    Option("asyncProgressTrackingCheckpointIntervalMs", "has no effect without it"),
    Option("datetimeRebaseMode", "how old dates in Parquet files are read"),
    Option("int96RebaseMode", "how old timestamps in Parquet files are read"),
    Option("ignoreCorruptFiles", "true: a query leaves out files that it cannot read"),
    Option("ignoreMissingFiles", "true: a query leaves out files that are gone"),
)
#: Of Delta Lake's readers and writers; they do nothing here.
UNUSED = (
    Option("writePartitionColumns", _ASIDE, unused=True),
    Option("parquet.writer.version", "Spark writes the version it is set to", unused=True),
    Option("useNullIntolerantEqualityWithDPO", "a dynamic overwrite replaces the partition of nulls, too", unused=True),
)
#: All of them, by heading.
OPTIONS: Mapping[str, tuple[Option, ...]] = {
    "Queries": READS,
    "Streams that read a table": STREAMS,
    "Writes": WRITES,
    "Batch writes": BATCH_WRITES,
    "Writes by keys": KEYED_WRITES,
    "Spark's own": SPARKS,
    "Without effect": UNUSED,
}
_BY_FOLDED_NAME = {option.name.lower(): option for options in OPTIONS.values() for option in options}
#: Known to Spark's layers, and no user's word to guess at. A name that begins with ``_`` is Spark's own as well.
_NOT_SUGGESTED = ("path", "provider", "paths")
_SUGGESTED = tuple(option.name for option in _BY_FOLDED_NAME.values() if option.name not in _NOT_SUGGESTED)

_DATAFRAMES, _WITH = "A reader or writer of a Delta table", "WITH of a Delta table"


def check_options(given: Mapping[str, str | None], only_known_of: str | None = None, *, in_sql: bool = False) -> None:
    """Refuse misspelt options. Each option that is unknown or does nothing here gets one warning per process.

    :param given: the options by name; those that are None mean nothing.
    :param only_known_of: what takes no options but those known, as a sentence begins with it; None for DataFrames.
    :param in_sql: whether WITH of SQL has the options, which takes no others either.
    :raises HeadwaterError: ``HEADWATER_UNKNOWN_OPTION`` with the nearest name.
    """
    strict = _WITH if in_sql else only_known_of
    for name, value in given.items():
        folded = name.lower()
        known = _BY_FOLDED_NAME.get(folded)
        if known is not None and known.unused and str(value).strip().lower() != "false":
            warn_once(f"option {folded}", f"the option {name} has no effect here: {known.meaning}")
        if known is not None or value is None or folded in _NOT_SUGGESTED or "." in name or name.startswith("_"):
            continue
        meant = misspelt(name, _SUGGESTED)
        suggestion = f" Did you mean {meant}?" if meant is not None else did_you_mean(name, _SUGGESTED)
        if strict is not None or meant is not None:
            raise HeadwaterError(
                "HEADWATER_UNKNOWN_OPTION",
                {"subject": strict or _DATAFRAMES, "option": name, "suggestion": suggestion},
            )
        warn_once(f"option {folded}", f"the option {name} is not known, and has no effect here.{suggestion}")


def markdown() -> str:
    """The content of ``docs/options.md``."""
    lines = [
        "# Options",
        "",
        "The options of DataFrame readers and writers, of streams, and of `WITH (option = value)` in SQL. Names "
        "compare ignoring case.",
        "",
        "A misspelt option is an error that names the one that was probably meant: `mergeSchem`, `versionAsOff`, "
        "`merge-schema`. `WITH`, streams and [writes by keys](guides/upsert.md) refuse any name that is not listed. "
        "DataFrames accept other names, as a job may give one set of options to several formats; the log has a warning "
        "for each, once. Names with a dot are settings of a file system (`fs.s3a.endpoint`), of Parquet "
        "(`parquet.block.size`) or of another layer, and always pass.",
        "",
        "Options `delta.*` of a writer are [table properties](properties.md) of the table that it creates, as in "
        "`TBLPROPERTIES`. If the table exists, they have no effect, with a warning: `ALTER TABLE … SET TBLPROPERTIES` "
        "changes a property.",
        "",
    ]
    for heading, options in OPTIONS.items():
        lines += [f"## {heading}", "", f"| option | {'instead' if options is UNUSED else 'meaning'} |", "| --- | --- |"]
        lines += [f"| `{option.name}` | {option.meaning} |" for option in options]
        lines.append("")
    lines += ["This file is generated: `python -m headwater.statements.known_options > docs/options.md`.", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(markdown())
