package headwater.spark

import java.util

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.{DataFrame, SaveMode, SparkSession, SQLContext}
import org.apache.spark.sql.connector.catalog.{SupportsV1OverwriteWithSaveAsTable, Table}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.execution.datasources.DataSourceUtils
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.sources.{BaseRelation, CreatableRelationProvider, DataSourceRegister}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** `format("delta")`: reads and writes of a table by its path. */
class HeadwaterDataSource
    extends DataSourceRegister
    with SupportsV1OverwriteWithSaveAsTable
    with CreatableRelationProvider {

  override def shortName(): String = "delta"

  override def inferSchema(options: CaseInsensitiveStringMap): StructType = new StructType

  override def getTable(schema: StructType, partitioning: Array[Transform], properties: util.Map[String, String]): Table = {
    val options = new CaseInsensitiveStringMap(properties)
    val session = SparkSession.active
    HeadwaterTable.load(
      session,
      HeadwaterDataSource.path(session, options.asScala.toMap),
      TableVersion(Option(options.get("versionAsOf")).map(HeadwaterDataSource.version(session, _)), HeadwaterDataSource.timestamp(options)))
  }

  /** `df.write.format("delta").save(path)` in every mode; the handler says whether that creates, replaces or adds. */
  override def createRelation(context: SQLContext, mode: SaveMode, parameters: Map[String, String], data: DataFrame): BaseRelation = {
    val session = context.sparkSession
    val path = HeadwaterDataSource.path(session, parameters)
    val partitioning = parameters.get(DataSourceUtils.PARTITIONING_COLUMNS_KEY).map(DataSourceUtils.decodePartitioningColumns).getOrElse(Nil)
    val plan = SparkInternals.logicalPlan(data)
    val statement = new StatementContext(session)
    val decision = Bridge.call(
      statement, "plan_save",
      "table" -> path,
      "mode" -> mode.name(),
      "schema" -> data.schema.json,
      "partitionColumns" -> partitioning,
      "options" -> parameters)
    decision.get("action").asText() match {
      case "create" =>
        Bridge.call(
          statement, "create_table",
          "table" -> path,
          "mode" -> decision.get("mode"),
          "external" -> true,
          "schema" -> data.schema.json,
          "partitionColumns" -> partitioning,
          "properties" -> Map.empty[String, String],
          "plan" -> statement.addPlan(plan),
          "rowSchema" -> data.schema.json,
          "operation" -> "WRITE",
          "saveMode" -> mode.name(),
          "options" -> parameters)
        SparkInternals.refreshCaches(session, path)
      case "write" =>
        val table = HeadwaterTable.load(session, path)
        val options = parameters + (ResolveHeadwaterWrites.OverwriteMode -> decision.get("write").asText())
        val matched = ResolveHeadwaterWrites.matchColumns(session, table, plan, options, byName = true)
        HeadwaterWrites.write(table, SparkInternals.ofRows(session, matched), options)
      case _ =>
    }
    new BaseRelation {
      override def sqlContext: SQLContext = context
      override def schema: StructType = data.schema
    }
  }
}

object HeadwaterDataSource {
  def path(session: SparkSession, options: Map[String, String]): String = {
    val location = options.collectFirst { case (key, value) if key.equalsIgnoreCase("path") => value }
      .getOrElse(throw refused(session, "missing_path", options))
    HeadwaterTable.path(session, location)
  }

  private def refused(session: SparkSession, name: String, request: Map[String, String]): Throwable =
    try { Bridge.call(new StatementContext(session), name, request.toSeq: _*); new IllegalStateException(name) }
    catch { case e: Throwable => e }

  private def version(session: SparkSession, text: String): Long =
    scala.util.Try(text.trim.toLong).getOrElse(throw refused(session, "invalid_version", Map("version" -> text)))

  private def timestamp(options: CaseInsensitiveStringMap): Option[String] = Option(options.get("timestampAsOf"))
}
