"""The settings of Spark that Headwater reads, and those of Delta Lake's own connector that do nothing here.

Owns their names, defaults and meanings. ``python -m headwater.statements.settings`` prints them as Markdown:
``docs/settings.md``. Promise: a setting ``spark.headwater.*`` or ``spark.databricks.*`` that any code names is listed.
Its value is read where it is used, by :class:`headwater.bridge.statement.Statement`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """A setting. A name with a dot at its end, or with ``<…>``, stands for all that begin so.

    :param default: as a user would write it; empty where there is none.
    """

    name: str
    default: str
    meaning: str
    at_start: bool = False

    @property
    def prefix(self) -> str:
        """What names of the setting begin with."""
        return self.name.partition("<")[0]

    @property
    def is_family(self) -> bool:
        """Whether it stands for all names that begin so."""
        return self.prefix != self.name


_DELTA = "spark.databricks.delta"
SETTINGS: tuple[Setting, ...] = (
    Setting("spark.headwater.python", "", "the Python that runs the handler process", at_start=True),
    Setting(
        "spark.headwater.log.level", "WARN", "the level of the handler's log: DEBUG, INFO, WARN or ERROR", at_start=True
    ),
    Setting(
        "spark.headwater.dml.retrySeconds",
        "600",
        "seconds for which a statement that lost to another writer is retried",
    ),
    Setting(
        "spark.headwater.dml.lateFileBytes",
        "1 MiB; 16 MiB where not local",
        "average file size from which on UPDATE and MERGE use late materialization",
    ),
    Setting(
        "spark.headwater.merge.smallTargetBytes",
        "8 MiB",
        "total size of target files up to which MERGE joins them at once",
    ),
    Setting(
        "spark.headwater.scan.mostJoinKeys",
        "500000",
        "dynamic file pruning does not look at the keys of a join's broadcast side that has more",
    ),
    Setting(
        "spark.headwater.scan.mostListedJoinKeys",
        "2000",
        "dynamic file pruning takes more distinct keys by their minimum and maximum alone",
    ),
    Setting("spark.headwater.stalenessLimit", "0", "how old the version that a query reads may be, like `10 minutes`"),
    Setting(
        "spark.headwater.transactions.idleSeconds",
        "3600",
        "seconds without a running statement after which a transaction over several statements ends",
    ),
    Setting(
        "spark.headwater.hook.<name>.before",
        "",
        "a hook of commits, as `module:function`; `.after` for one that hears of them",
        at_start=True,
    ),
    Setting("spark.headwater.hooks", "", "the hooks that every commit of the session is shown to, separated by commas"),
    Setting(
        "spark.headwater.hooks.deadlineSeconds",
        "10",
        "seconds after which a commit no longer waits for a hook's answer",
    ),
    Setting(
        "spark.headwater.iceberg.catalog",
        "",
        "the name of the Iceberg catalog that tables with `headwater.iceberg.table` are registered in",
        at_start=True,
    ),
    Setting(
        "spark.headwater.iceberg.catalog.<property>",
        "",
        "its properties, over those of pyiceberg's own configuration: `type`, `uri`, `warehouse`",
        at_start=True,
    ),
    Setting(
        "spark.headwater.cache.directory",
        "",
        "a directory of this machine, which Headwater makes for its user alone: columns of large checkpoints are kept "
        "there, mapped into memory and shared by all Sparks of that user",
        at_start=True,
    ),
    Setting("spark.headwater.cache.maxBytes", "8 GiB", "bytes that it may hold", at_start=True),
    Setting("spark.headwater.store.<scheme>", "", "the store for paths of a scheme, as `module:Class`", at_start=True),
    Setting("spark.headwater.store.<scheme>.*", "", "what that store is configured by", at_start=True),
    Setting(f"{_DELTA}.schema.autoMerge.enabled", "false", "writes and MERGE may add columns"),
    Setting(
        f"{_DELTA}.replaceWhere.dataColumns.enabled",
        "true",
        "`replaceWhere` may name columns that are not partition columns",
    ),
    Setting(f"{_DELTA}.replaceWhere.constraintCheck.enabled", "true", "rows written with `replaceWhere` must match it"),
    Setting(f"{_DELTA}.commitInfo.userMetadata", "", "text for `userMetadata` in the history"),
    Setting(f"{_DELTA}.checkpoint.partSize", "", "maximum actions in one checkpoint file"),
    Setting(
        f"{_DELTA}.checkpointV2.topLevelFileFormat",
        "parquet",
        "the format of a V2 checkpoint's own file: parquet or json",
    ),
    Setting(
        f"{_DELTA}.catalog.update.enabled",
        "true",
        "the metastore's entry of a table has its columns, comments and properties, for other tools; never read here",
    ),
    Setting(
        f"{_DELTA}.catalog.update.longFieldTruncationThreshold",
        "4000",
        "characters; if the type of a column has more, the entry has no columns",
    ),
    Setting(f"{_DELTA}.write.txnAppId", "", "identifies a writer, so that a repeated write is skipped"),
    Setting(f"{_DELTA}.write.txnVersion", "", "the number of the write, which grows"),
    Setting(
        f"{_DELTA}.write.txnVersion.autoReset.enabled",
        "false",
        "the session's txnVersion is unset by each write that uses it, so that the next one is not skipped",
    ),
    Setting(f"{_DELTA}.properties.defaults.<name>", "", "the table property `delta.<name>` of new tables"),
    Setting(
        f"{_DELTA}.allowArbitraryProperties.enabled",
        "false",
        "allows table properties `delta.…` that Headwater does not know",
    ),
    Setting(
        f"{_DELTA}.changeDataFeed.timestampOutOfRange.enabled",
        "false",
        "a range of changes may end or start after the newest version",
    ),
    Setting(
        f"{_DELTA}.changeDataFeed.defaultSchemaModeForColumnMappingTable",
        "endVersion",
        "or `latest`: the schema for reading changes of a table with column mapping",
    ),
    Setting(
        f"{_DELTA}.autoCompact.enabled",
        "",
        "true or false: small files are compacted behind a write; without it, the table's `delta.autoOptimize` and "
        "`delta.autoOptimize.autoCompact` decide",
    ),
    Setting(f"{_DELTA}.autoCompact.minNumFiles", "50", "so many small files in a partition make it due"),
    Setting(f"{_DELTA}.autoCompact.maxFileSize", "128 MiB", "bytes; files that it makes are no larger"),
    Setting(f"{_DELTA}.autoCompact.minFileSize", "half of maxFileSize", "bytes; smaller files are small"),
    Setting(
        f"{_DELTA}.optimizeWrite.enabled",
        "",
        "true or false: rows are gathered before they are written, so that each partition gets few, large files; "
        "without it, the table's `delta.autoOptimize.optimizeWrite` decides; an option `optimizeWrite` goes first",
    ),
    Setting(f"{_DELTA}.optimizeWrite.binSize", "512 MiB", "bytes of shuffle for each file of such a write"),
    Setting(f"{_DELTA}.optimizeWrite.maxShufflePartitions", "2000", "shuffle partitions of such a write"),
    Setting(f"{_DELTA}.optimize.minFileSize", "1 GiB", "bytes; OPTIMIZE writes smaller files together"),
    Setting(
        f"{_DELTA}.optimize.maxFileSize", "1 GiB", "bytes; files that OPTIMIZE and other rewrites make are no larger"
    ),
    Setting(
        f"{_DELTA}.optimize.maxDeletedRowsRatio",
        "0.05",
        "OPTIMIZE writes files again of whose rows a larger part is deleted",
    ),
    Setting(f"{_DELTA}.optimize.batchSize", "100 GiB", "bytes that one commit of OPTIMIZE compacts"),
    Setting(
        f"{_DELTA}.optimize.clustering.mergeStrategy.minCubeSize.threshold",
        "100 GiB",
        "bytes from which on what was clustered together is merged with nothing more",
    ),
    Setting(
        f"{_DELTA}.optimize.clustering.mergeStrategy.minCubeSize.targetCubeSize",
        "150 GiB",
        "bytes that OPTIMIZE clusters together at most",
    ),
    Setting(
        f"{_DELTA}.optimize.zorder.checkStatsCollection.enabled",
        "true",
        "ZORDER BY takes only columns with statistics",
    ),
    Setting(
        f"{_DELTA}.rowTracking.backfill.maxNumFilesPerCommit",
        "100000",
        "files that get row ids, or lose them, in one commit",
    ),
    Setting(
        f"{_DELTA}.tableFeatures.fastDropFeature.enabled",
        "true",
        "DROP FEATURE protects the history with checkpoints, and need not wait for its retention",
    ),
    Setting(
        f"{_DELTA}.updateAndMergeCastingFollowsAnsiEnabledFlag",
        "false",
        "UPDATE and MERGE cast as `spark.sql.ansi.enabled` says, whatever `spark.sql.storeAssignmentPolicy` is",
    ),
    Setting(
        f"{_DELTA}.retentionDurationCheck.enabled",
        "true",
        "VACUUM refuses to retain files for less than `delta.deletedFileRetentionDuration`; without the check, it may "
        "delete what running statements need",
    ),
    Setting(
        f"{_DELTA}.constraints.allowUnenforcedNotNull.enabled",
        "false",
        "CREATE, REPLACE and ADD COLUMN ignore NOT NULL inside arrays and maps, which cannot be enforced; without the "
        "setting, they refuse it",
    ),
    Setting(
        f"{_DELTA}.constraints.assumesDropIfExists.enabled",
        "false",
        "DROP CONSTRAINT of one that is not there is no error",
    ),
    Setting(
        f"{_DELTA}.alterLocation.bypassSchemaCheck",
        "false",
        "ALTER TABLE … SET LOCATION may lead to a table of other columns",
    ),
    Setting(f"{_DELTA}.vacuum.lite.enabled", "false", "VACUUM is VACUUM LITE where it does not say FULL"),
    Setting(f"{_DELTA}.vacuum.logging.enabled", "true", "VACUUM records its start and its end in the table's history"),
    Setting(
        f"{_DELTA}.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration",
        "true",
        "versions that were replaced longer ago than `delta.deletedFileRetentionDuration` cannot be read or restored",
    ),
    Setting(
        f"{_DELTA}.streaming.allowSourceColumn<change>",
        "",
        "`Rename`, `Drop`, `RenameAndDrop` or `TypeChange`: a stream with a schema log reads on through such changes; "
        "`always`, or with the suffix `.ckpt_<hash>` a version",
    ),
    Setting(
        f"{_DELTA}.streaming.allowSchemaLocationOutsideCheckpointLocation",
        "false",
        "the schema log of a stream may lie outside its checkpoint",
    ),
    Setting(
        f"{_DELTA}.streaming.schemaTracking.mergeConsecutiveSchemaChanges.enabled",
        "true",
        "a stream with a schema log takes consecutive changes of the definition, without data in between, as one",
    ),
    Setting(
        f"{_DELTA}.streaming.schemaTracking.metadataPathCheck.enabled",
        "true",
        "a schema log belongs to one source of one stream",
    ),
    Setting(
        f"{_DELTA}.streaming.unsafeReadOnIncompatibleColumnMappingSchemaChanges.enabled",
        "false",
        "a stream reads on although columns were renamed or dropped; it may misread rows",
    ),
    Setting(
        f"{_DELTA}.streaming.unsafeReadOnIncompatibleSchemaChangesDuringStreamStart.enabled",
        "false",
        "a stream does not compare the version it goes on from with the newest one; it may misread rows",
    ),
    Setting(
        f"{_DELTA}.streaming.unsafeReadOnNullabilityChange.enabled",
        "false",
        "a stream reads on although a NOT NULL column may hold nulls now",
    ),
    Setting(
        f"{_DELTA}.streaming.unsafeReadOnPartitionColumnChanges.enabled",
        "false",
        "a stream reads on although the partition columns changed",
    ),
    Setting(
        f"{_DELTA}.convert.useMetadataLog",
        "true",
        "CONVERT TO DELTA takes the files that a stream's log (`_spark_metadata`) has, where a folder has one",
    ),
    Setting(
        f"{_DELTA}.convert.useCatalogPartitions",
        "true",
        "CONVERT TO DELTA of a catalog's table takes the partitions that the catalog has, not all folders",
    ),
    Setting(
        f"{_DELTA}.convert.useCatalogSchema",
        "true",
        "CONVERT TO DELTA of a catalog's table takes the catalog's columns, not those of the files",
    ),
    Setting(
        f"{_DELTA}.convert.partitionValues.ignoreCastFailure",
        "false",
        "CONVERT TO DELTA makes partition values null that are none of their column's type",
    ),
    Setting(
        f"{_DELTA}.convert.metadataCheck.enabled",
        "true",
        "CONVERT TO DELTA, run again, refuses properties of the catalog that the log has not; else adds them",
    ),
    Setting(
        f"{_DELTA}.typeWidening.allowTypeChangeStreamingDeltaSource",
        "true",
        "a stream reads on with a column's wider type after a restart",
    ),
    Setting(
        f"{_DELTA}.uniform.iceberg.sync.convert.enabled",
        "false",
        "a statement waits until the Iceberg metadata of its commit is written",
    ),
    Setting(
        f"{_DELTA}.typeWidening.enableStreamingSchemaTracking",
        "false",
        "a column's wider type needs a schema log, as a new name does",
    ),
    Setting(
        "spark.databricks.optimizer.dynamicFilePruning",
        "true",
        "the keys of a join's broadcast side and the values of scalar subqueries prune the files of a scan before it "
        "starts",
    ),
    Setting("spark.databricks.optimizer.deltaTableFilesThreshold", "2", "scans of fewer files are not pruned so"),
)

_CONVERT = "a conversion refuses by name what a Delta table cannot have, such as changed partitioning"
_OTHER_FORMATS = "no metadata of Hudi is written"
_BEHIND = "the commits since the last Iceberg metadata, however many, become one snapshot of it"
_STORES = (
    "the store follows from the path's scheme, or from spark.headwater.store.<scheme>; where the setting names "
    "S3DynamoDBLogStore, or a store that is not Delta Lake's own, tables of the scheme are read and not written"
)
#: Settings that Delta Lake's connector documents, or calls public, and that do nothing here; a name with a dot at its
#: end stands for all that begin so. Those that are internal to it and merely tune it are none: a session that is moved
#: over has many of them.
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
        "rows are gathered by partition where optimized writes are on: spark.databricks.delta.optimizeWrite.enabled"
    ),
    f"{_DELTA}.schema.typeCheck.enabled": "columns of types that cannot be stored are always refused",
    f"{_DELTA}.writePartitionColumnsToParquet": "the table property delta.writePartitionColumnsToParquet decides",
    f"{_DELTA}.checkLatestSchemaOnRead": "a query of columns that a table no longer has is always refused",
    f"{_DELTA}.history.metricsEnabled": "the history always has metrics",
    f"{_DELTA}.writeChecksumFile.enabled": "checksums are always written",
    f"{_DELTA}.commitMetrics.enabled": "no metrics are sent to a catalog",
    f"{_DELTA}.lastCommitVersionInSession": "DESCRIBE HISTORY … LIMIT 1 shows the version",
    f"{_DELTA}.deltaLog.minorCompaction.useForReads": "compacted files of a log are read where they are",
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

#: Names of the code's own, which no user sets.
INTERNAL = ("spark.headwater.job", "spark.headwater.transaction")


def markdown() -> str:
    """The content of ``docs/settings.md``."""
    lines = [
        "# Settings",
        "",
        "The settings that Headwater reads, most under the names that Delta Lake users know. Those of a catalog, "
        "`spark.sql.catalog.NAME.*`, are in its [guide](guides/catalogs.md).",
        "",
    ]
    lines += ["| setting | default | read | meaning |", "| --- | --- | --- | --- |"]
    lines += [
        f"| `{s.name}` | {s.default} | {'at the start' if s.at_start else 'by each statement'} | {s.meaning} |"
        for s in SETTINGS
    ]
    lines += [
        "",
        "These settings of Delta Lake's connector do nothing here. A session that has one is warned once.",
        "",
    ]
    lines += ["| setting | instead |", "| --- | --- |"]
    lines += [f"| `{name}{'*' if name.endswith('.') else ''}` | {why} |" for name, why in UNUSED_SETTINGS.items()]
    lines += ["", "These values of Spark's own settings do nothing here. A session that has one is warned once.", ""]
    lines += ["| setting | instead |", "| --- | --- |"]
    lines += [f"| `{name}` = `{value}` | {why} |" for name, (value, why) in UNUSED_VALUES.items()]
    lines += ["", "This file is generated: `python -m headwater.statements.settings > docs/settings.md`.", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(markdown())
