package headwater.spark.catalog

import headwater.spark.bridge.TableLocation
import headwater.spark.bridge.messages.TableDescription
import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.sql.connector.catalog.{Column, StagedTable}
import org.apache.spark.sql.connector.metric.CustomTaskMetric
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types.StructType

/**
 * A table that a statement creates or replaces. Rows written to it wait for the statement's commit: the definition and the rows are one
 * commit, or none.
 */
final class HeadwaterStagedTable(
    session: SparkSession,
    location: TableLocation,
    declared: StructType,
    partitions: Seq[String],
    commit: (Option[DataFrame], Map[String, String]) => Unit)
    extends HeadwaterTable(
      session,
      location.path,
      TableVersion.Latest,
      None,
      HeadwaterStagedTable.placeholder(location.path, declared, partitions),
      location.store)
    with StagedTable {

  private var rows: Option[DataFrame] = None
  private var options: Map[String, String] = Map.empty

  def stage(data: DataFrame, options: Map[String, String]): Unit = {
    rows = Some(data)
    this.options = options
  }

  /** The commit has its own. */
  override def reachedWith(options: Map[String, String]): HeadwaterTable = this

  override def columns(): Array[Column] = SparkInternals.columns(declared)

  override def reportDriverMetrics(): Array[CustomTaskMetric] = Array.empty

  override def commitStagedChanges(): Unit = commit(rows, options)

  override def abortStagedChanges(): Unit = {}
}

object HeadwaterStagedTable {
  private def placeholder(path: String, schema: StructType, partitions: Seq[String]): TableDescription = TableDescription(
    path = path,
    version = -1L,
    tableId = "",
    schema = schema.json,
    tableSchema = schema.json,
    partitionColumns = partitions,
    clusteringColumns = None,
    description = None,
    configuration = Map.empty,
    properties = Map.empty,
    columnMappingMode = "none",
    hasDeletionVectors = false,
    sizeInBytes = 0L,
    features = Nil,
    timeTravel = false,
    rowTrackingColumns = Nil,
    keys = Nil)
}
