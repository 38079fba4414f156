package headwater.spark.scan

import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.connector.read.streaming.SparkDataStream
import org.apache.spark.sql.execution.{FileSourceScanExec, SQLExecution}
import org.apache.spark.sql.execution.datasources.HadoopFsRelation
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.collection.BitSet

/** Spark's scan with one more metric, which shows what [[PruneFilesByKeys]] did. */
final class DynamicallyPrunedScan(
    files: HadoopFsRelation,
    source: Option[SparkDataStream],
    columns: Seq[Attribute],
    schemaRead: StructType,
    filtersOfPartitions: Seq[Expression],
    buckets: Option[BitSet],
    coalescedBuckets: Option[Int],
    filtersOfData: Seq[Expression],
    table: Option[TableIdentifier],
    unbucketed: Boolean)
    extends FileSourceScanExec(
      files,
      source,
      columns,
      schemaRead,
      filtersOfPartitions,
      buckets,
      coalescedBuckets,
      filtersOfData,
      table,
      unbucketed) {

  @transient private lazy val filesPruned: SQLMetric = SQLMetrics.createMetric(sparkContext, "number of files pruned")

  override def metrics: Map[String, SQLMetric] = super.metrics + ("numFilesPruned" -> filesPruned)

  override protected def sendDriverMetrics(): Unit = {
    filesPruned.set(relation.location.asInstanceOf[HeadwaterFileIndex].prunedByKeys)
    SQLMetrics.postDriverMetricUpdates(sparkContext, sparkContext.getLocalProperty(SQLExecution.EXECUTION_ID_KEY), Seq(filesPruned))
    super.sendDriverMetrics()
  }
}
