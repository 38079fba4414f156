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

  /** How long a process that was just killed may take to be seen as dead by this one. */
  private val DeathIsSeenMilliseconds = 2000L

  /** Starts the handler in the background; cheap when it runs already. */
  def prepare(conf: SparkConf): Unit = started(conf)

  private val LongestUpkeepMilliseconds = 35000L

  // A short-lived application would otherwise never get to write the checkpoints its commits are due.
  sys.addShutdownHook {
    val process = synchronized(Option(starting)).filter(_.isDone).filterNot(_.isCompletedExceptionally).map(_.join())
    process.filter(_.isAlive).foreach { running =>
      val asking = new Thread(() => try running.handler.call("finish_upkeep", "{}", null) catch { case NonFatal(_) => }, "headwater-upkeep")
      asking.setDaemon(true)
      asking.start()
      // The handler has a limit of its own; one that no longer answers must not hold the JVM up either.
      asking.join(LongestUpkeepMilliseconds)
    }
  }

  private def started(conf: SparkConf): CompletableFuture[HandlerProcess] = synchronized {
    if (starting == null || (starting.isDone && (starting.isCompletedExceptionally || !starting.join().isAlive))) {
      val begun = new CompletableFuture[HandlerProcess]()
      val work: Runnable = () =>
        try begun.complete(HandlerProcess.start(conf)) catch { case e: Throwable => begun.completeExceptionally(e) }
      // The thread and those the connection makes outlive the statement they start in: nothing of its session may stick to them. As
      // daemons they keep no JVM alive.
      val thread = new Thread(null, work, "headwater-handler-start", 0, false)
      thread.setContextClassLoader(getClass.getClassLoader)
      thread.setDaemon(true)
      thread.start()
      starting = begun
    }
    starting
  }

  def pid(session: SparkSession): Long = running(session).pid

  private def running(session: SparkSession): HandlerProcess =
    try started(session.sparkContext.getConf).join() catch { case e: CompletionException => throw e.getCause }

  /** Calls the handler and returns its answer; an error of the handler's comes out as the Spark error it describes. */
  def call(context: StatementContext, name: String, request: (String, Any)*): JsonNode = {
    val text = Json.write((request :+ ("session" -> context.settings)).toMap)
    context.callBegins()
    val answer = Json.parse(callOnce(context, name, text))
    val error = answer.get("error")
    if (error != null) {
      if (context.commitBegun.isEmpty) context.discardWritten()
      throw context.failure.getOrElse(HeadwaterException.fromJson(error))
    }
    answer.get("result")
  }

  private def callOnce(context: StatementContext, name: String, request: String): String = {
    val process = running(context.session)
    try process.handler.call(name, request, context)
    catch {
      case e: Py4JException =>
        logDebug(s"'$name' got no answer from the handler process ${process.pid}", e)
        if (!process.endsWithin(DeathIsSeenMilliseconds)) throw lost(name)
        logWarning(s"The handler process ${process.pid} ended during '$name'; starting another.")
        process.stop()
        again(context, name, request)
    }
  }

  private def again(context: StatementContext, name: String, request: String): String = {
    val handler = running(context.session).handler
    try {
      context.commitBegun match {
        case Some(commit) =>
          val answer = handler.call("recover_commit", commit, context)
          if (Json.parse(answer).path("error").path("condition").asText() == "DELTA_COMMIT_NOT_MADE") context.commitNotMade()
          answer
        case None =>
          context.discardWritten()
          context.callBegins()
          handler.call(name, request, context)
      }
    } catch {
      case e: Py4JException =>
        logDebug(s"'$name' got no answer from the second handler process either", e)
        throw lost(name)
    }
  }

  private def lost(name: String): Throwable = {
    logError(s"The handler process did not answer '$name'.")
    HeadwaterException("HEADWATER_HANDLER_LOST", "call" -> name)
  }
}
