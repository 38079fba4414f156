package headwater.spark.streaming

import headwater.spark.bridge.{Bridge, SchemaText, StatementContext, TableLocation}
import headwater.spark.bridge.messages.{CheckSinkRequest, PlanBatchRequest, SinkBatch, SinkSettings, WriteBatchRequest}
import headwater.spark.scan.tables.HeadwaterFileIndex
import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.streaming.Sink
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.headwater.streaming.StreamBatch

/**
 * `writeStream.format("delta")`: hands each micro-batch to the handler, which writes and commits it once.
 *
 * @param planned the table that is to be created when the query starts
 */
final class HeadwaterSink private (location: TableLocation, settings: SinkSettings, planned: Option[PlannedTable]) extends Sink {
  override def toString: String = s"delta[${settings.table}]"

  override def addBatch(batchId: Long, data: DataFrame): Unit = {
    createPlanned()
    val context = new StatementContext(data.sparkSession, location)
    try addBatch(context, batchId, data)
    finally context.close()
  }

  private def addBatch(context: StatementContext, batchId: Long, data: DataFrame): Unit = {
    val session = data.sparkSession
    val batch = SinkBatch(settings, StreamBatch.queryId(session), batchId, SparkInternals.rowSchema(data.schema))
    val plan = Bridge.call(context, PlanBatchRequest(batch))
    if (!plan.skipped) {
      val rows = StreamBatch.rows(data)
      val matched = plan.columns.map(matching(session, rows, _)).getOrElse(rows)
      Bridge.call(
        context,
        WriteBatchRequest(
          batch = batch,
          plan = context.addPlan(matched),
          schema = SparkInternals.rowSchema(matched.schema),
          version = plan.version,
          tableId = plan.tableId,
          readsTable = HeadwaterFileIndex.isReadIn(SparkInternals.logicalPlan(data), settings.table, plan.tableId.getOrElse(""))))
      SparkInternals.refreshCaches(session, location)
    }
  }

  private def matching(session: SparkSession, rows: LogicalPlan, columns: String): LogicalPlan = {
    val expected = SparkInternals.attributes(SchemaText.read(columns))
    SparkInternals.analyzed(
      session,
      SparkInternals.resolveOutput(session, s"delta.`${settings.table}`", expected, rows, byName = true, casts = true))
  }

  def createPlanned(): Unit = planned.foreach(_.create(settings.options))
}

object HeadwaterSink {
  /** Throws the handler's error for a query that it refuses. */
  def apply(session: SparkSession, location: TableLocation, settings: SinkSettings): HeadwaterSink = {
    val sink = new HeadwaterSink(location, settings, PlannedTable.take(settings.table))
    Bridge.call(session, CheckSinkRequest(settings), location)
    sink
  }
}
