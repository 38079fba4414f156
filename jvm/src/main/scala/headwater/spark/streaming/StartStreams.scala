package headwater.spark.streaming

import headwater.spark.DeltaDataSource
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.headwater.streaming.StreamBatch

/**
 * A streaming query starts: its sources learn which columns it was analysed with, and the table that `toTable` has planned is created once
 * Spark has nothing against the query. For that, Spark's check is made here, a little earlier than Spark makes it.
 */
case class StartStreams(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case StreamBatch.Starting(sink, name) =>
      val told = StreamBatch.withEventTimes(StreamBatch.withAnalysedColumns(plan, classOf[DeltaDataSource]), classOf[DeltaDataSource])
      sink match {
        case ours: HeadwaterSink =>
          val checked = StreamBatch.checked(told)
          if (!StreamBatch.isActive(session, name, checked)) ours.createPlanned()
          checked
        case _ => told
      }
    case _ => plan
  }
}
