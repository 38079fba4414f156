package headwater.spark.catalog

import java.util

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import headwater.spark.bridge.{Bridge, Json, StatementContext}
import headwater.spark.scan.{HeadwaterFileIndex, TableState}
import headwater.spark.write.HeadwaterWriteBuilder
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTableType, CatalogUtils}
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.expressions.{Expressions, Transform}
import org.apache.spark.sql.connector.read.ScanBuilder
import org.apache.spark.sql.connector.write.{LogicalWriteInfo, WriteBuilder}
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.headwater.scan.HeadwaterParquetFileFormat
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** A Delta table at one version, as the handler described it. Spark reads it through a file relation; writes go to the handler. */
class HeadwaterTable(
    val session: SparkSession,
    val path: String,
    val asked: TableVersion,
    val catalogTable: Option[CatalogTable],
    val info: JsonNode)
    extends Table
    with SupportsRead
    with SupportsWrite
    with TruncatableTable {

  val snapshotVersion: Long = info.get("version").asLong()
  lazy val tableSchema: StructType = DataType.fromJson(info.get("schema").asText()).asInstanceOf[StructType]
  lazy val partitionColumns: Seq[String] = Json.strings(info.get("partitionColumns"))

  override def name(): String = catalogTable.map(_.identifier.quotedString).getOrElse(s"delta.`$path`")

  /** Spark's plans show the table like this. */
  override def toString: String = name()

  override def columns(): Array[Column] = SparkInternals.columns(tableSchema)

  override def partitioning(): Array[Transform] =
    partitionColumns.map(c => Expressions.identity(quote(c)): Transform).toArray ++ SparkInternals.clusterBy(clusteringColumns)

  private def clusteringColumns: Seq[Seq[String]] = info.path("clusteringColumns").elements().asScala.map(Json.strings).toSeq

  private def quote(name: String): String = "`" + name.replace("`", "``") + "`"

  /** Whether DROP TABLE deletes the data. A table that is only known by its path cannot be dropped. */
  def isManaged: Boolean = catalogTable.exists(_.tableType != CatalogTableType.EXTERNAL)

  override def properties(): util.Map[String, String] = {
    val out = new util.LinkedHashMap[String, String]()
    out.put(TableCatalog.PROP_PROVIDER, "delta")
    out.put(TableCatalog.PROP_LOCATION, catalogTable.flatMap(_.storage.locationUri).map(CatalogUtils.URIToString).getOrElse(path))
    catalogTable.foreach { table =>
      if (table.owner.nonEmpty) out.put(TableCatalog.PROP_OWNER, table.owner)
      out.put(if (isManaged) TableCatalog.PROP_IS_MANAGED_LOCATION else TableCatalog.PROP_EXTERNAL, "true")
    }
    Option(Json.text(info.get("description"))).orElse(catalogTable.flatMap(_.comment)).foreach(out.put(TableCatalog.PROP_COMMENT, _))
    Json.stringMap(info.get("properties")).foreach { case (k, v) => out.put(k, v) }
    out
  }

  // Spark accepts any schema here because ResolveHeadwaterWrites, which knows schema evolution, checks it.
  override def capabilities(): util.Set[TableCapability] = util.EnumSet.of(
    TableCapability.BATCH_READ,
    TableCapability.V1_BATCH_WRITE,
    TableCapability.ACCEPT_ANY_SCHEMA,
    TableCapability.TRUNCATE,
    TableCapability.OVERWRITE_BY_FILTER,
    TableCapability.OVERWRITE_DYNAMIC)

  // Queries read the table through a file relation (ResolveHeadwaterRelations).
  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = () => new SizeOnlyScan(tableSchema, info.get("sizeInBytes").asLong())

  override def newWriteBuilder(write: LogicalWriteInfo): WriteBuilder = new HeadwaterWriteBuilder(this, write.options)

  /** Raises the handler's error where this is an older version: those are read-only. */
  def requireLatest(): Unit = if (!asked.isLatest) Bridge.call(new StatementContext(session), "old_version", "table" -> path)

  override def truncateTable(): Boolean = {
    requireLatest()
    Bridge.call(new StatementContext(session), "truncate", "table" -> path)
    SparkInternals.refreshCaches(session, path)
    true
  }

  /** The relation that Spark's own Parquet path reads. */
  def toRelation(options: Map[String, String]): LogicalRelation = relationOver(
    new HeadwaterFileIndex(session, path, TableState.of(this), live = asked.isLatest, partitionSchema, options), options)

  def partitionSchema: StructType = StructType(partitionColumns.map(c => tableSchema(tableSchema.fieldNames.indexWhere(_.equalsIgnoreCase(c)))))

  private[spark] def relationOver(index: HeadwaterFileIndex, options: Map[String, String]): LogicalRelation = {
    val format = new HeadwaterParquetFileFormat(
      path, info.get("tableSchema").asText(), info.get("columnMappingMode").asText(), info.get("hasDeletionVectors").asBoolean(), snapshotVersion)
    val relation = HadoopFsRelation(index, partitionSchema, tableSchema, None, format, options)(session)
    catalogTable.map(t => LogicalRelation(relation, t.copy(stats = None))).getOrElse(LogicalRelation(relation))
  }
}

object HeadwaterTable {
  /** Asks the handler for the table at a path. */
  def load(
      session: SparkSession,
      path: String,
      asked: TableVersion = TableVersion.Latest,
      catalogTable: Option[CatalogTable] = None): HeadwaterTable = {
    val info = Bridge.call(
      new StatementContext(session), "load_table",
      "table" -> path,
      "name" -> catalogTable.map(_.identifier.unquotedString),
      "version" -> asked.version,
      "timestamp" -> asked.timestamp)
    // A path may end with a version (`/path@v3`); the answer has the path without it, and the version.
    val effective = if (info.path("timeTravel").asBoolean()) TableVersion(info.get("version").asLong()) else asked
    new HeadwaterTable(session, info.get("path").asText(), effective, catalogTable, info)
  }

  def path(session: SparkSession, location: String): String = SparkInternals.tablePath(session, new Path(location))
}
