"""The settings of Spark that Headwater reads, and the settings of Delta Lake's own connector that have no effect here.

Owns their names, types, defaults, meanings and topics. ``python -m headwater.statements.settings`` prints them as
Markdown: ``docs/settings.md``. Defaults of ``spark.databricks.*`` are those of the format's other writers. Promise: a
setting ``spark.headwater.*`` or ``spark.databricks.*`` that any code names is listed, and a
statement reads and checks its value by the setting here (:meth:`Setting.of`).
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headwater.basics.errors import illegal_option
from headwater.protocol import properties
from headwater.protocol.properties import parse_bytes, parse_interval

if TYPE_CHECKING:
    from headwater.bridge.statement import Statement
    from headwater.protocol.table_definition import TableDefinition

T = TypeVar("T")


@dataclass(frozen=True)
class Setting(Generic[T]):
    """A setting. A name with a dot at its end, or with ``<…>``, stands for all that begin so.

    :param default: as a user would write it; empty if it has no default.
    :param parse: the value of a text; it raises ``ValueError`` for one that is no value: it must be ``expected``.
    :param value: used if the session does not set it.
    """

    name: str
    default: str
    meaning: str
    parse: Callable[[str], T]
    value: T
    expected: str = ""
    at_start: bool = False

    def of(self, statement: Statement) -> T:
        """The value in the session of a statement: what is set, or the default.

        :raises HeadwaterError: ``DELTA_ILLEGAL_OPTION``; ``DELTA_INVALID_INTERVAL`` of an interval.
        """
        text = statement.confs.get(self.name)
        if text is None:
            return self.value
        try:
            return self.parse(text)
        except ValueError:
            raise illegal_option(self.name, text, f"must be {self.expected}") from None

    @property
    def prefix(self) -> str:
        """The beginning of the setting's names."""
        return self.name.partition("<")[0]

    @property
    def is_family(self) -> bool:
        """Whether it stands for all names that begin so."""
        return self.prefix != self.name


#: The headings of the page, in its order; each holds the settings that are declared under it.
_TOPICS: dict[str, list[Setting[Any]]] = {
    heading: []
    for heading in (
        "The handler process",
        "Queries",
        "Writes",
        "UPDATE, DELETE and MERGE",
        "Transactions over several tables",
        "Hooks",
        "Definitions of tables",
        "Sizes of files",
        "OPTIMIZE",
        "VACUUM and retention",
        "Checkpoints",
        "Change data feed",
        "Streams",
        "CONVERT TO DELTA",
        "Iceberg",
        "Stores and caches",
    )
}
_declared = _TOPICS["The handler process"]


def _topic(heading: str) -> None:
    """What is declared next belongs under this heading."""
    global _declared
    _declared = _TOPICS[heading]


def _setting(
    name: str, default: str, meaning: str, parse: Callable[[str], T], value: T, expected: str = ""
) -> Setting[T]:
    setting = Setting(name, default, meaning, parse, value, expected)
    _declared.append(setting)
    return setting


def _parsed(name: str, default: str, meaning: str, parse: Callable[[str], T], expected: str = "") -> Setting[T]:
    return _setting(name, default, meaning, parse, parse(default), expected)


def _elsewhere(name: str, default: str, meaning: str, *, at_start: bool = False) -> None:
    """A setting that the JVM reads, that is read at Spark's start, or that stands for many."""
    _declared.append(Setting(name, default, meaning, str, None, at_start=at_start))


def _is_true(text: str) -> bool:
    return text.strip().lower() == "true"


def _flag(name: str, default: str, meaning: str) -> Setting[bool]:
    """A switch; whatever is not true is false."""
    return _parsed(name, default, meaning, _is_true)


def _text(name: str, default: str, meaning: str) -> Setting[str | None]:
    return _setting(name, default, meaning, str, default or None)


def _choice(name: str, default: str, other: str, meaning: str) -> Setting[str]:
    """One of two words; whatever is not the other is the default."""
    return _setting(name, default, meaning, lambda text: other if text.lower() == other else default, default)


def _one_of(name: str, default: str, others: Sequence[str], meaning: str) -> Setting[str]:
    """One of some words, in lower case; whatever is none of them is refused."""
    words = {word.lower() for word in (default, *others)}
    return _parsed(
        name,
        default,
        meaning,
        _checked(lambda text: text.strip().lower(), words.__contains__),
        f"one of {', '.join((default, *others))}",
    )


def _whole_number(text: str) -> int:
    if not text.strip().isdecimal():
        raise ValueError(text)
    return int(text)


_WHOLE = "a whole number, 0 or more"


def _whole(name: str, default: str, meaning: str) -> Setting[int]:
    """A number of things, or of bytes."""
    return _setting(name, default, meaning, _whole_number, parse_bytes(default), _WHOLE)


def _whole_if_set(name: str, default: str, meaning: str) -> Setting[int | None]:
    """The same; ``default`` describes in words what an unset one means."""
    return _setting(name, default, meaning, _whole_number, None, _WHOLE)


def _number_above_0(text: str) -> int | None:
    """None for any other text: maintenance asks, and a wrong setting must not make it fail."""
    return int(text) if text.isdecimal() and int(text) > 0 else None


def _checked(parse: Callable[[str], T], holds: Callable[[T], bool]) -> Callable[[str], T]:
    def value(text: str) -> T:
        if not holds(found := parse(text)):
            raise ValueError(text)
        return found

    return value


def _size(text: str) -> int:
    """Bytes; a number without a unit is of MiB, as the format's other writers have it."""
    return parse_bytes(f"{text.strip()}m" if text.strip().isdecimal() else text)


def _interval(text: str) -> int:
    """Milliseconds."""
    return int(text) if text.strip().isdecimal() else parse_interval(text) if text.strip() else 0


#: What switches automatic compaction on. Databricks' ``auto`` and ``legacy`` choose sizes by the table; here they are
#: as ``true``.
AUTO = ("true", "auto", "legacy")


def _is_auto(text: str) -> bool:
    return text.strip().lower() in AUTO


_DELTA = "spark.databricks.delta"
_topic("The handler process")
_elsewhere("spark.headwater.python", "", "the Python that runs the handler process", at_start=True)
_elsewhere(
    "spark.headwater.log.level", "WARN", "the level of the handler's log: DEBUG, INFO, WARN or ERROR", at_start=True
)
_elsewhere(
    "spark.headwater.progress",
    "true in `headwater spark-sql` and `headwater pyspark` on a terminal, false elsewhere",
    "the terminal shows what runs, in place of Spark's bar, and what statements did to rows",
    at_start=True,
)
_topic("UPDATE, DELETE and MERGE")
RETRY_SECONDS = _whole(
    "spark.headwater.dml.retrySeconds", "600", "seconds for which a statement that lost to another writer is retried"
)
LATE_FILE_BYTES = _whole_if_set(
    "spark.headwater.dml.lateFileBytes",
    "1 MiB on local disks; 16 MiB elsewhere",
    "average file size from which UPDATE and MERGE use late materialization",
)
SMALL_TARGET = _whole(
    "spark.headwater.merge.smallTargetBytes", "8 MiB", "total size of target files up to which MERGE joins them at once"
)
_topic("Queries")
KEY_INDEX = _one_of(
    "spark.headwater.keyIndex",
    "auto",
    ("always", "never"),
    "whether statements find keys by the indexes of a table: `auto` where that reads fewer bytes, `always` or `never`",
)
_elsewhere(
    "spark.headwater.scan.mostJoinKeys",
    "500000",
    "dynamic file pruning ignores the keys of a join's broadcast side that has more than this",
)
_elsewhere(
    "spark.headwater.scan.mostListedJoinKeys",
    "2000",
    "above this number of distinct keys, dynamic file pruning uses only their minimum and maximum",
)
_elsewhere(
    "spark.headwater.timestampAsOf",
    "",
    "the time as of which queries read their Delta tables, where they do not say so themselves; a view keeps the value "
    "that it was created with",
)
STALENESS_LIMIT = _parsed(
    "spark.headwater.stalenessLimit",
    "0",
    "maximum age of the version that a query reads, such as `10 minutes`",
    _interval,
)
_topic("Transactions over several tables")
IDLE_SECONDS = _whole(
    "spark.headwater.transactions.idleSeconds",
    "3600",
    "seconds without a running statement after which a transaction over several statements ends",
)
_topic("Hooks")
_elsewhere(
    "spark.headwater.hook.<name>.before",
    "",
    "a hook that may refuse commits, as `module:function`; with `.after` in place of `.before`, one that is called "
    "after them",
    at_start=True,
)
HOOKS = _text("spark.headwater.hooks", "", "the hooks that see every commit of the session, separated by commas")
HOOKS_DEADLINE = _parsed(
    "spark.headwater.hooks.deadlineSeconds",
    "10",
    "seconds after which a commit no longer waits for a hook's answer",
    _checked(float, lambda seconds: 0 < seconds < math.inf),
    "a positive number of seconds",
)
_topic("Iceberg")
_elsewhere(
    "spark.headwater.iceberg.catalog",
    "",
    "the name of the Iceberg catalog that tables with `headwater.iceberg.table` are registered in",
    at_start=True,
)
_elsewhere(
    "spark.headwater.iceberg.catalog.<property>",
    "",
    "properties of the Iceberg catalog, which override pyiceberg's own configuration: `type`, `uri`, `warehouse`",
    at_start=True,
)
_topic("Stores and caches")
_elsewhere(
    "spark.headwater.cache.directory",
    "",
    "a directory of this machine, which Headwater makes for its user alone: columns of large checkpoints are kept "
    "there, mapped into memory and shared by all Sparks of that user",
    at_start=True,
)
_elsewhere("spark.headwater.cache.maxBytes", "8 GiB", "maximum bytes of the cache directory", at_start=True)
_elsewhere("spark.headwater.store.<scheme>", "", "the store for paths of a scheme, as `module:Class`", at_start=True)
_elsewhere("spark.headwater.store.<scheme>.*", "", "the configuration of the store for a scheme", at_start=True)
_topic("Writes")
AUTO_MERGE = _flag(f"{_DELTA}.schema.autoMerge.enabled", "false", "writes and MERGE may add columns")
REPLACES_BY_ANY_COLUMN = _flag(
    f"{_DELTA}.replaceWhere.dataColumns.enabled",
    "true",
    "`replaceWhere` may name columns that are not partition columns",
)
REPLACE_CHECKS_ROWS = _flag(
    f"{_DELTA}.replaceWhere.constraintCheck.enabled", "true", "rows written with `replaceWhere` must match it"
)
USER_METADATA = _text(f"{_DELTA}.commitInfo.userMetadata", "", "text for `userMetadata` in the history")
_topic("Checkpoints")
CHECKPOINT_PART_SIZE: Setting[int | None] = _setting(
    f"{_DELTA}.checkpoint.partSize", "", "maximum actions in one checkpoint file", _number_above_0, None
)
CHECKPOINT_FORMAT = _choice(
    f"{_DELTA}.checkpointV2.topLevelFileFormat",
    "parquet",
    "json",
    "the format of a V2 checkpoint's own file: parquet or json",
)
_topic("Definitions of tables")
_elsewhere(
    f"{_DELTA}.catalog.update.enabled",
    "true",
    "the metastore's entry of a table has its columns, comments and properties, for other tools; Headwater never reads "
    "them",
)
_elsewhere(
    f"{_DELTA}.catalog.update.longFieldTruncationThreshold",
    "4000",
    "characters; if the type of a column has more, the entry has no columns",
)
_topic("Writes")
APPLICATION_ID = _text(f"{_DELTA}.write.txnAppId", "", "identifies a writer, so that a repeated write is skipped")
APPLICATION_VERSION = _text(
    f"{_DELTA}.write.txnVersion", "", "the number of the write, which grows from write to write"
)
RESETS_VERSION = _flag(
    f"{_DELTA}.write.txnVersion.autoReset.enabled",
    "false",
    "the session's txnVersion is unset by each write that uses it, so that the next one is not skipped",
)
_topic("Definitions of tables")
_elsewhere(f"{_DELTA}.properties.defaults.<name>", "", "the table property `delta.<name>` of new tables")
ALLOWS_ARBITRARY = _flag(
    f"{_DELTA}.allowArbitraryProperties.enabled",
    "false",
    "allows table properties `delta.…` that Headwater does not know",
)
_topic("Change data feed")
CHANGES_OUT_OF_RANGE = _flag(
    f"{_DELTA}.changeDataFeed.timestampOutOfRange.enabled",
    "false",
    "a range of changes may end or start after the newest version",
)
SCHEMA_MODE = _choice(
    f"{_DELTA}.changeDataFeed.defaultSchemaModeForColumnMappingTable",
    "endVersion",
    "latest",
    "`endVersion` or `latest`: the schema for reading changes of a table with column mapping",
)
_topic("Sizes of files")
AUTO_COMPACT: Setting[bool | None] = _setting(
    f"{_DELTA}.autoCompact.enabled",
    "",
    "true or false: small files are compacted after a write; if it is not set, the table's `delta.autoOptimize` and "
    "`delta.autoOptimize.autoCompact` decide",
    _is_auto,
    None,
)
AUTO_COMPACT_FILES = _whole(
    f"{_DELTA}.autoCompact.minNumFiles", "50", "small files in a partition from which auto-compaction starts"
)
AUTO_COMPACT_MAX_SIZE = _whole(
    f"{_DELTA}.autoCompact.maxFileSize",
    "128 MiB",
    "maximum bytes of a file that auto-compaction writes; if it is not set, the table's `delta.targetFileSize` decides",
)
AUTO_COMPACT_MIN_SIZE = _whole_if_set(
    f"{_DELTA}.autoCompact.minFileSize", "half of maxFileSize", "bytes; auto-compaction counts smaller files as small"
)
OPTIMIZE_WRITE: Setting[bool | None] = _setting(
    f"{_DELTA}.optimizeWrite.enabled",
    "",
    "true or false: rows are gathered before they are written, so that each partition gets few, large files; if "
    "it is not set, the table's `delta.autoOptimize.optimizeWrite` decides; the option `optimizeWrite` has precedence",
    _is_true,
    None,
)
OPTIMIZE_WRITE_BIN_SIZE = _parsed(
    f"{_DELTA}.optimizeWrite.binSize",
    "512 MiB",
    "bytes of shuffle for each file of an optimized write; if it is not set, the table's `delta.targetFileSize` "
    "decides",
    _checked(_size, lambda size: size > 0),
    "a size above 0 like 512m, or a number of MiB",
)
#: Above 2000 shuffle partitions, Spark no longer knows the size of each.
OPTIMIZE_WRITE_PARTITIONS = _whole(
    f"{_DELTA}.optimizeWrite.maxShufflePartitions", "2000", "maximum shuffle partitions of an optimized write"
)
_topic("OPTIMIZE")
OPTIMIZE_MIN_SIZE = _whole(
    f"{_DELTA}.optimize.minFileSize",
    "1 GiB",
    "bytes; OPTIMIZE compacts smaller files; if it is not set, the table's `delta.targetFileSize` decides",
)
OPTIMIZE_MAX_SIZE = _whole(
    f"{_DELTA}.optimize.maxFileSize",
    "1 GiB",
    "maximum bytes of a file that OPTIMIZE and other rewrites write; if it is not set, the table's "
    "`delta.targetFileSize` decides",
)
OPTIMIZE_DELETED_ROWS = _parsed(
    f"{_DELTA}.optimize.maxDeletedRowsRatio",
    "0.05",
    "OPTIMIZE rewrites a file if a larger share of its rows is deleted",
    _checked(float, lambda ratio: 0 <= ratio <= 1),
    "a number from 0 to 1",
)
#: What a long run that is interrupted loses at most. Chosen, not measured.
OPTIMIZE_BATCH_SIZE = _whole(f"{_DELTA}.optimize.batchSize", "100 GiB", "bytes that one commit of OPTIMIZE compacts")
LARGEST_MERGED_CUBE = _whole(
    f"{_DELTA}.optimize.clustering.mergeStrategy.minCubeSize.threshold",
    "100 GiB",
    "bytes; files that were clustered together are no longer merged with others once they reach this size",
)
LARGEST_CUBE = _whole(
    f"{_DELTA}.optimize.clustering.mergeStrategy.minCubeSize.targetCubeSize",
    "150 GiB",
    "maximum bytes that OPTIMIZE clusters together",
)
ZORDER_CHECKS_STATISTICS = _flag(
    f"{_DELTA}.optimize.zorder.checkStatsCollection.enabled", "true", "ZORDER BY takes only columns with statistics"
)
PREDICATE_USE = _flag(
    "spark.headwater.predicateUse",
    "true",
    "queries count which columns they filter by, without values, so that maintenance can propose clustering columns",
)
_topic("Definitions of tables")
BACKFILL_FILES = _whole(
    f"{_DELTA}.rowTracking.backfill.maxNumFilesPerCommit",
    "100000",
    "files that get row ids, or lose them, in one commit",
)
DROPS_BY_CHECKPOINTS = _flag(
    f"{_DELTA}.tableFeatures.fastDropFeature.enabled",
    "true",
    "DROP FEATURE protects the history with checkpoints, and need not wait for its retention",
)
_topic("UPDATE, DELETE and MERGE")
_elsewhere(
    f"{_DELTA}.updateAndMergeCastingFollowsAnsiEnabledFlag",
    "false",
    "UPDATE and MERGE cast as `spark.sql.ansi.enabled` says, whatever `spark.sql.storeAssignmentPolicy` is",
)
_topic("VACUUM and retention")
VACUUM_CHECKS_RETENTION = _flag(
    f"{_DELTA}.retentionDurationCheck.enabled",
    "true",
    "VACUUM refuses to retain files for less than `delta.deletedFileRetentionDuration`; without the check, it may "
    "delete what running statements need",
)
FSCK_MOST_ROWS = _whole(f"{_DELTA}.fsck.maxNumEntriesInResult", "1000", "the most rows that FSCK REPAIR TABLE returns")
FSCK_LOST_VECTORS = _one_of(
    "spark.headwater.fsck.missingVectors",
    "error",
    ("removeFile", "removeVector"),
    "what FSCK REPAIR TABLE does with a data file whose deletion vector is missing: nothing, and fail (`error`); "
    "remove it with all of its rows (`removeFile`); keep it, so that its deleted rows come back (`removeVector`)",
)
FSCK_LOST_FOLDERS = _one_of(
    "spark.headwater.fsck.missingFolders",
    "error",
    ("remove",),
    "what FSCK REPAIR TABLE does with the files of a folder elsewhere that is empty or missing: nothing, and fail "
    "(`error`); remove them (`remove`)",
)
_topic("Definitions of tables")
UNENFORCED_NOT_NULL = _flag(
    f"{_DELTA}.constraints.allowUnenforcedNotNull.enabled",
    "false",
    "CREATE, REPLACE and ADD COLUMN ignore NOT NULL inside arrays and maps, which cannot be enforced; without the "
    "setting, they refuse it",
)
DROPS_CONSTRAINT_IF_EXISTS = _flag(
    f"{_DELTA}.constraints.assumesDropIfExists.enabled",
    "false",
    "DROP CONSTRAINT of a constraint that does not exist is not an error",
)
LOCATION_BYPASSES_CHECK = _flag(
    f"{_DELTA}.alterLocation.bypassSchemaCheck",
    "false",
    "ALTER TABLE … SET LOCATION may lead to a table of other columns",
)
_topic("VACUUM and retention")
VACUUM_LITE = _flag(f"{_DELTA}.vacuum.lite.enabled", "false", "VACUUM without FULL is VACUUM LITE")
VACUUM_LOGGING = _flag(
    f"{_DELTA}.vacuum.logging.enabled", "true", "VACUUM records its start and its end in the table's history"
)
ENFORCES_RETENTION = _flag(
    f"{_DELTA}.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration",
    "true",
    "versions that were replaced longer ago than `delta.deletedFileRetentionDuration` cannot be read or restored",
)
_topic("Streams")
_elsewhere(
    f"{_DELTA}.streaming.allowSourceColumn<change>",
    "",
    "`Rename`, `Drop`, `RenameAndDrop` or `TypeChange`: a stream with a schema log continues after such changes; "
    "`always`, or with the suffix `.ckpt_<hash>` a version",
)
SCHEMA_LOG_OUTSIDE = _flag(
    f"{_DELTA}.streaming.allowSchemaLocationOutsideCheckpointLocation",
    "false",
    "the schema log of a stream may lie outside its checkpoint",
)
MERGES_SCHEMA_CHANGES = _flag(
    f"{_DELTA}.streaming.schemaTracking.mergeConsecutiveSchemaChanges.enabled",
    "true",
    "a stream with a schema log takes consecutive changes of the definition, without data in between, as one",
)
SCHEMA_LOG_CHECKS_SOURCE = _flag(
    f"{_DELTA}.streaming.schemaTracking.metadataPathCheck.enabled",
    "true",
    "a schema log belongs to one source of one stream",
)
UNSAFE_RENAMES = _flag(
    f"{_DELTA}.streaming.unsafeReadOnIncompatibleColumnMappingSchemaChanges.enabled",
    "false",
    "a stream continues although columns were renamed or dropped; it may misread rows",
)
UNSAFE_START = _flag(
    f"{_DELTA}.streaming.unsafeReadOnIncompatibleSchemaChangesDuringStreamStart.enabled",
    "false",
    "a stream does not compare the version that it resumes from with the newest one; it may misread rows",
)
UNSAFE_NULLS = _flag(
    f"{_DELTA}.streaming.unsafeReadOnNullabilityChange.enabled",
    "false",
    "a stream continues although a NOT NULL column may hold nulls now",
)
UNSAFE_PARTITIONING = _flag(
    f"{_DELTA}.streaming.unsafeReadOnPartitionColumnChanges.enabled",
    "false",
    "a stream continues although the partition columns changed",
)
_topic("CONVERT TO DELTA")
CONVERT_USES_STREAM_LOG = _flag(
    f"{_DELTA}.convert.useMetadataLog",
    "true",
    "CONVERT TO DELTA takes the files that are in a stream's log (`_spark_metadata`), if the folder has one",
)
CONVERT_USES_CATALOG_PARTITIONS = _flag(
    f"{_DELTA}.convert.useCatalogPartitions",
    "true",
    "CONVERT TO DELTA of a catalog's table takes the partitions that the catalog has, not all folders",
)
CONVERT_USES_CATALOG_SCHEMA = _flag(
    f"{_DELTA}.convert.useCatalogSchema",
    "true",
    "CONVERT TO DELTA of a catalog's table takes the catalog's columns, not those of the files",
)
CONVERT_IGNORES_CAST_FAILURE = _flag(
    f"{_DELTA}.convert.partitionValues.ignoreCastFailure",
    "false",
    "CONVERT TO DELTA sets a partition value to null if it is not of its column's type",
)
CONVERT_CHECKS_METADATA = _flag(
    f"{_DELTA}.convert.metadataCheck.enabled",
    "true",
    "CONVERT TO DELTA, run again, refuses properties of the catalog that the log does not have; if false, it adds them",
)
_topic("Streams")
STREAM_WIDENS = _flag(
    f"{_DELTA}.typeWidening.allowTypeChangeStreamingDeltaSource",
    "true",
    "a stream continues with a column's wider type after a restart",
)
_topic("Iceberg")
WAITS_FOR_ICEBERG = _flag(
    f"{_DELTA}.uniform.iceberg.sync.convert.enabled",
    "false",
    "a statement waits until the Iceberg metadata of its commit is written",
)
_topic("Streams")
STREAM_TRACKS_WIDENING = _flag(
    f"{_DELTA}.typeWidening.enableStreamingSchemaTracking",
    "false",
    "a column's wider type needs a schema log, as a new name does",
)
_topic("Queries")
_elsewhere(
    "spark.databricks.optimizer.dynamicFilePruning",
    "true",
    "the keys of a join's broadcast side and the values of scalar subqueries prune the files of a scan before it "
    "starts",
)
_elsewhere(
    "spark.databricks.optimizer.deltaTableFilesThreshold", "2", "dynamic file pruning leaves out scans of fewer files"
)

SETTINGS: tuple[Setting[Any], ...] = tuple(setting for declared in _TOPICS.values() for setting in declared)

# Spark's own
CASE_SENSITIVE = Setting("spark.sql.caseSensitive", "false", "", _is_true, False)
IGNORE_CORRUPT_FILES = Setting("spark.sql.files.ignoreCorruptFiles", "false", "", _is_true, False)
IGNORE_MISSING_FILES = Setting("spark.sql.files.ignoreMissingFiles", "false", "", _is_true, False)
MOST_RECORDS_PER_FILE = Setting("spark.sql.files.maxRecordsPerFile", "0", "", str, "0")
PARTITION_OVERWRITE_MODE = Setting("spark.sql.sources.partitionOverwriteMode", "static", "", str, "static")

#: The transaction of a session, which Headwater itself sets.
TRANSACTION = Setting("spark.headwater.transaction", "", "", str, "")

_CONVERT = "a conversion refuses by name what a Delta table cannot have, such as changed partitioning"
_OTHER_FORMATS = "no metadata of Hudi is written"
_BEHIND = "the commits since the last Iceberg metadata, however many, become one snapshot of it"
_STORES = (
    "the store follows from the path's scheme, or from spark.headwater.store.<scheme>; if the setting names "
    "S3DynamoDBLogStore, or a store that is not Delta Lake's own, tables of the scheme are read and not written"
)
#: Settings that Delta Lake's connector documents, or calls public, and that do nothing here; a name with a dot at its
#: end stands for all that begin so. Internal ones that merely tune it are not listed: a session that is moved over has
#: many of them.
UNUSED_SETTINGS: Mapping[str, str] = {
    f"{_DELTA}.stalenessLimit": "the setting here is spark.headwater.stalenessLimit",
    f"{_DELTA}.stats.collect": "statistics come with each file that is written",
    f"{_DELTA}.stats.skipping": "files that cannot match are always skipped",
    f"{_DELTA}.dynamicPartitionOverwrite.enabled": (
        "spark.sql.sources.partitionOverwriteMode and the option partitionOverwriteMode decide"
    ),
    f"{_DELTA}.merge.materializeSource": "a source that must not change is always computed once",
    f"{_DELTA}.merge.materializeSource.maxAttempts": "a source lost with an executor is computed again three times",
    f"{_DELTA}.merge.repartitionBeforeWrite.enabled": (
        "rows are gathered by partition if optimized writes are on: spark.databricks.delta.optimizeWrite.enabled"
    ),
    f"{_DELTA}.schema.typeCheck.enabled": "columns of types that cannot be stored are always refused",
    f"{_DELTA}.writePartitionColumnsToParquet": "the table property delta.writePartitionColumnsToParquet decides",
    f"{_DELTA}.checkLatestSchemaOnRead": "a query of columns that a table no longer has is always refused",
    f"{_DELTA}.history.metricsEnabled": "the history always has metrics",
    f"{_DELTA}.writeChecksumFile.enabled": "checksums are always written",
    f"{_DELTA}.commitMetrics.enabled": "no metrics are sent to a catalog",
    f"{_DELTA}.lastCommitVersionInSession": "DESCRIBE HISTORY … LIMIT 1 shows the version",
    f"{_DELTA}.deltaLog.minorCompaction.useForReads": "compacted commits of a log are read if they exist",
    f"{_DELTA}.withEventTimeOrder.enabled": "the option withEventTimeOrder of a stream decides",
    f"{_DELTA}.restore.protocolDowngradeAllowed": "RESTORE keeps the table's features",
    f"{_DELTA}.tableFeatures.fastDropFeature.dvTombstoneCountThreshold": "tombstones of any number are written",
    f"{_DELTA}.vacuum.parallelDelete.": "VACUUM always deletes many files at a time",
    f"{_DELTA}.optimize.repartition.enabled": "OPTIMIZE writes each of its files by one task",
    f"{_DELTA}.optimizeWrite.numShuffleBlocks": (
        "spark.databricks.delta.optimizeWrite.maxShufflePartitions is the limit of such a shuffle"
    ),
    f"{_DELTA}.clusteredTable.enableClusteringTablePreview": "clustered tables need no setting",
    f"{_DELTA}.legacy.allowAmbiguousPathsInCreateTable": "a statement that names two places for a table is refused",
    f"{_DELTA}.v2.enableMode": "there is one connector",
    f"{_DELTA}.changelogV2.enabled": "CHANGES FROM reads the change data feed, and needs no setting",
    f"{_DELTA}.catalog.enableServerSidePlanning": "scans are planned here, never by a catalog",
    f"{_DELTA}.convert.iceberg.": _CONVERT,
    f"{_DELTA}.uniform.hudi.": _OTHER_FORMATS,
    f"{_DELTA}.uniform.iceberg.maxActionsToConvertForCommitLarge": _BEHIND,
    f"{_DELTA}.uniform.iceberg.retry.times": _BEHIND,
    f"{_DELTA}.iceberg.": _BEHIND,
    f"{_DELTA}.hudi.": _OTHER_FORMATS,
    "spark.delta.logStore.": _STORES,
    "spark.io.delta.storage.": _STORES,
    "spark.hadoop.delta.enableFastS3AListFrom": "logs are listed by Hadoop's own connector",
}
#: Spark's own settings, each with a value that does nothing here.
UNUSED_VALUES: Mapping[str, tuple[str, str]] = {
    "spark.sql.parquet.datetimeRebaseModeInWrite": (
        "LEGACY",
        "dates and times are always written in Parquet's calendar, which all engines read; Spark reads the same values",
    ),
}

#: Internal names, which no user sets.
INTERNAL = ("spark.headwater.job", TRANSACTION.name)


def file_size(setting: Setting[int], statement: Statement, definition: TableDefinition | None) -> int:
    """A size of files in bytes: what the session sets, or the table's property ``delta.targetFileSize``, or the
    setting's default.

    :param definition: None for a size that is not of a table.
    :raises HeadwaterError: ``DELTA_ILLEGAL_OPTION``.
    """
    target = None if definition is None else definition.get(properties.TARGET_FILE_SIZE)
    return target if target is not None and setting.name not in statement.confs else setting.of(statement)


def anchor(name: str) -> str:
    """The anchor of a setting on the page."""
    return re.sub("[<>]", "", name).replace("*", "all").rstrip(".")


def _row(name: str, *cells: str) -> str:
    shown = f"{name}*" if name.endswith(".") else name
    return f'| <a id="{anchor(name)}"></a>[`{shown}`](#{anchor(name)}) | {" | ".join(cells)} |'


def markdown() -> str:
    """The content of ``docs/settings.md``."""
    lines = [
        "# Settings",
        "",
        "The settings that Headwater reads, most under the names that Delta Lake users know. Each statement reads them "
        "in its session, unless the list says that a setting is read at Spark's start. Those of a catalog, "
        "`spark.sql.catalog.NAME.*`, are in its [guide](guides/catalogs.md).",
        "",
    ]
    for heading, declared in _TOPICS.items():
        lines += [f"## {heading}", "", "| setting | default | meaning |", "| --- | --- | --- |"]
        for s in declared:
            lines.append(_row(s.name, s.default, f"{s.meaning}; read at Spark's start" if s.at_start else s.meaning))
        lines.append("")
    lines += [
        "## Without effect here",
        "",
        "These settings of Delta Lake's connector do nothing here. A session that has one is warned once.",
        "",
        "| setting | instead |",
        "| --- | --- |",
        *(_row(name, why) for name, why in UNUSED_SETTINGS.items()),
        "",
        "These values of Spark's own settings do nothing here. A session that has one is warned once.",
        "",
        "| setting | value | instead |",
        "| --- | --- | --- |",
        *(_row(name, f"`{value}`", why) for name, (value, why) in UNUSED_VALUES.items()),
        "",
        "This file is generated: `python -m headwater.statements.settings > docs/settings.md`.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(markdown())
