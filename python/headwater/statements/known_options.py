"""The options of readers, writers, streams and WITH, and the refusal of misspelt ones.

Owns the options' names and meanings. A new option is added to :data:`OPTIONS`, from which checks, suggestions and
``docs/options.md`` are made (``python -m headwater.statements.known_options``). The code that reads an option knows its
values. Readers and writers accept each other's options, as applications give one set to both. Case does not matter.

Promise: no option that another layer may mean is refused. WITH, streams and writes by keys have no options but those
listed here, and refuse any other name. DataFrames also pass on options of formats, file systems and frameworks: there,
only a misspelt known name is refused (:func:`headwater.basics.suggestions.misspelt`), and any other unknown name warns
once. A name with a dot is a setting of something else, such as a file system or Parquet.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import NamedTuple

from headwater.basics.errors import HeadwaterError
from headwater.basics.suggestions import did_you_mean, misspelt
from headwater.basics.warn_once import warn_once


class Option(NamedTuple):
    """An option. ``unused``: whether it does nothing here; ``meaning`` then says what decides instead."""

    name: str
    meaning: str
    unused: bool = False


_ASIDE = "the table property delta.writePartitionColumnsToParquet decides"
#: Of queries, batch and stream.
READS = (
    Option("versionAsOf", "the version to read"),
    Option("timestampAsOf", "the time at which to read the table"),
    Option("newestVersion", "true: the newest version, whatever spark.headwater.timestampAsOf says"),
    Option("readChangeFeed", "true: the changes of the table, not its rows"),
    Option("readChangeData", "an older name for readChangeFeed"),
    Option("readChangelog", "true: the changes in pairs of before and after"),
    Option("changelogFormat", "the form of a changelog: rows or debezium"),
    Option("tombstones", "false: no events without a value after deletions, in the format debezium"),
    Option("startingVersion", "the first version whose changes are read; for a stream also `latest`"),
    Option("startingTimestamp", "the time from which changes are read"),
    Option("endingVersion", "the last version whose changes are read"),
    Option("endingTimestamp", "the time up to which changes are read"),
)
#: Of a table as a stream's source.
STREAMS = (
    Option("maxFilesPerTrigger", "the most files of a micro-batch"),
    Option("maxBytesPerTrigger", "approximately the most bytes of a micro-batch, such as 10m"),
    Option("wholeCommits", "true: a micro-batch never ends within a commit"),
    Option("ignoreDeletes", "true: the stream skips commits that only delete rows"),
    Option("ignoreChanges", "true: the stream reads what a commit adds even if it also deletes rows"),
    Option("ignoreFileDeletion", "an older name for both of these"),
    Option("skipChangeCommits", "true: the stream skips commits that change rows"),
    Option("failOnDataLoss", "false: the stream continues if versions that it needs no longer exist"),
    Option("excludeRegex", "files whose path matches are left out"),
    Option("schemaTrackingLocation", "where the stream keeps the schemas that it has read"),
    Option("schemaLocation", "a shorter name for schemaTrackingLocation"),
    Option("streamingSourceTrackingId", "distinguishes sources of one stream that read the same table"),
    Option("allowSourceColumnRename", "the version whose renamed columns the stream may read, or always"),
    Option("allowSourceColumnDrop", "the same for dropped columns"),
    Option("allowSourceColumnTypeChange", "the same for wider types"),
    Option("withEventTimeOrder", "true: the initial snapshot is read in the order of the watermark's column"),
)
#: Of writes, batch and stream.
WRITES = (
    Option("mergeSchema", "true: the write may add columns"),
    Option(
        "overwriteSchema",
        "true: an overwrite may replace the columns; properties, constraints and ids of columns are kept",
    ),
    Option("userMetadata", "a text for the history"),
    Option("optimizeWrite", "true or false: whether rows are gathered into a few large files"),
    Option("dataChange", "false: the write only rearranges rows"),
    Option("compression", "the codec of data files"),
    Option("maxRecordsPerFile", "the most rows of a data file"),
)
#: Of batch writes alone.
BATCH_WRITES = (
    Option("replaceWhere", "the condition whose rows an overwrite replaces"),
    Option("replaceUsing", "the columns by whose values an overwrite replaces rows"),
    Option("replaceOn", "the condition on a new and an old row by which an overwrite replaces rows"),
    Option("targetAlias", "what replaceOn calls the table"),
    Option("partitionOverwriteMode", "dynamic: an overwrite replaces the partitions that get rows; static: all"),
    Option("txnAppId", "identifies a writer, so that a repeated write is skipped"),
    Option("txnVersion", "the number of the write, higher with each write"),
)
#: Of writes by keys.
KEYED_WRITES = (
    Option("idCols", "the key columns: a row replaces the one with the same keys; a changelog pairs its rows by them"),
    Option("sequenceBy", "of the events of a key, the one with the greatest value is the newest"),
    Option("deleteWhen", "the condition under which an event deletes its key"),
    Option("ignoreNullUpdates", "true: a null keeps the key's previous value"),
    Option("exceptColumns", "columns of the events that are not stored"),
    Option("storedAs", "scd1 keeps the newest row of each key, scd2 all rows"),
    Option("tombstoneRetention", "how long the sequences of deleted keys are remembered"),
)
#: Spark's own options that act on a table's files or queries.
SPARKS = (
    Option("path", "the location of the table"),
    Option("checkpointLocation", "where a stream keeps its progress"),
    Option("queryName", "the name of a stream"),
    Option("asyncProgressTrackingEnabled", "refused: a batch would be in the table before its offsets are written"),
    Option("asyncProgressTrackingCheckpointIntervalMs", "has no effect without asyncProgressTrackingEnabled"),
    Option("datetimeRebaseMode", "how old dates in Parquet files are read"),
    Option("int96RebaseMode", "how old timestamps in Parquet files are read"),
    Option("ignoreCorruptFiles", "true: a query skips files that it cannot read"),
    Option("ignoreMissingFiles", "true: a query skips missing files"),
)
#: Of Delta Lake's readers and writers; they do nothing here.
UNUSED = (
    Option("writePartitionColumns", _ASIDE, unused=True),
    Option("parquet.writer.version", "Spark writes the version it is set to", unused=True),
    Option("useNullIntolerantEqualityWithDPO", "a dynamic overwrite also replaces the partition of nulls", unused=True),
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
#: Spark passes these on itself. They are never suggested or refused, nor is a name that begins with ``_``.
_NOT_SUGGESTED = ("path", "provider", "paths")
_SUGGESTED = tuple(option.name for option in _BY_FOLDED_NAME.values() if option.name not in _NOT_SUGGESTED)

_DATAFRAMES, _WITH = "A reader or writer of a Delta table", "The WITH clause of a Delta table"


def check_options(given: Mapping[str, str | None], only_known_of: str | None = None, *, in_sql: bool = False) -> None:
    """Refuse misspelt options. Each option that is unknown or does nothing here gets one warning per process.

    :param given: the options by name; those that are None mean nothing.
    :param only_known_of: what takes known options alone, as the subject of a sentence; None for DataFrames.
    :param in_sql: whether SQL's WITH has the options, which takes known options alone as well.
    :raises HeadwaterError: ``HEADWATER_UNKNOWN_OPTION`` with the nearest name.
    """
    strict = _WITH if in_sql else only_known_of
    for name, value in given.items():
        folded = name.lower()
        known = _BY_FOLDED_NAME.get(folded)
        if known is not None and known.unused and value is not None and value.strip().lower() != "false":
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
        "The options of DataFrame readers and writers, of streams, and of `WITH (option = value)` in SQL. Case does "
        "not matter in names.",
        "",
        "A misspelt option, such as `mergeSchem`, `versionAsOff` or `merge-schema`, is an error that names the option "
        "that was probably meant. `WITH`, streams and [writes by keys](guides/upsert.md) refuse any name that is not "
        "listed. DataFrames accept other names, because a job may pass one set of options to several formats; each "
        "such name gets one warning in the log. Names with a dot are settings of a file system (`fs.s3a.endpoint`), of "
        "Parquet (`parquet.block.size`) or of another layer, and are always accepted.",
        "",
        "Options `delta.*`, `headwater.expect.*`, `headwater.index.*` and `headwater.quarantine` of a writer are "
        "[table properties](properties.md) of the table that it creates, as in "
        "`TBLPROPERTIES`. If the table exists, they have no effect, and the log has a warning: to change a property, "
        "use `ALTER TABLE … SET TBLPROPERTIES`.",
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
