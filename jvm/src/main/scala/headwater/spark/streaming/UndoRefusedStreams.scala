package headwater.spark.streaming

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.headwater.streaming.StreamBatch

/** Makes Spark's check of a query that writes to a table a little earlier than Spark does, so that the sink sees that it is refused. */
case class UndoRefusedStreams(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case StreamBatch.Starting(sink: HeadwaterSink, name) =>
      // Spark refuses a second query of one name after all rules.
      if (name.exists(StreamBatch.isActive(session, _))) sink.refused(session)
      try StreamBatch.checked(plan) catch { case e: Throwable => sink.refused(session); throw e }
    case _ => plan
  }
}
