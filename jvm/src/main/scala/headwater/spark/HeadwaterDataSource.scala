package headwater.spark

import java.util

import scala.jdk.CollectionConverters._

import headwater.spark.bridge.Bridge
import headwater.spark.bridge.messages.{InvalidTimestampRequest, InvalidVersionRequest, MissingPathRequest, TwoVersionsRequest}
import headwater.spark.catalog.{HeadwaterTable, MissingTable, TableVersion}
import headwater.spark.changes.HeadwaterChangelog
import headwater.spark.write.HeadwaterWrites
import org.apache.spark.sql.{DataFrame, SaveMode, SparkSession, SQLContext}
import org.apache.spark.sql.catalyst.expressions.{Cast, EvalMode, Literal}
import org.apache.spark.sql.connector.catalog.{SupportsV1OverwriteWithSaveAsTable, Table}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.execution.datasources.DataSourceUtils
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.sources.{BaseRelation, CreatableRelationProvider, DataSourceRegister}
import org.apache.spark.sql.types.{StringType, StructType, TimestampType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.unsafe.types.UTF8String

/** `format("delta")`: reads and writes a table by its path. `META-INF/services` names this class. */
class HeadwaterDataSource
    extends DataSourceRegister
    with SupportsV1OverwriteWithSaveAsTable
    with CreatableRelationProvider {

  override def shortName(): String = "delta"

  /** Spark's errors name the source like this. */
  override def toString: String = shortName()

  override def inferSchema(options: CaseInsensitiveStringMap): StructType = new StructType

  override def getTable(schema: StructType, partitioning: Array[Transform], properties: util.Map[String, String]): Table = {
    val options = new CaseInsensitiveStringMap(properties)
    val session = SparkSession.active
    val path = HeadwaterDataSource.path(session, options.asScala.toMap)
    if (HeadwaterChangelog.asked(session, options)) {
      val timeTravel = options.containsKey("versionAsOf") || options.containsKey("timestampAsOf")
      return HeadwaterChangelog.load(session, path, HeadwaterChangelog.bounds(session, options), timeTravel)
    }
    if (options.containsKey("versionAsOf") && options.containsKey("timestampAsOf")) throw Bridge.refusal(session, TwoVersionsRequest())
    val asked = TableVersion(
      Option(options.get("versionAsOf")).map(HeadwaterDataSource.version(session, _)),
      Option(options.get("timestampAsOf")).map(HeadwaterDataSource.timestamp(session, _)))
    try HeadwaterTable.load(session, path, asked)
    catch { case e: HeadwaterException if HeadwaterDataSource.Absent(e.getCondition) => new MissingTable(path, e) }
  }

  /** `df.write.format("delta").save(path)` in every mode; the handler decides whether this creates, replaces or appends. */
  override def createRelation(context: SQLContext, mode: SaveMode, parameters: Map[String, String], data: DataFrame): BaseRelation = {
    val session = context.sparkSession
    val partitioning = parameters.get(DataSourceUtils.PARTITIONING_COLUMNS_KEY).map(DataSourceUtils.decodePartitioningColumns).getOrElse(Nil)
    HeadwaterWrites.save(session, HeadwaterDataSource.path(session, parameters), mode.name(), partitioning, parameters, data)
    new BaseRelation {
      override def sqlContext: SQLContext = context
      override def schema: StructType = data.schema
    }
  }
}

object HeadwaterDataSource {
  /** Errors of a path at which a write can still create a table. */
  private val Absent = Set("DELTA_TABLE_NOT_FOUND", "DELTA_EMPTY_DIRECTORY")

  def path(session: SparkSession, options: Map[String, String]): String = {
    val location = options.collectFirst { case (key, value) if key.equalsIgnoreCase("path") => value }
      .getOrElse(throw Bridge.refusal(session, MissingPathRequest()))
    HeadwaterTable.path(session, location)
  }

  private def version(session: SparkSession, text: String): Long =
    scala.util.Try(text.trim.toLong).getOrElse(throw Bridge.refusal(session, InvalidVersionRequest(text)))

  /** A timestamp as Spark parses it in the session's time zone: microseconds since the epoch, as text. */
  private def timestamp(session: SparkSession, text: String): String = {
    val zone = Some(SparkInternals.conf(session).sessionLocalTimeZone)
    val value = Cast(Literal(UTF8String.fromString(text), StringType), TimestampType, zone, EvalMode.LEGACY).eval()
    if (value == null) throw Bridge.refusal(session, InvalidTimestampRequest(text))
    value.toString
  }
}
