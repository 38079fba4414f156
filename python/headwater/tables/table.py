"""``DeltaTable``: open a table by path or name, then read it, change its rows or run statements on it.

Owns the class and the text of its short statements. The builders (:mod:`headwater.tables.creating`,
:mod:`headwater.tables.merging`, :mod:`headwater.tables.maintenance`) do not import this module: each gets from here the
function that it calls at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headwater.tables import cards, maintenance
from headwater.tables.creating import DeltaColumnBuilder, DeltaTableBuilder
from headwater.tables.errors import DeltaTableError, check_secrets, check_session, check_type
from headwater.tables.maintenance import DeltaOptimizeBuilder
from headwater.tables.merging import DeltaMergeBuilder
from headwater.tables.names import literal, named_path, path_name, quote, split_name
from headwater.tables.opening import NamedTable, ReachedTable, store_options
from headwater.tables.sending import send_changes
from headwater.tables.statement_inputs import (
    Expression,
    Sees,
    StatementInputs,
    assignments,
    check_assignments,
    check_expression,
    is_connect,
)
from headwater.tables.upserting import upsert_options

#: What a reader says of a path where there is nothing.
_NO_PATH = "PATH_NOT_FOUND"
#: The conditions of DESCRIBE DETAIL where there is no table, where there is a view, and where there is a Delta table
#: that this version cannot read.
_NO_TABLE = ("DELTA_MISSING_DELTA_TABLE", "DELTA_TABLE_NOT_FOUND", "DELTA_EMPTY_DIRECTORY")
_OTHER_TABLE = ("DELTA_ONLY_OPERATION", "EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE")
_NOT_FOR_US = (
    "DELTA_UNSUPPORTED_FEATURES_FOR_READ",
    "DELTA_PATH_BASED_ACCESS_TO_CATALOG_MANAGED_TABLE_BLOCKED",
    "DELTA_INVALID_PROTOCOL_VERSION",
)


class DeltaTable:
    """A Delta table, by path or by name: ``DeltaTable.forPath(spark, path)``, ``DeltaTable.forName(spark, name)``.

    Conditions and values are Columns or SQL text. Works with classic sessions and with Spark Connect's.
    """

    def __init__(self, spark: SparkSession, table: NamedTable, frame: DataFrame, alias: str | None = None) -> None:
        self._spark = spark
        self._table = table
        self._frame = frame
        self._alias = alias

    def __repr__(self) -> str:
        return f"DeltaTable {self._table.shown}"

    def _repr_html_(self) -> str | None:
        """The card that a notebook shows: where and how large the table is, and how its size changed."""
        return cards.card(self._table)

    # --- opening ------------------------------------------------------------------------------------------------------

    @classmethod
    def forPath(cls, sparkSession: SparkSession, path: str, hadoopConf: Mapping[str, str] | None = None) -> DeltaTable:
        """The table at a path.

        :param hadoopConf: settings of Hadoop, for this table only, which begin with ``fs.`` or ``dfs.``. They apply to
            all operations of the returned object.
        :raises pyspark.errors.AnalysisException: ``DELTA_MISSING_DELTA_TABLE``.
        """
        check_session(sparkSession)
        check_type("path", path, str, "a string, the path of the table")
        if hadoopConf is not None:
            check_secrets("hadoopConf", hadoopConf)
        if options := store_options(hadoopConf or {}):
            return cls._open_table(sparkSession, ReachedTable(sparkSession, path, options), is_path=True)
        return cls._open(sparkSession, path_name(path))

    @classmethod
    def forName(cls, sparkSession: SparkSession, tableOrViewName: str) -> DeltaTable:
        """The table with a name, with or without catalog and schema, or ``delta.`/path` ``.

        :raises pyspark.errors.AnalysisException: ``TABLE_OR_VIEW_NOT_FOUND``, ``DELTA_MISSING_DELTA_TABLE``.
        """
        check_session(sparkSession)
        check_type("tableOrViewName", tableOrViewName, str, "a string, the table's name")
        parts = split_name(tableOrViewName)
        if (path := named_path(parts)) is not None:
            return cls._open(sparkSession, path_name(path))
        if len(parts) == 1:
            current = sparkSession.sql("SELECT current_catalog(), current_schema()").collect()[0]
            parts = [current[0], *split_name(current[1]), *parts]
        return cls._open(sparkSession, quote(*parts))

    @classmethod
    def _open(cls, spark: SparkSession, name: str) -> DeltaTable:
        return cls._open_table(spark, NamedTable(spark, name), named_path(split_name(name)) is not None)

    @classmethod
    def _open_table(cls, spark: SparkSession, table: NamedTable, is_path: bool) -> DeltaTable:
        try:
            detail = table.sql(f"DESCRIBE DETAIL {table.name}")
            is_delta = is_path or detail.collect()[0][0] == "delta"
            frame = table.frame() if is_delta else None
        except PySparkException as error:
            if error.getCondition() in (*_OTHER_TABLE, *_NO_TABLE, _NO_PATH):
                raise DeltaTableError("DELTA_MISSING_DELTA_TABLE", {"tableName": table.shown}) from None
            raise
        if frame is None:
            raise DeltaTableError("DELTA_MISSING_DELTA_TABLE", {"tableName": table.shown})
        return cls(spark, table, frame)

    @classmethod
    def isDeltaTable(cls, sparkSession: SparkSession, identifier: str) -> bool:
        """Whether there is a Delta table at a path."""
        check_session(sparkSession)
        check_type("identifier", identifier, str, "a string, a path")
        try:
            sparkSession.sql(f"DESCRIBE DETAIL {path_name(identifier)}")
        except PySparkException as error:
            if error.getCondition() in _NO_TABLE:
                return False
            if error.getCondition() not in _NOT_FOR_US:
                raise
        return True

    # --- creating -----------------------------------------------------------------------------------------------------

    @classmethod
    def create(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[DeltaTable]:
        """Describe a table to create; it is an error if the table exists."""
        return DeltaTableBuilder(_session(sparkSession), "CREATE TABLE", cls.forName)

    @classmethod
    def createIfNotExists(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[DeltaTable]:
        """Describe a table to create; an existing table is left unchanged."""
        return DeltaTableBuilder(_session(sparkSession), "CREATE TABLE IF NOT EXISTS", cls.forName)

    @classmethod
    def replace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[DeltaTable]:
        """Describe a table that replaces an existing one; it is an error if there is none."""
        return DeltaTableBuilder(_session(sparkSession), "REPLACE TABLE", cls.forName)

    @classmethod
    def createOrReplace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[DeltaTable]:
        """Describe a table to create; an existing table is replaced."""
        return DeltaTableBuilder(_session(sparkSession), "CREATE OR REPLACE TABLE", cls.forName)

    @classmethod
    def columnBuilder(
        cls, sparkSession: SparkSession | str | None = None, colName: str | None = None
    ) -> DeltaColumnBuilder:
        """Describe a column: ``columnBuilder(name)`` or ``columnBuilder(spark, name)``."""
        name: Any = sparkSession if colName is None else colName
        return DeltaColumnBuilder(name)

    @classmethod
    def convertToDelta(
        cls, sparkSession: SparkSession, identifier: str, partitionSchema: str | StructType | None = None
    ) -> DeltaTable:
        """Convert a Parquet table to a Delta table, in place."""
        check_session(sparkSession)
        text = maintenance.convert_text(identifier, partitionSchema)
        cards.run(NamedTable(sparkSession, identifier), text)
        kind, *path = split_name(identifier)
        is_path = kind.lower() == "parquet" and len(path) == 1
        return cls.forPath(sparkSession, path[0]) if is_path else cls.forName(sparkSession, identifier)

    # --- reading ------------------------------------------------------------------------------------------------------

    def toDF(self) -> DataFrame:
        """The table's rows at the time when the frame is first run.

        Its columns (``table.toDF().id``) may be used in the conditions and values of this table's methods.
        """
        # A classic frame caches its plan with the files of its first run, so each call returns a frame with a plan of
        # its own; its columns keep their ids. In Spark Connect, columns belong to one frame, and the server plans that
        # frame again for each run.
        return self._frame if is_connect(self._spark) else self._frame.select("*")

    def alias(self, aliasName: str) -> DeltaTable:
        """The table under another name, for conditions and values."""
        check_type("aliasName", aliasName, str, "a string")
        return DeltaTable(self._spark, self._table, self._frame.alias(aliasName), aliasName)

    def history(self, limit: int | None = None) -> DataFrame:
        """One row per version, newest first, at most ``limit`` rows."""
        if limit is not None:
            check_type("limit", limit, int, "an int")
        limited = "" if limit is None else f" LIMIT {limit}"
        return cards.history(self._table.sql(f"DESCRIBE HISTORY {self._table.name}{limited}"))

    def detail(self) -> DataFrame:
        """One row about the table: location, size, properties, protocol."""
        return cards.detail(self._table.sql(f"DESCRIBE DETAIL {self._table.name}"))

    # --- changing rows ------------------------------------------------------------------------------------------------

    def delete(self, condition: Expression | None = None) -> DataFrame:
        """Delete the rows for which a condition is true, or all rows.

        :returns: one row: ``num_affected_rows``.
        :raises TypeError: the condition is neither text nor Column.
        """
        inputs = self._inputs()
        return inputs.run(f"DELETE FROM {self._target}{self._where(condition, inputs)}")

    def update(self, condition: Expression | None = None, set: Mapping[str, Expression] | None = None) -> DataFrame:
        """Update the rows for which a condition is true, or all rows.

        :param set: column names (nested fields with a dot) and their new values.
        :returns: one row: ``num_affected_rows``.
        :raises TypeError: an argument is of another type.
        :raises ValueError: ``set`` is missing or empty.
        """
        check_assignments("set", set)
        inputs = self._inputs()
        values = assignments(set or {}, inputs, Sees.TARGET)
        return inputs.run(f"UPDATE {self._target}\nSET\n  {values}{self._where(condition, inputs)}")

    def merge(self, source: DataFrame, condition: Expression) -> DeltaMergeBuilder:
        """Describe a MERGE of a DataFrame into the table.

        :param condition: whether a row of the source matches a row of the table; it may use the aliases of both.
        :raises TypeError: an argument is of another type.
        :raises ValueError: an argument is None.
        """
        if source is None or condition is None:
            raise ValueError(f"'{'source' if source is None else 'condition'}' is missing: it cannot be None.")
        check_type("source", source, DataFrame, "a DataFrame")
        check_expression("condition", condition)
        return DeltaMergeBuilder(self._target, lambda: self._inputs(source), condition)

    def upsert(
        self,
        source: DataFrame,
        keys: Sequence[str],
        *,
        sequenceBy: str | None = None,
        deleteWhen: str | None = None,
        ignoreNullUpdates: bool = False,
        exceptColumns: Sequence[str] = (),
        storedAs: str = "scd1",
        tombstoneRetention: str | None = None,
        mergeSchema: bool = False,
    ) -> None:
        """Replace the rows that have the same keys as rows of a DataFrame, and insert the others, in one commit.

        :param keys: the columns that identify a row.
        :param sequenceBy: a column or an expression, SQL text: of several rows of a key, the one with the greatest
            value is stored, unless the table has a newer one.
        :param deleteWhen: a condition, SQL text: a row for which it is true deletes its key.
        :param ignoreNullUpdates: whether a null keeps the key's previous value.
        :param exceptColumns: columns of the source that are not stored.
        :param storedAs: ``scd1``, one row per key, or ``scd2``, one row per event, with the sequences between which it
            was the newest in ``__START_AT`` and ``__END_AT``.
        :param tombstoneRetention: how long the sequence of a deleted key is remembered, such as ``2 days``.
        :param mergeSchema: whether the table gets the columns that only the source has.
        :raises pyspark.errors.AnalysisException: ``HEADWATER_UPSERT_…``, with the rows that cannot be stored.
        :raises TypeError: an argument is of another type.
        """
        check_type("source", source, DataFrame, "a DataFrame")
        options = upsert_options(
            keys,
            sequence=sequenceBy,
            deletes=deleteWhen,
            ignores_nulls=ignoreNullUpdates,
            left_out=exceptColumns,
            stored_as=storedAs,
            retention=tombstoneRetention,
            merges_schema=mergeSchema,
        )
        self._table.append(source, options)

    # --- changes ------------------------------------------------------------------------------------------------------

    def changelog(self, startingVersion: int, endingVersion: int | None = None, keys: Sequence[str] = ()) -> DataFrame:
        """The changes of versions as rows that apply one by one, in the order of ``_commit_version`` and ``_ordinal``.

        :param endingVersion: the last version; by default the newest.
        :param keys: the columns that find the pairs of updates that other engines wrote.
        :raises pyspark.errors.AnalysisException: ``DELTA_MISSING_CHANGE_DATA``, ``HEADWATER_KEY_COLUMN_NOT_FOUND`` and
            those of a range.
        """
        return self._changes(startingVersion, endingVersion, keys)

    def debezium(
        self,
        startingVersion: int,
        endingVersion: int | None = None,
        keys: Sequence[str] = (),
        *,
        tombstones: bool = True,
    ) -> DataFrame:
        """The same changes as Debezium's JSON events: ``key`` and ``value``, ready for a sink, ``_commit_version`` and
        ``_ordinal``.

        A value is ``{"before": …, "after": …, "op": "c"|"u"|"d", "source": {…}, "ts_ms": …}``. An update is a ``d`` and
        a ``c`` if its images are not known to be a pair, or if it changes the key. The events of a key are in one
        partition and in the order in which they apply; so are all events without keys.

        The options ``readChangelog`` and ``changelogFormat`` give a stream the same events; in SQL, use
        ``table_debezium``.

        :param keys: the columns of the key, which is null without any.
        :param tombstones: whether each event of a deletion is followed by its key with a null value, which compacted
            topics and ``upsert-kafka`` interpret as a deletion; only with keys.
        :raises pyspark.errors.AnalysisException: as :meth:`changelog`.
        """
        form = {"changelogFormat": "debezium", "tombstones": str(tombstones)}
        return self._changes(startingVersion, endingVersion, keys, **form)

    def _changes(
        self, startingVersion: int, endingVersion: int | None, keys: Sequence[str], **options: str
    ) -> DataFrame:
        check_type("startingVersion", startingVersion, int, "a whole number")
        reader = self._spark.read.format("delta").option("readChangelog", "true").options(**options)
        reader = reader.option("startingVersion", str(startingVersion))
        if endingVersion is not None:
            check_type("endingVersion", endingVersion, int, "a whole number")
            reader = reader.option("endingVersion", str(endingVersion))
        if keys:
            reader = reader.option("idCols", ", ".join(map(quote, keys)))
        return self._table.read(reader)

    def sendChanges(
        self,
        topic: str,
        servers: str,
        *,
        checkpoint: str,
        keys: Sequence[str],
        startingVersion: int | None = None,
        tombstones: bool = True,
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Write the table's changes to a Kafka topic as Debezium's JSON events; the next call resumes after them.

        Events are sent at least once, and the events of each key in order. After a call that failed, the next one with
        the same checkpoint sends the incomplete micro-batch again from its beginning. Some of its events are then in
        the topic twice, and both copies are identical, with the same ``source.commit_version`` and ``source.ordinal``.
        Needs Spark's Kafka connector, ``org.apache.spark:spark-sql-kafka-0-10``.

        :param servers: as ``kafka.bootstrap.servers``.
        :param checkpoint: a directory that records what was sent; use a separate one for each topic.
        :param keys: the columns of the messages' keys; the changes of a key are sent in order.
        :param startingVersion: the first version of a new checkpoint; by default, all rows of the newest one are
            sent first, as ``c`` events.
        :param tombstones: as in :meth:`debezium`.
        :param options: more options of Spark's Kafka sink, such as ``kafka.security.protocol``.
        :raises pyspark.errors.AnalysisException: ``HEADWATER_CHANGES_NOT_SENT`` if the topic does not exist, or if no
            broker answers or it becomes unavailable; ``HEADWATER_NO_KEY_COLUMNS`` and others of the keys.
        """
        check_type("topic", topic, str, "a string")
        check_type("servers", servers, str, "a string, host:port with commas between")
        if not keys:
            raise DeltaTableError("HEADWATER_NO_KEY_COLUMNS", {"tableName": self._table.shown})
        send_changes(
            self._spark,
            self._table,
            topic,
            servers,
            checkpoint=checkpoint,
            keys=list(keys),
            starting_version=startingVersion,
            tombstones=tombstones,
            options=options,
        )

    @property
    def _target(self) -> str:
        return self._table.name if self._alias is None else f"{self._table.name} AS {quote(self._alias)}"

    def _where(self, condition: Expression | None, inputs: StatementInputs) -> str:
        if condition is None:
            return ""
        check_expression("condition", condition)
        return f"\nWHERE {inputs.condition(condition, Sees.TARGET)}"

    def _inputs(self, source: DataFrame | None = None) -> StatementInputs:
        return StatementInputs(self._spark, self._current_frame, source, self._answered)

    def _answered(self, text: str) -> DataFrame:
        return cards.run(self._table, text)

    def _current_frame(self) -> DataFrame:
        """The frame that Columns are resolved against.

        It is kept as long as the table's schema does not change, since users may take Columns from it
        (``table.toDF().id``).
        """
        now = self._table.frame()
        if now.schema != self._frame.schema:
            self._frame = now if self._alias is None else now.alias(self._alias)
        return self._frame

    # --- the table itself ---------------------------------------------------------------------------------------------

    def upgradeTableProtocol(self, readerVersion: int, writerVersion: int) -> None:
        """Raise the protocol versions that the table requires of readers and writers."""
        check_type("readerVersion", readerVersion, int, "an int")
        check_type("writerVersion", writerVersion, int, "an int")
        self._set_properties(
            {"delta.minReaderVersion": str(readerVersion), "delta.minWriterVersion": str(writerVersion)}
        )

    def addFeatureSupport(self, featureName: str) -> None:
        """Enable a table feature; raises the protocol versions if the feature needs it."""
        check_type("featureName", featureName, str, "a string")
        self._set_properties({f"delta.feature.{featureName}": "supported"})

    def dropFeatureSupport(self, featureName: str, truncateHistory: bool | None = None) -> None:
        """Remove a table feature, and what it left in the table.

        :param truncateHistory: whether old versions that use the feature are deleted; by default they are protected.
        :raises pyspark.errors.AnalysisException: ``DELTA_FEATURE_DROP_…``, with what to do or how long to wait.
        """
        check_type("featureName", featureName, str, "a string")
        if truncateHistory is not None:
            check_type("truncateHistory", truncateHistory, bool, "a bool")
        ending = " TRUNCATE HISTORY" if truncateHistory else ""
        self._table.sql(f"ALTER TABLE {self._table.name} DROP FEATURE {quote(featureName)}{ending}")

    def optimize(self) -> DeltaOptimizeBuilder:
        """Describe an OPTIMIZE."""
        return DeltaOptimizeBuilder(self._table)

    def vacuum(self, retentionHours: float | None = None) -> DataFrame:
        """Delete the files that no version within the retention needs."""
        if retentionHours is not None:
            check_type("retentionHours", retentionHours, (int, float), "a number of hours")
        ending = "" if retentionHours is None else f" RETAIN {retentionHours} HOURS"
        return self._answered(f"VACUUM {self._table.name}{ending}")

    def generate(self, mode: str) -> None:
        """Write manifests for other engines.

        :param mode: ``symlink_format_manifest``.
        :raises pyspark.errors.AnalysisException: ``DELTA_MODE_NOT_SUPPORTED`` for another one, and for tables with
            deletion vectors or column mapping, which readers of manifests do not support.
        """
        check_type("mode", mode, str, "a string")
        self._table.sql(f"GENERATE {quote(mode)} FOR TABLE {self._table.name}")

    def restoreToVersion(self, version: int) -> DataFrame:
        """Restore the table to an older version."""
        check_type("version", version, int, "an int")
        return self._answered(f"RESTORE TABLE {self._table.name} TO VERSION AS OF {version}")

    def restoreToTimestamp(self, timestamp: str) -> DataFrame:
        """Restore the table to its version at a time."""
        check_type("timestamp", timestamp, str, "a string")
        return self._answered(f"RESTORE TABLE {self._table.name} TO TIMESTAMP AS OF {literal(timestamp)}")

    def clone(
        self, target: str, isShallow: bool = False, replace: bool = False, properties: Mapping[str, str] | None = None
    ) -> DeltaTable:
        """Clone the newest version; ``target`` is a name or a path. All files are copied, unless ``isShallow``."""
        return self._clone("", target, isShallow, replace, properties)

    def cloneAtVersion(
        self,
        version: int,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """Clone the table at a version."""
        check_type("version", version, int, "an int")
        return self._clone(f" VERSION AS OF {version}", target, isShallow, replace, properties)

    def cloneAtTimestamp(
        self,
        timestamp: str,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """Clone the table at a time."""
        check_type("timestamp", timestamp, str, "a string")
        return self._clone(f" TIMESTAMP AS OF {literal(timestamp)}", target, isShallow, replace, properties)

    def _clone(self, at: str, target: str, isShallow: bool, *arguments: Any) -> DeltaTable:
        text, name = maintenance.clone_text(self._table.name, at, target, isShallow, *arguments)
        cards.run(self._table, text)
        return DeltaTable.forName(self._spark, name)

    def _set_properties(self, properties: Mapping[str, str]) -> None:
        pairs = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in properties.items())
        self._table.sql(f"ALTER TABLE {self._table.name} SET TBLPROPERTIES ({pairs})")


def _session(given: SparkSession | None) -> SparkSession:
    if given is not None:
        check_session(given)
        return given
    return SparkSession.active()
