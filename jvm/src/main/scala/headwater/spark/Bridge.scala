package headwater.spark

import java.util.concurrent.{CompletableFuture, CompletionException}

import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.JsonNode
import org.apache.spark.SparkConf
import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import py4j.Py4JException

/**
 * The one handler of this JVM: started beside Spark, restarted if it dies, called by every session and thread.
 *
 * A call whose handler dies is made once more, on a new handler, unless a commit had begun; then the new handler is asked whether that
 * commit is in the log, so that a statement either succeeded or failed, never half.
 */
object Bridge extends Logging {
  private var starting: CompletableFuture[HandlerProcess] = _

  /** Starts the handler in the background; cheap when it runs already. */
  def prepare(conf: SparkConf): Unit = synchronized {
    if (starting == null || (starting.isDone && (starting.isCompletedExceptionally || !starting.join().isAlive))) {
      val begun = new CompletableFuture[HandlerProcess]()
      val thread = new Thread(() =>
        try begun.complete(HandlerProcess.start(conf)) catch { case e: Throwable => begun.completeExceptionally(e) },
        "headwater-handler-start")
      thread.setDaemon(true)
      thread.start()
      starting = begun
    }
  }

  def pid(session: SparkSession): Long = running(session).pid

  private def running(session: SparkSession): HandlerProcess = {
    prepare(session.sparkContext.getConf)
    try synchronized(starting).join() catch { case e: CompletionException => throw e.getCause }
  }

  /** Calls the handler and returns its answer; an error of the handler's comes out as the Spark error it describes. */
  def call(context: StatementContext, name: String, request: (String, Any)*): JsonNode = {
    val text = Json.write((request :+ ("session" -> context.settings)).toMap)
    val answer = Json.parse(callOnce(context, name, text))
    if (answer.has("error")) {
      val failure = context.takeFailure()
      throw failure.flatMap(HeadwaterException.find)
        .getOrElse(failure.filter(_ => answer.get("error").path("jvm").asBoolean()).getOrElse(HeadwaterException.fromJson(answer.get("error"))))
    }
    answer.get("result")
  }

  private def callOnce(context: StatementContext, name: String, request: String): String = {
    val process = running(context.session)
    try process.handler.call(name, request, context)
    catch {
      case e: Py4JException =>
        if (process.isAlive) {
          // Give a process that was just killed a moment to be seen as dead.
          Thread.sleep(200)
        }
        if (process.isAlive) throw unexpected(e)
        logWarning(s"The handler process ${process.pid} ended during '$name'; starting another.", e)
        process.stop()
        again(context, name, request)
    }
  }

  private def again(context: StatementContext, name: String, request: String): String = {
    val handler = running(context.session).handler
    try {
      context.commitBegun match {
        case Some(commit) => handler.call("recover_commit", commit, context)
        case None => handler.call(name, request, context)
      }
    } catch { case e: Py4JException => throw unexpected(e) }
  }

  private def unexpected(e: Throwable): Throwable = {
    logError("A call of the handler process failed", e)
    new HeadwaterException(
      "DELTA_INTERNAL_ERROR",
      "XX000",
      "The handler process stopped answering. The statement's effect, if any, shows in DESCRIBE HISTORY; run it again if it is not there. " +
        "Spark's log has the details.",
      Map.empty)
  }
}
