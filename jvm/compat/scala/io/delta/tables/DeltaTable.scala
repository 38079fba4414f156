package io.delta.tables

import scala.jdk.CollectionConverters._

import io.delta.tables.StatementInputs.{columns, texts, Expression, Target}
import org.apache.spark.sql.{AnalysisException, Column, DataFrame, SparkSession}
import org.apache.spark.sql.types.StructType

/**
 * A Delta table, by path or by name. Each method writes one SQL statement and runs it in the table's session, so it does, returns and
 * throws what the statement does, returns and throws.
 */
class DeltaTable private[tables] (spark: SparkSession, table: Opened, private var frame: DataFrame, alias: Option[String])
    extends Serializable {

  /** Names the table in conditions and values. */
  def as(alias: String): DeltaTable = new DeltaTable(spark, table, frame.as(alias), Some(alias))
  def alias(alias: String): DeltaTable = as(alias)

  /** The table's rows, as they are when the frame is first run: each call returns a frame of its own, whose columns stay the same. */
  def toDF: DataFrame = current().select("*")

  def vacuum(): DataFrame = table.sql(s"VACUUM ${table.name}")
  def vacuum(retentionHours: Double): DataFrame =
    table.sql(s"VACUUM ${table.name} RETAIN ${BigDecimal(retentionHours).bigDecimal.toPlainString} HOURS")

  def history(): DataFrame = table.sql(s"DESCRIBE HISTORY ${table.name}")
  def history(limit: Int): DataFrame = table.sql(s"DESCRIBE HISTORY ${table.name} LIMIT $limit")
  def detail(): DataFrame = table.sql(s"DESCRIBE DETAIL ${table.name}")

  def generate(mode: String): Unit = table.sql(s"GENERATE ${SqlText.quote(Seq(mode))} FOR TABLE ${table.name}")

  def optimize(): DeltaOptimizeBuilder = new DeltaOptimizeBuilder(table, None)

  def delete(): Unit = delete(None)
  def delete(condition: String): Unit = delete(Some(Left(condition)))
  def delete(condition: Column): Unit = delete(Some(Right(condition)))

  private def delete(condition: Option[Expression]): Unit = {
    val parts = inputs(None)
    parts.run(s"DELETE FROM $target${parts.where(condition)}")
  }

  def update(set: Map[String, Column]): Unit = update(None, columns(set))
  def update(set: java.util.Map[String, Column]): Unit = update(None, columns(set.asScala))
  def update(condition: Column, set: Map[String, Column]): Unit = update(Some(Right(condition)), columns(set))
  def update(condition: Column, set: java.util.Map[String, Column]): Unit = update(Some(Right(condition)), columns(set.asScala))
  def updateExpr(set: Map[String, String]): Unit = update(None, texts(set))
  def updateExpr(set: java.util.Map[String, String]): Unit = update(None, texts(set.asScala))
  def updateExpr(condition: String, set: Map[String, String]): Unit = update(Some(Left(condition)), texts(set))
  def updateExpr(condition: String, set: java.util.Map[String, String]): Unit = update(Some(Left(condition)), texts(set.asScala))

  private def update(condition: Option[Expression], set: Iterable[(String, Expression)]): Unit = {
    val parts = inputs(None)
    val values = parts.assignments(set, Target)
    parts.run(s"UPDATE $target\nSET\n  $values${parts.where(condition)}")
  }

  def merge(source: DataFrame, condition: String): DeltaMergeBuilder = merge(source, Left(condition))
  def merge(source: DataFrame, condition: Column): DeltaMergeBuilder = merge(source, Right(condition))

  private def merge(source: DataFrame, condition: Expression): DeltaMergeBuilder =
    new DeltaMergeBuilder(target, () => inputs(Some(source)), condition, Vector.empty, false)

  def restoreToVersion(version: Long): DataFrame = table.sql(s"RESTORE TABLE ${table.name} TO VERSION AS OF $version")
  def restoreToTimestamp(timestamp: String): DataFrame =
    table.sql(s"RESTORE TABLE ${table.name} TO TIMESTAMP AS OF ${SqlText.literal(timestamp)}")

  def upgradeTableProtocol(readerVersion: Int, writerVersion: Int): Unit =
    setProperties("delta.minReaderVersion" -> readerVersion.toString, "delta.minWriterVersion" -> writerVersion.toString)

  def addFeatureSupport(featureName: String): Unit = setProperties(s"delta.feature.$featureName" -> "supported")

  def dropFeatureSupport(featureName: String): Unit = dropFeatureSupport(featureName, truncateHistory = false)
  def dropFeatureSupport(featureName: String, truncateHistory: Boolean): Unit =
    table.sql(
      s"ALTER TABLE ${table.name} DROP FEATURE ${SqlText.quote(Seq(featureName))}${if (truncateHistory) " TRUNCATE HISTORY" else ""}")

  def clone(target: String): DeltaTable = clone(target, isShallow = false)
  def clone(target: String, isShallow: Boolean): DeltaTable = clone(target, isShallow, replace = false)
  def clone(target: String, isShallow: Boolean, replace: Boolean): DeltaTable = clone(target, isShallow, replace, Map.empty[String, String])
  def clone(target: String, isShallow: Boolean, replace: Boolean, properties: Map[String, String]): DeltaTable =
    clone("", target, isShallow, replace, properties)
  def clone(target: String, isShallow: Boolean, replace: Boolean, properties: java.util.HashMap[String, String]): DeltaTable =
    clone("", target, isShallow, replace, properties.asScala)

  def cloneAtVersion(version: Long, target: String): DeltaTable = cloneAtVersion(version, target, isShallow = false)
  def cloneAtVersion(version: Long, target: String, isShallow: Boolean): DeltaTable =
    cloneAtVersion(version, target, isShallow, replace = false)
  def cloneAtVersion(version: Long, target: String, isShallow: Boolean, replace: Boolean): DeltaTable =
    cloneAtVersion(version, target, isShallow, replace, Map.empty[String, String])
  def cloneAtVersion(version: Long, target: String, isShallow: Boolean, replace: Boolean, properties: Map[String, String]): DeltaTable =
    clone(s" VERSION AS OF $version", target, isShallow, replace, properties)
  def cloneAtVersion(
      version: Long,
      target: String,
      isShallow: Boolean,
      replace: Boolean,
      properties: java.util.HashMap[String, String]): DeltaTable =
    clone(s" VERSION AS OF $version", target, isShallow, replace, properties.asScala)

  def cloneAtTimestamp(timestamp: String, target: String): DeltaTable = cloneAtTimestamp(timestamp, target, isShallow = false)
  def cloneAtTimestamp(timestamp: String, target: String, isShallow: Boolean): DeltaTable =
    cloneAtTimestamp(timestamp, target, isShallow, replace = false)
  def cloneAtTimestamp(timestamp: String, target: String, isShallow: Boolean, replace: Boolean): DeltaTable =
    cloneAtTimestamp(timestamp, target, isShallow, replace, Map.empty[String, String])
  def cloneAtTimestamp(
      timestamp: String,
      target: String,
      isShallow: Boolean,
      replace: Boolean,
      properties: Map[String, String]): DeltaTable =
    clone(s" TIMESTAMP AS OF ${SqlText.literal(timestamp)}", target, isShallow, replace, properties)
  def cloneAtTimestamp(
      timestamp: String,
      target: String,
      isShallow: Boolean,
      replace: Boolean,
      properties: java.util.HashMap[String, String]): DeltaTable =
    clone(s" TIMESTAMP AS OF ${SqlText.literal(timestamp)}", target, isShallow, replace, properties.asScala)

  private def clone(
      at: String,
      target: String,
      isShallow: Boolean,
      replace: Boolean,
      properties: Iterable[(String, String)]): DeltaTable = {
    val made = if (target.contains("/") && !target.contains("`")) SqlText.path(target) else target
    val begins = if (replace) "CREATE OR REPLACE TABLE" else "CREATE TABLE"
    val ending = if (properties.isEmpty) "" else s" TBLPROPERTIES ${SqlText.pairs(properties)}"
    table.sql(s"$begins $made ${if (isShallow) "SHALLOW " else ""}CLONE ${table.name}$at$ending")
    DeltaTable.open(spark, made)
  }

  private def setProperties(properties: (String, String)*): Unit =
    table.sql(s"ALTER TABLE ${table.name} SET TBLPROPERTIES ${SqlText.pairs(properties)}")

  private def target: String = table.name + alias.map(a => s" AS ${SqlText.quote(Seq(a))}").getOrElse("")

  private def inputs(source: Option[DataFrame]) = new StatementInputs(spark, table, () => current(), source)

  /** It stays the same while the table's schema does: users take Columns from it, as in `table.toDF("id")`. */
  private def current(): DataFrame = synchronized {
    val now = table.frame
    if (now.schema != frame.schema) frame = alias.fold(now)(now.as)
    frame
  }
}

object DeltaTable {
  private def active: SparkSession = SparkSession.active

  private[tables] def open(spark: SparkSession, name: String): DeltaTable = open(spark, new Opened(spark, name))

  private def open(spark: SparkSession, table: Opened): DeltaTable = {
    if (!isDelta(table)) table.sql(s"DESCRIBE HISTORY ${table.name}") // says that it is of another format
    new DeltaTable(spark, table, table.frame, None)
  }

  def forPath(path: String): DeltaTable = forPath(active, path)
  def forPath(sparkSession: SparkSession, path: String): DeltaTable = open(sparkSession, SqlText.path(path))

  /** The table at a path; `hadoopConf` has settings of Hadoop to reach this table with: those that begin with `fs.` or `dfs.`. */
  def forPath(sparkSession: SparkSession, path: String, hadoopConf: scala.collection.Map[String, String]): DeltaTable =
    open(sparkSession, Opened(sparkSession, path, hadoopConf))
  def forPath(sparkSession: SparkSession, path: String, hadoopConf: java.util.Map[String, String]): DeltaTable =
    forPath(sparkSession, path, hadoopConf.asScala)

  def forName(tableOrViewName: String): DeltaTable = forName(active, tableOrViewName)
  def forName(sparkSession: SparkSession, tableName: String): DeltaTable = {
    val parts = SqlText.split(tableName)
    if (parts.size > 1) open(sparkSession, SqlText.quote(parts))
    else {
      val now = sparkSession.sql("SELECT current_catalog(), current_schema()").head()
      open(sparkSession, SqlText.quote(now.getString(0) +: SqlText.split(now.getString(1)) :+ parts.head))
    }
  }

  def isDeltaTable(identifier: String): Boolean = isDeltaTable(active, identifier)

  /** Whether there is a Delta table at a path. */
  def isDeltaTable(sparkSession: SparkSession, identifier: String): Boolean =
    try isDelta(new Opened(sparkSession, SqlText.path(identifier)))
    catch {
      case e: AnalysisException if NoTable.contains(e.getCondition) => false
      case e: AnalysisException if NotForUs.contains(e.getCondition) => true
    }

  private def isDelta(table: Opened): Boolean =
    table.sql(s"DESCRIBE DETAIL ${table.name}").head().getAs[String]("format") == "delta"

  // The conditions of DESCRIBE DETAIL where there is no Delta table, and where there is one that this version cannot read.
  private val NoTable = Set("DELTA_MISSING_DELTA_TABLE", "DELTA_TABLE_NOT_FOUND", "DELTA_EMPTY_DIRECTORY")
  private val NotForUs = Set("DELTA_UNSUPPORTED_FEATURES_FOR_READ", "DELTA_INVALID_PROTOCOL_VERSION")

  def convertToDelta(spark: SparkSession, identifier: String): DeltaTable = convert(spark, identifier, "")
  def convertToDelta(spark: SparkSession, identifier: String, partitionSchema: String): DeltaTable =
    convert(spark, identifier, s" PARTITIONED BY ($partitionSchema)")
  def convertToDelta(spark: SparkSession, identifier: String, partitionSchema: StructType): DeltaTable =
    convertToDelta(spark, identifier, partitionSchema.toDDL)

  private def convert(spark: SparkSession, identifier: String, ending: String): DeltaTable = {
    spark.sql(s"CONVERT TO DELTA $identifier$ending")
    open(spark, "(?i)^(parquet|`parquet`)\\.".r.replaceFirstIn(identifier, "delta."))
  }

  def create(): DeltaTableBuilder = create(active)
  def create(spark: SparkSession): DeltaTableBuilder = new DeltaTableBuilder(spark, "CREATE TABLE")
  def createIfNotExists(): DeltaTableBuilder = createIfNotExists(active)
  def createIfNotExists(spark: SparkSession): DeltaTableBuilder = new DeltaTableBuilder(spark, "CREATE TABLE IF NOT EXISTS")
  def replace(): DeltaTableBuilder = replace(active)
  def replace(spark: SparkSession): DeltaTableBuilder = new DeltaTableBuilder(spark, "REPLACE TABLE")
  def createOrReplace(): DeltaTableBuilder = createOrReplace(active)
  def createOrReplace(spark: SparkSession): DeltaTableBuilder = new DeltaTableBuilder(spark, "CREATE OR REPLACE TABLE")

  def columnBuilder(colName: String): DeltaColumnBuilder = columnBuilder(active, colName)
  def columnBuilder(spark: SparkSession, colName: String): DeltaColumnBuilder = new DeltaColumnBuilder(colName)
}
