package headwater.spark.bridge

import java.security.PrivilegedExceptionAction
import java.util.concurrent.{Executors, ExecutorService, ThreadFactory, TimeUnit}

import scala.collection.mutable
import scala.util.control.NonFatal

import headwater.spark.bridge.messages.AutoCompactRequest
import org.apache.hadoop.security.UserGroupInformation
import org.apache.hadoop.util.ShutdownHookManager
import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.headwater.SparkInternals

/**
 * Compacts tables after the commits that made it due, on daemon threads. No statement waits for it, and a failure is a warning in the log.
 *
 * Each table is compacted by one thread at a time; of the commits that come meanwhile, the latest makes it run once more. The session is a
 * clone of the one that committed, made at the commit: what is set in the one later does not count. The user is the same. The jobs end with
 * the SparkContext, which cannot be held up once it is told to stop, or when their job group is cancelled; the log says so, and what was
 * written is deleted. A JVM that ends normally waits for those that run.
 */
object AutoCompactions extends Logging {
  /** The job group, by which an application can cancel these jobs. */
  val JobGroup = "headwater auto-compaction"

  private val MostThreads = 2
  private val LongestAtTheEndSeconds = 30L
  /** Runs before Spark's own hook, of priority 40 in Hadoop's order, which stops the SparkContext. */
  private val BeforeSparkStops = 100

  /** A session that nothing else uses, and the user that it acts for. */
  private final case class Due(session: SparkSession, user: UserGroupInformation, location: TableLocation)

  /** By table: what is to run after that which runs now. A table is in here as long as a thread has it. */
  private val next = mutable.HashMap.empty[String, Option[Due]]
  private var isEnding = false

  private lazy val threads: ExecutorService = {
    val made: ThreadFactory = work => {
      // The threads outlive the statements that start them, so they must not inherit anything of their sessions.
      val thread = new Thread(null, work, "headwater-auto-compaction", 0, false)
      thread.setContextClassLoader(getClass.getClassLoader)
      thread.setDaemon(true)
      thread
    }
    ShutdownHookManager.get().addShutdownHook(() => finish(), BeforeSparkStops, LongestAtTheEndSeconds + 5, TimeUnit.SECONDS)
    Executors.newFixedThreadPool(MostThreads, made)
  }

  /** Has a table compacted soon. Returns at once. */
  def submit(session: SparkSession, location: TableLocation): Unit = {
    val table = location.path
    val due = Due(SparkInternals.cloned(session), UserGroupInformation.getCurrentUser, location)
    synchronized {
      if (!isEnding) {
        val isIdle = !next.contains(table)
        next(table) = Some(due)
        if (isIdle) threads.execute(() => drain(table))
      }
    }
  }

  private def drain(table: String): Unit = {
    var due = take(table)
    while (due.isDefined) {
      due.foreach(compact(table, _))
      due = take(table)
    }
  }

  private def take(table: String): Option[Due] = synchronized {
    val due = next(table).filterNot(_ => isEnding)
    if (due.isDefined) next(table) = None else { next.remove(table); notifyAll() }
    due
  }

  private def compact(table: String, due: Due): Unit = {
    val context = due.session.sparkContext
    try due.user.doAs(new PrivilegedExceptionAction[Unit] {
        override def run(): Unit = {
          if (context.isStopped) throw new InterruptedException("it has not begun")
          context.setJobGroup(JobGroup, s"compact $table", interruptOnCancel = true)
          SparkInternals.active(due.session)(Bridge.call(due.session, AutoCompactRequest(table), due.location))
        }
      })
    catch {
      case e @ (NonFatal(_) | _: InterruptedException) =>
        val why =
          if (context.isStopped) "Spark was stopped, so its auto-compaction ends as well" else s"auto-compaction failed (${e.getMessage})"
        logWarning(s"$table: $why; the table is as it was, and a later commit makes it due again")
        logDebug("auto-compaction", e)
    }
  }

  /** Waits for the compactions that run, and begins no other. */
  private def finish(): Unit = synchronized {
    isEnding = true
    val until = System.nanoTime() + TimeUnit.SECONDS.toNanos(LongestAtTheEndSeconds)
    var left = until - System.nanoTime()
    while (next.nonEmpty && left > 0) {
      wait(math.max(1L, TimeUnit.NANOSECONDS.toMillis(left)))
      left = until - System.nanoTime()
    }
  }
}
