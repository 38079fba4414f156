package headwater.spark.bridge

import java.util.concurrent.{CompletableFuture, ExecutionException, TimeoutException, TimeUnit}

import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.JsonNode
import headwater.spark.HeadwaterException
import headwater.spark.bridge.messages.{BegunCommit, Envelope, ErrorDescription, FinishMaintenanceRequest, MadeCommit, RecoverCommitRequest}
import headwater.spark.bridge.wire.{Call, FromJson}
import headwater.spark.catalog.TableEntry
import org.apache.spark.SparkConf
import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import py4j.Py4JException

/**
 * The one handler process of this JVM: started beside Spark, restarted when it dies, called by every session and thread.
 *
 * If the handler dies during a call, the call is made once more on a new handler, unless a commit had begun. In that case the new handler
 * checks whether the commit is in the log: a statement succeeds or fails, never half. A cancelled statement ends within two seconds
 * ([[Cancellations]]).
 */
object Bridge extends Logging {
  private var starting: CompletableFuture[HandlerProcess] = _
  private var startedWith = Map.empty[String, String]

  /** How long it may take until this process sees that a killed one is dead. */
  private val DeathIsSeenMilliseconds = 2000L

  /** How long a cancelled statement waits to learn whether its commit is in the log. */
  private val FoundWithinMilliseconds = 400L

  /** How many handlers, each dying in turn, are asked whether a commit is in the log. */
  private val MostAsked = 5

  private val MayStand = "HEADWATER_COMMIT_MAY_STAND"
  private val OutcomeUnknown = Set(MayStand, "HEADWATER_COMMIT_OUTCOME_UNKNOWN")

  /**
   * Starts the handler in the background, unless it runs already. One that another Spark of this JVM has left makes way if that Spark was
   * started with other settings, as a notebook's is that stops Spark and starts it again.
   */
  def prepare(conf: SparkConf): Unit = synchronized {
    if (starting != null && startedWith != HandlerProcess.settings(conf)) {
      val left = starting
      starting = null
      inBackground("headwater-handler-end")(finish(left))
    }
    started(conf)
  }

  private val LongestMaintenanceMilliseconds = 35000L

  // Post-commit maintenance: a short-lived application would otherwise never write the checkpoints that its commits are due.
  sys.addShutdownHook {
    alive.foreach { running =>
      val asking = new Thread(
        () =>
          try running.call(FinishMaintenanceRequest())
          catch { case NonFatal(_) => },
        "headwater-maintenance")
      asking.setDaemon(true)
      asking.start()
      // The handler has a time limit of its own; a handler that no longer answers must not keep the JVM from ending.
      asking.join(LongestMaintenanceMilliseconds)
    }
  }

  /** The handler process, if it has started and lives. */
  private def alive: Option[HandlerProcess] =
    synchronized(Option(starting)).filter(_.isDone).filterNot(_.isCompletedExceptionally).map(_.join()).filter(_.isAlive)

  /** `conf` is a copy of Spark's, which is only made to start the handler. */
  private def started(conf: => SparkConf): CompletableFuture[HandlerProcess] = synchronized {
    if (starting == null || (starting.isDone && (starting.isCompletedExceptionally || !starting.join().isAlive))) {
      val begun = new CompletableFuture[HandlerProcess]()
      val settings = conf
      startedWith = HandlerProcess.settings(settings)
      val work: Runnable = () =>
        try begun.complete(HandlerProcess.start(settings))
        catch { case e: Throwable => begun.completeExceptionally(e) }
      inBackground("headwater-handler-start")(work.run())
      starting = begun
    }
    starting
  }

  /**
   * This thread and the connection's outlive the statement that starts them, so they must not inherit anything of its session. As daemons
   * they do not keep the JVM alive.
   */
  private def inBackground(name: String)(work: => Unit): Unit = {
    val thread = new Thread(null, () => work, name, 0, false)
    thread.setContextClassLoader(getClass.getClassLoader)
    thread.setDaemon(true)
    thread.start()
  }

  private def finish(left: CompletableFuture[HandlerProcess]): Unit =
    try {
      val process = left.get()
      try process.call(FinishMaintenanceRequest())
      finally process.stop()
    } catch { case NonFatal(_) => }

  /** The answer to a request that belongs to no statement; none if no handler runs. */
  def ask[A](request: Call[A]): Option[A] = alive.map(_.ask(request))

  def pid(session: SparkSession): Long = running(session).pid

  private def running(session: SparkSession): HandlerProcess =
    try started(session.sparkContext.getConf).get()
    catch { case e: ExecutionException => throw e.getCause }

  /** As the other `call`, for a request that has no plans, and whose handler runs none. `locations` are those of the tables in it. */
  def call[A](session: SparkSession, request: Call[A], locations: TableLocation*): A =
    call(new StatementContext(session, locations: _*), request)

  /** Calls the handler and returns its answer. Throws the Spark error that the handler's error describes. */
  def call[A](context: StatementContext, request: Call[A]): A = StoppedQuery.within(context)(answered(context, request))

  private def answered[A](context: StatementContext, request: Call[A]): A = {
    val text = Json.write(Envelope(context.settings, request))
    context.callBegins()
    val answer = try callOnce(context, request.call, text)
    catch {
      case e @ (_: Py4JException | _: InterruptedException) =>
        context.cancel()
        foundInLog(context).getOrElse(throw cancelled(context, e))
    }
    val error = answer.get("error")
    if (error != null) {
      val described = ErrorDescription.fromJson.read(error)
      // An error means that nothing was committed, except for those that say it is not known.
      if (!OutcomeUnknown.contains(described.condition) && context.endedByInterruption) context.commitNotMade()
      if (context.commitBegun.isEmpty) {
        context.discardWritten()
        if (context.endedByInterruption) throw cancelled(context, context.failure.orNull)
      }
      throw context.failure.getOrElse(HeadwaterException.of(described))
    }
    if (context.isCancelled) context.commitBegun.foreach { commit =>
      logWarning(s"The statement was cancelled after it had committed version ${commit.version} of ${commit.table}.")
    }
    context.outdated.foreach(TableEntry.follow(context.session, _))
    Option(answer.get("made")).foreach(made => NotedCommit.note(context, FromJson.seq[MadeCommit].read(made)))
    request.answer.read(answer.get("result"))
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
          // The process lives and may go on with the statement, though nobody waits for it. It may not begin a commit any more.
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
   * The answer of a call that had begun its commit: the log shows whether the commit was made. A handler that dies while it looks, or while
   * it starts, is replaced. If none answers, the outcome stays unknown, and the error says so.
   */
  private def settle(context: StatementContext, commit: BegunCommit): JsonNode = {
    val request = recovery(context, commit)
    var reason = "the handler process ended"
    var answer: Option[JsonNode] = None
    var asked = 0
    while (answer.isEmpty && asked < MostAsked) {
      asked += 1
      try {
        val process = running(context.session)
        try answer = Some(process.call("recover_commit", request, context))
        catch {
          case e: Py4JException if !context.isCancelled || process.endsWithin(0) =>
            logDebug(s"the handler process ${process.pid} did not say what became of a commit", e)
            if (process.endsWithin(DeathIsSeenMilliseconds)) process.stop()
        }
      } catch { case e: HeadwaterException => reason = e.getMessage }
    }
    if (answer.exists(_.path("error").path("condition").asText() == "DELTA_COMMIT_NOT_MADE")) context.commitNotMade()
    answer.getOrElse(throw maybeCommitted(commit, reason))
  }

  /** The answer of a cancelled call whose commit is in the log; none if that cannot be found out within [[FoundWithinMilliseconds]]. */
  private def foundInLog(context: StatementContext): Option[JsonNode] = context.commitBegun.flatMap { commit =>
    Thread.interrupted()
    val found = new CompletableFuture[JsonNode]()
    val asking: Runnable = () =>
      try found.complete(running(context.session).call("recover_commit", recovery(context, commit), context.another))
      catch { case e: Throwable => found.completeExceptionally(e) }
    val thread = new Thread(null, asking, "headwater-recovery", 0, false)
    thread.setContextClassLoader(getClass.getClassLoader)
    thread.setDaemon(true)
    thread.start()
    try Some(found.get(FoundWithinMilliseconds, TimeUnit.MILLISECONDS)).filter(_.get("error") == null)
    catch {
      case _: TimeoutException | _: ExecutionException | _: InterruptedException =>
        thread.interrupt()
        None
    }
  }

  private def recovery(context: StatementContext, commit: BegunCommit): String =
    Json.write(Envelope(context.settings, RecoverCommitRequest(commit)))

  /** The error of a cancelled call: nothing is committed, or the version that the error names may be. */
  private def cancelled(context: StatementContext, cause: Throwable): Throwable = {
    logDebug("a statement was cancelled", cause)
    Thread.interrupted()
    context.commitBegun match {
      case Some(commit) =>
        val open = maybeCommitted(commit, "the statement was cancelled")
        logWarning(open.getMessage) // Spark Connect only tells its clients that the statement was cancelled
        open
      case None =>
        context.discardWritten()
        HeadwaterException(if (context.isHalfDone) "HEADWATER_STATEMENT_CANCELLED_HALFWAY" else "HEADWATER_STATEMENT_CANCELLED")
    }
  }

  private def maybeCommitted(commit: BegunCommit, reason: String): HeadwaterException = HeadwaterException(
    MayStand,
    "version" -> commit.version.toString,
    "tableLocation" -> commit.table,
    "path" -> commit.path,
    "txnId" -> commit.txnId,
    "reason" -> reason)

  private def lost(name: String): Throwable = {
    logError(s"The handler process did not answer '$name'.")
    HeadwaterException("HEADWATER_HANDLER_LOST", "call" -> name)
  }
}
