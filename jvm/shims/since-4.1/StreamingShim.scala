package headwater.spark.shims

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.streaming.runtime

/** What Spark's streaming has in packages that differ between Sparks. */
object StreamingShim {
  type StreamingRelation = runtime.StreamingRelation

  /** The local property of a job that has its query's id. */
  val QueryId: String = runtime.StreamExecution.QUERY_ID_KEY

  /** Spark's check of a streaming query that is to start. */
  def checked(starting: LogicalPlan): LogicalPlan = runtime.ResolveWriteToStream(starting)
}
