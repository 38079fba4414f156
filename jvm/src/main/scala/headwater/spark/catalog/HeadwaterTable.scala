package headwater.spark.catalog

import java.util

import headwater.spark.bridge.{Bridge, SchemaText, StoreOptions, TableLocation}
import headwater.spark.bridge.messages.{LoadTableRequest, SummarizeTablesRequest, TableConstraint, TableDescription, TruncateRequest}
import headwater.spark.scan.tables.{HeadwaterFileIndex, IndexedFiles, TableRelation, TableState}
import headwater.spark.shims.Keys
import headwater.spark.write.WriteTarget
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTableType, CatalogUtils}
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.expressions.{Expressions, Transform}
import org.apache.spark.sql.connector.read.ScanBuilder
import org.apache.spark.sql.connector.write.{LogicalWriteInfo, WriteBuilder}
import org.apache.spark.sql.execution.datasources.LogicalRelation
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.headwater.scan.HeadwaterParquetFileFormat
import org.apache.spark.sql.headwater.streaming.TableForStreams
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * A Delta table at one version, as the handler described it. Spark reads it through a file relation; writes go to the handler.
 *
 * @param store what the user has given to reach it
 */
class HeadwaterTable(
    val session: SparkSession,
    val path: String,
    val asked: TableVersion,
    val catalogTable: Option[CatalogTable],
    val info: TableDescription,
    val store: StoreOptions = StoreOptions.none)
    extends ColumnsTable
    with Keys
    with SupportsRead
    with SupportsWrite
    with TruncatableTable
    with TableForStreams {

  private lazy val entry = catalogTable.map(found => new TableEntry(found.identifier, EntryContent.of(this).isMissingIn(found)))

  def location: TableLocation = TableLocation(path, store, entry)

  /** The table as it is reached with the options of a query or a write, if some are of file systems. */
  def reachedWith(options: Map[String, String]): HeadwaterTable = {
    val reached = store.and(session, new Path(path), options)
    if (reached == store) this else new HeadwaterTable(session, path, asked, catalogTable, info, reached)
  }

  val snapshotVersion: Long = info.version
  lazy val tableSchema: StructType = SchemaText.read(info.schema)
  def partitionColumns: Seq[String] = info.partitionColumns

  override def name(): String = catalogTable.map(_.identifier.quotedString).getOrElse(s"delta.`$path`")

  /** Spark's plans show the table like this. */
  override def toString: String = name()

  override protected def keys: Seq[TableConstraint] = info.keys

  override def columns(): Array[Column] = SparkInternals.columns(tableSchema)

  override def partitioning(): Array[Transform] =
    partitionColumns.map(c => Expressions.identity(quote(c)): Transform).toArray ++
      SparkInternals.clusterBy(info.clusteringColumns.getOrElse(Nil))

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
    info.description.foreach(out.put(TableCatalog.PROP_COMMENT, _))
    info.properties.foreach { case (k, v) => out.put(k, v) }
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
  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder =
    () => new DescribedScan(tableSchema, info.sizeInBytes, countedRows, catalogTable.flatMap(_.stats))

  /** The rows of this version, if it is still the newest one. */
  private def countedRows: Option[Long] = if (!asked.isLatest) None
  else
    Bridge.call(session, SummarizeTablesRequest(Seq(path)), location).tables.flatten.find(_.sizeInBytes == info.sizeInBytes).flatMap(_.rows)

  override def newWriteBuilder(write: LogicalWriteInfo): WriteBuilder = WriteTarget(this, WriteTarget.Append).newWriteBuilder(write)

  /** Refuses an older version: those are read-only. */
  def requireLatest(): Unit = if (!asked.isLatest) throw Refusals.oldVersion(path)

  override def truncateTable(): Boolean = {
    requireLatest()
    Bridge.call(session, TruncateRequest(path), location)
    SparkInternals.refreshCaches(session, location)
    true
  }

  /** The relation that Spark's own Parquet path reads. */
  def toRelation(options: Map[String, String]): LogicalRelation = {
    val reached = reachedWith(options)
    val analyzed = catalogTable.flatMap(_.stats).map(_.colStats).getOrElse(Map.empty)
    val listed = IndexedFiles.of(this, live = asked.isLatest).copy(store = reached.store, analyzed = analyzed)
    reached.relationOver(new HeadwaterFileIndex(listed), StoreOptions.others(options))
  }

  def partitionSchema: StructType = HeadwaterTable.partitionSchema(tableSchema, partitionColumns)

  private[spark] def relationOver(index: HeadwaterFileIndex, options: Map[String, String] = Map.empty): LogicalRelation = {
    // The index may list files of versions that the table has left.
    val format = new HeadwaterParquetFileFormat(TableState.of(this).copy(hasDeletionVectors = index.state.hasDeletionVectors))
    val relation = new TableRelation(index, partitionSchema, tableSchema, format, options ++ store.hadoop)(session)
    catalogTable.map(t => LogicalRelation(relation, t.copy(stats = None))).getOrElse(LogicalRelation(relation))
  }
}

object HeadwaterTable {
  /**
   * The partition columns of a schema as a scan has them: nullable. The log may have null in a NOT NULL column, for example if another
   * writer stored an empty string there, and Spark must not read it as a value.
   */
  def partitionSchema(schema: StructType, names: Seq[String]): StructType =
    StructType(names.map(name => schema(schema.fieldNames.indexWhere(_.equalsIgnoreCase(name))).copy(nullable = true)))

  /** Asks the handler for the table at a location. */
  def load(
      session: SparkSession,
      location: TableLocation,
      asked: TableVersion = TableVersion.Latest,
      catalogTable: Option[CatalogTable] = None): HeadwaterTable =
    opened(
      session,
      location,
      LoadTableRequest(
        location.path,
        catalogTable.map(_.identifier.unquotedString),
        asked.version,
        asked.timestamp,
        mayBeLater = asked.mayBeLater),
      catalogTable)

  /** The table at the version that a statement reads it at: not time travel, which users ask for. */
  def pinned(session: SparkSession, location: TableLocation, version: Long): HeadwaterTable =
    opened(session, location, LoadTableRequest(location.path, None, Some(version), pinned = true), None)

  private def opened(
      session: SparkSession,
      location: TableLocation,
      request: LoadTableRequest,
      catalogTable: Option[CatalogTable]): HeadwaterTable = {
    val info = Bridge.call(session, request, location)
    // A path may end with a version (`/path@v3`); the answer has the path without it, and the version.
    val effective = if (info.timeTravel) TableVersion(info.version) else TableVersion.Latest
    new HeadwaterTable(session, info.path, effective, catalogTable, info, location.store)
  }

  def path(session: SparkSession, location: String): String = TableLocation.path(session, new Path(location))
}
