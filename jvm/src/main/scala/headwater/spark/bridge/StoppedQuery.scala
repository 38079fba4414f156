package headwater.spark.bridge

import java.io.{PrintStream, PrintWriter}

import headwater.spark.HeadwaterException
import org.apache.spark.sql.headwater.streaming.StreamBatch

/**
 * Statements of a streaming query: those of its source and sink, and those that its `foreachBatch` runs. A query that is stopped ends
 * without an error only if what it is in ends as an interrupted thread does.
 */
private object StoppedQuery {
  private val Interrupted = Set("HEADWATER_STATEMENT_CANCELLED", "HEADWATER_STATEMENT_CANCELLED_HALFWAY", "HEADWATER_COMMIT_MAY_STAND")

  def within[A](context: StatementContext)(work: => A): A =
    try work
    catch {
      case e: HeadwaterException if Interrupted(e.getCondition) && context.isCancelled && StreamBatch.queryId(context.session) != null =>
        throw new Stopped(e)
    }

  /**
   * Prints as one line, whatever stack traces Spark adds. Of a `foreachBatch` in Python, Spark gets the printed text, and searches it for
   * the name of the exception with a regular expression that overflows the stack on some thousand characters.
   */
  private class Stopped(error: HeadwaterException) extends InterruptedException(error.getMessage) {
    initCause(error)
    override def fillInStackTrace(): Throwable = this
    override def setStackTrace(trace: Array[StackTraceElement]): Unit = ()
    override def toString: String = s"${classOf[InterruptedException].getName}: $getMessage"
    override def printStackTrace(to: PrintWriter): Unit = to.println(this)
    override def printStackTrace(to: PrintStream): Unit = to.println(this)
  }
}
