package headwater.spark

import java.util

import scala.jdk.CollectionConverters._

import headwater.spark.bridge.{SchemaText, StoreOptions, TableLocation}
import headwater.spark.bridge.messages.SinkSettings
import headwater.spark.catalog.{Extension, HeadwaterTable, MissingTable, TableEntry, TableVersion}
import headwater.spark.changes.HeadwaterChangelog
import headwater.spark.scan.tables.ReadOptions
import headwater.spark.shims.SaveAsTable
import headwater.spark.streaming.{HeadwaterSink, HeadwaterSource, PlannedTable}
import headwater.spark.write.HeadwaterWrites
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.{DataFrame, SaveMode, SparkSession, SQLContext}
import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.execution.datasources.DataSourceUtils
import org.apache.spark.sql.execution.streaming.{Sink, Source}
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.headwater.streaming.TableForStreams
import org.apache.spark.sql.sources.{
  BaseRelation, CreatableRelationProvider, DataSourceRegister, StreamSinkProvider, SupportsStreamSourceMetadataColumns
}
import org.apache.spark.sql.streaming.OutputMode
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** `format("delta")`: reads and writes a table by its path. `META-INF/services` names this class, and some of Spark's errors do. */
class DeltaDataSource
    extends DataSourceRegister
    with SaveAsTable
    with CreatableRelationProvider
    with SupportsStreamSourceMetadataColumns
    with StreamSinkProvider {

  override def shortName(): String = "delta"

  /** Spark's errors name the source like this. */
  override def toString: String = shortName()

  /** Spark's own session catalog asks this of each table by name; ours never does. */
  override def supportsExternalMetadata(): Boolean = {
    Extension.requireCatalog(SparkSession.active)
    false
  }

  override def inferSchema(options: CaseInsensitiveStringMap): StructType = new StructType

  override def getTable(schema: StructType, partitioning: Array[Transform], properties: util.Map[String, String]): Table = {
    val options = new CaseInsensitiveStringMap(properties)
    val session = SparkSession.active
    ReadOptions.check(session, options, isSql = false)
    val location = DeltaDataSource.target(session, options.asCaseSensitiveMap().asScala.toMap)
    HeadwaterChangelog.asked(session, options) match {
      case Some(form) =>
        val timeTravel = options.containsKey("versionAsOf") || options.containsKey("timestampAsOf")
        HeadwaterChangelog.later(session, location, HeadwaterChangelog.bounds(session, options), form, timeTravel)
      case None => getRows(session, location, options)
    }
  }

  private def getRows(session: SparkSession, location: TableLocation, options: CaseInsensitiveStringMap): Table = {
    if (options.containsKey("versionAsOf") && options.containsKey("timestampAsOf")) throw HeadwaterException("DELTA_ONEOF_IN_TIMETRAVEL")
    val asked = TableVersion(
      Option(options.get("versionAsOf")).map(DeltaDataSource.version),
      Option(options.get("timestampAsOf")).map(TableVersion.moment(_, SparkInternals.conf(session).sessionLocalTimeZone)))
    try HeadwaterTable.load(session, location, asked)
    catch { case e: HeadwaterException if DeltaDataSource.Absent(e.getCondition) => new MissingTable(location.path, e) }
  }

  override def sourceSchema(
      context: SQLContext,
      schema: Option[StructType],
      provider: String,
      parameters: Map[String, String]): (String, StructType) = {
    val session = context.sparkSession
    val info = HeadwaterSource.describe(session, DeltaDataSource.location(session, parameters), parameters, schema, None)
    (shortName(), SchemaText.read(info.schema))
  }

  /** `_metadata`, as batch queries have it. */
  override def getMetadataOutput(
      session: SparkSession,
      parameters: Map[String, String],
      schema: Option[StructType]): Seq[AttributeReference] =
    HeadwaterSource.metadataColumns(HeadwaterSource.describe(
      session,
      DeltaDataSource.location(session, parameters),
      parameters,
      None,
      None))

  override def createSource(
      context: SQLContext,
      checkpoint: String,
      schema: Option[StructType],
      provider: String,
      parameters: Map[String, String]): Source = {
    val session = context.sparkSession
    val info = HeadwaterSource.describe(session, DeltaDataSource.location(session, parameters), parameters, schema, Some(checkpoint))
    new HeadwaterSource(session, DeltaDataSource.location(session, parameters).store, parameters, info)
  }

  /** The handler refuses the types that a table cannot have, as it does for every other way to write. */
  override def supportsDataType(dt: DataType): Boolean = true

  /** `df.write.format("delta").save(path)` in every mode; the handler decides whether this creates, replaces or appends. */
  override def createRelation(context: SQLContext, mode: SaveMode, parameters: Map[String, String], data: DataFrame): BaseRelation = {
    val session = context.sparkSession
    val partitioning =
      parameters.get(DataSourceUtils.PARTITIONING_COLUMNS_KEY).map(DataSourceUtils.decodePartitioningColumns).getOrElse(Nil)
    HeadwaterWrites.save(session, DeltaDataSource.location(session, parameters), mode.name(), partitioning, parameters, data)
    new BaseRelation {
      override def sqlContext: SQLContext = context
      override def schema: StructType = data.schema
    }
  }

  /** `writeStream.format("delta")`, with `start(path)` or `toTable(name)`. */
  override def createSink(context: SQLContext, parameters: Map[String, String], partitioning: Seq[String], mode: OutputMode): Sink = {
    val session = context.sparkSession
    val clustering = parameters.get(DataSourceUtils.CLUSTERING_COLUMNS_KEY).map(DataSourceUtils.decodePartitioningColumns)
    val options = parameters match {
      case given: CaseInsensitiveMap[String] => given.originalMap // with the names as the user wrote them
      case other => other
    }
    val location = DeltaDataSource.target(session, parameters)
    val entry = TableForStreams.entryOf(location.path)
    HeadwaterSink(
      session,
      location.copy(entry = entry.map(found => new TableEntry(found.identifier))),
      SinkSettings(location.path, mode.toString, partitioning, clustering, StoreOptions.others(options)))
  }
}

object DeltaDataSource {
  /** Errors of a path at which a write can still create a table. */
  private val Absent = Set("DELTA_TABLE_NOT_FOUND", "DELTA_EMPTY_DIRECTORY", "PATH_NOT_FOUND")

  /** The location in a reader's or writer's options, with those that are for its file system. */
  def location(session: SparkSession, options: Map[String, String]): TableLocation = {
    Extension.require(session)
    val path = options.collectFirst { case (key, value) if key.equalsIgnoreCase("path") => value }
      .getOrElse(throw HeadwaterException("DELTA_PATH_NOT_SPECIFIED"))
    TableLocation.of(session, new Path(path), options)
  }

  /** The same; for the table of `toTable`, of which Spark passes on the path alone, with what its catalog has given to reach it. */
  private def target(session: SparkSession, options: Map[String, String]): TableLocation = {
    val named = location(session, options)
    TableForStreams.entryOf(named.path).map(_.storage.properties).filter(_.nonEmpty && PlannedTable.isForStream)
      .fold(named)(properties => location(session, properties ++ options))
  }

  private def version(text: String): Long =
    scala.util.Try(text.trim.toLong).getOrElse(throw HeadwaterException("DELTA_TIME_TRAVEL_INVALID_BEGIN_VALUE", "version" -> text))
}
