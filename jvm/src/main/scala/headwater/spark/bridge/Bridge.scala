package headwater.spark.bridge

import java.util.concurrent.{CompletableFuture, ExecutionException, TimeoutException, TimeUnit}

import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.JsonNode
import headwater.spark.HeadwaterException
import org.apache.spark.SparkConf
import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import py4j.Py4JException

/**
 * The one handler of this JVM: started beside Spark, restarted if it dies, called by every session and thread.
 *
 * A call whose handler dies is made once more, on a new handler, unless a commit had begun; then the new handler is asked whether that
 * commit is in the log, so that a statement either succeeded or failed, never half. A statement that is cancelled ends within two seconds
 * ([[Cancellations]]).
 */
object Bridge extends Logging {
  private var starting: CompletableFuture[HandlerProcess] = _

  /** How long a process that was just killed may take to be seen as dead by this one. */
  private val DeathIsSeenMilliseconds = 2000L

  /** How long a cancelled statement asks what became of its commit. */
  private val FoundWithinMilliseconds = 400L

  /** So many handlers are asked, one after the other dying, what became of a commit. */
  private val MostAsked = 5

  private val MayStand = "HEADWATER_COMMIT_MAY_STAND"
  private val OutcomeUnknown = Set(MayStand, "HEADWATER_COMMIT_OUTCOME_UNKNOWN")

  /** Starts the handler in the background; cheap when it runs already. */
  def prepare(conf: SparkConf): Unit = started(conf)

  private val LongestUpkeepMilliseconds = 35000L

  // A short-lived application would otherwise never get to write the checkpoints its commits are due.
  sys.addShutdownHook {
    val process = synchronized(Option(starting)).filter(_.isDone).filterNot(_.isCompletedExceptionally).map(_.join())
    process.filter(_.isAlive).foreach { running =>
      val asking = new Thread(() => try running.call("finish_upkeep") catch { case NonFatal(_) => }, "headwater-upkeep")
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
    try started(session.sparkContext.getConf).get() catch { case e: ExecutionException => throw e.getCause }

  /** Calls the handler and returns its answer; an error of the handler's comes out as the Spark error it describes. */
  def call(context: StatementContext, name: String, request: (String, Any)*): JsonNode = {
    val text = Json.write((request :+ ("session" -> context.settings)).toMap)
    context.callBegins()
    val answer = try callOnce(context, name, text) catch {
      case e @ (_: Py4JException | _: InterruptedException) =>
        context.cancel()
        foundInLog(context).getOrElse(throw cancelled(context, e))
    }
    val error = answer.get("error")
    if (error != null) {
      val condition = error.path("condition").asText()
      // An error is the handler's word that nothing was committed, but for those that say it does not know.
      if (!OutcomeUnknown.contains(condition) && context.endedByInterruption) context.commitNotMade()
      if (context.commitBegun.isEmpty) {
        context.discardWritten()
        if (context.endedByInterruption) throw cancelled(context, context.failure.orNull)
      }
      throw context.failure.getOrElse(HeadwaterException.fromJson(error))
    }
    if (context.isCancelled) context.commitBegun.foreach { commit =>
      val named = Json.parse(commit)
      logWarning(s"The statement was cancelled after it had committed version ${named.get("version").asText()} of ${named.get("table").asText()}.")
    }
    answer.get("result")
  }

  private def callOnce(context: StatementContext, name: String, request: String): JsonNode = {
    val process = running(context.session)
    try process.call(name, request, context)
    catch {
      case e: Py4JException if !context.isCancelled =>
        logDebug(s"'$name' got no answer from the handler process ${process.pid}", e)
        if (process.endsWithin(DeathIsSeenMilliseconds)) {
          logWarning(s"The handler process ${process.pid} ended during '$name'; starting another.")
          process.stop()
          again(context, name, request)
        } else {
          // It may go on with the statement, though nobody waits for it: it may begin no commit from here on.
          context.refuseMore()
          context.commitBegun.map(settle(context, _)).getOrElse(throw lost(name))
        }
    }
  }

  private def again(context: StatementContext, name: String, request: String): JsonNode = context.commitBegun match {
    case Some(commit) => settle(context, commit)
    case None =>
      context.discardWritten()
      context.callBegins()
      val process = running(context.session)
      try process.call(name, request, context)
      catch {
        case e: Py4JException if !context.isCancelled =>
          logDebug(s"'$name' got no answer from the second handler process either", e)
          context.refuseMore()
          if (process.endsWithin(DeathIsSeenMilliseconds)) process.stop()
          context.commitBegun.map(settle(context, _)).getOrElse(throw lost(name))
      }
  }

  /**
   * The answer of a call that got as far as its commit: what the log says became of that. A handler that dies over the question is replaced,
   * as is one that dies while it starts; one that never answers leaves the outcome open, and the error says so.
   */
  private def settle(context: StatementContext, commit: String): JsonNode = {
    val request = recovery(context, commit)
    var reason = "the handler process ended"
    var answer: Option[JsonNode] = None
    var asked = 0
    while (answer.isEmpty && asked < MostAsked) {
      asked += 1
      try {
        val process = running(context.session)
        try answer = Some(process.call("recover_commit", request, context))
        catch { case e: Py4JException if !context.isCancelled || process.endsWithin(0) =>
          logDebug(s"the handler process ${process.pid} did not say what became of a commit", e)
          if (process.endsWithin(DeathIsSeenMilliseconds)) process.stop()
        }
      } catch { case e: HeadwaterException => reason = e.getMessage }
    }
    if (answer.exists(_.path("error").path("condition").asText() == "DELTA_COMMIT_NOT_MADE")) context.commitNotMade()
    answer.getOrElse(throw maybeCommitted(commit, reason))
  }

  /** The answer of a cancelled call that got as far as its commit, where that is in the log; found out in no time, or not at all. */
  private def foundInLog(context: StatementContext): Option[JsonNode] = context.commitBegun.flatMap { commit =>
    Thread.interrupted()
    val found = new CompletableFuture[JsonNode]()
    val asking: Runnable = () => try found.complete(running(context.session).call("recover_commit", recovery(context, commit), new StatementContext(context.session)))
    catch { case e: Throwable => found.completeExceptionally(e) }
    val thread = new Thread(null, asking, "headwater-recovery", 0, false)
    thread.setContextClassLoader(getClass.getClassLoader)
    thread.setDaemon(true)
    thread.start()
    try Some(found.get(FoundWithinMilliseconds, TimeUnit.MILLISECONDS)).filter(_.get("error") == null)
    catch { case _: TimeoutException | _: ExecutionException | _: InterruptedException =>
      thread.interrupt()
      None
    }
  }

  private def recovery(context: StatementContext, commit: String): String =
    Json.write(Map[String, Any]("commit" -> Json.parse(commit), "session" -> context.settings))

  /** The error of a call that was cancelled: nothing is committed, or a version that the error names may be. */
  private def cancelled(context: StatementContext, cause: Throwable): Throwable = {
    logDebug("a statement was cancelled", cause)
    Thread.interrupted()
    context.commitBegun match {
      case Some(commit) =>
        val open = maybeCommitted(commit, "the statement was cancelled")
        logWarning(open.getMessage) // Spark Connect shows its clients no more than that the statement was cancelled
        open
      case None =>
        context.discardWritten()
        HeadwaterException("HEADWATER_STATEMENT_CANCELLED")
    }
  }

  private def maybeCommitted(commit: String, reason: String): HeadwaterException = {
    val named = Json.parse(commit)
    HeadwaterException(
      MayStand, "version" -> named.get("version").asText(), "tableLocation" -> named.get("table").asText(),
      "path" -> named.get("path").asText(), "txnId" -> named.get("txnId").asText(), "reason" -> reason)
  }

  private def lost(name: String): Throwable = {
    logError(s"The handler process did not answer '$name'.")
    HeadwaterException("HEADWATER_HANDLER_LOST", "call" -> name)
  }
}
