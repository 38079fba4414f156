package headwater.spark.bridge

import headwater.spark.HeadwaterException
import org.apache.spark.sql.headwater.streaming.StreamBatch

/**
 * Statements of a streaming query: those of its source and sink, and those that its `foreachBatch` runs. A query that is stopped ends without an
 * error only if what it is in ends as an interrupted thread does.
 */
private object StoppedQuery {
  private val Interrupted = Set("HEADWATER_STATEMENT_CANCELLED", "HEADWATER_STATEMENT_CANCELLED_HALFWAY", "HEADWATER_COMMIT_MAY_STAND")

  def within[A](context: StatementContext)(work: => A): A =
    try work
    catch { case e: HeadwaterException if Interrupted(e.getCondition) && context.isCancelled && StreamBatch.queryId(context.session) != null =>
      throw new InterruptedException(e.getMessage).initCause(e)
    }
}
