package headwater.spark.streaming

import headwater.spark.HeadwaterException
import headwater.spark.bridge.{Bridge, StatementContext}
import headwater.spark.bridge.messages.Call
import org.apache.spark.sql.SparkSession

/** Calls of a stream. A query that is stopped ends without an error only if what it is in ends as an interrupted thread does. */
object StoppedQuery {
  private val Interrupted = Set("HEADWATER_STATEMENT_CANCELLED", "HEADWATER_COMMIT_MAY_STAND")

  def call[A](session: SparkSession, request: Call[A]): A = {
    val context = new StatementContext(session)
    within(context)(Bridge.call(context, request))
  }

  def within[A](context: StatementContext)(work: => A): A =
    try work
    catch { case e: HeadwaterException if Interrupted(e.getCondition) && context.isCancelled =>
      throw new InterruptedException(e.getMessage).initCause(e)
    }
}
