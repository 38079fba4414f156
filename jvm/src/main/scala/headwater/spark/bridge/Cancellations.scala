package headwater.spark.bridge

import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.hadoop.hive.common.{HiveInterruptCallback, HiveInterruptUtils}

/**
 * Ends calls of the handler that are cancelled.
 *
 * The thread that calls reads a socket, and an interruption does not end that. So one thread watches those that call: a statement whose
 * thread is interrupted may begin no commit from then on, and gets a moment to end by itself. Then its connection is closed, which ends the
 * read. What the handler still does for it, it does in vain: all that it would call back is refused.
 */
private[spark] object Cancellations {
  /** How often threads are looked at. */
  private val PauseMilliseconds = 50L
  /** For the statement's own end: its job's, or that of the call that was interrupted on this side. */
  private val Grace = TimeUnit.MILLISECONDS.toNanos(500)
  /** For a commit that had begun: what becomes of it is worth some time. */
  private val GraceOfCommit = TimeUnit.MILLISECONDS.toNanos(1200)

  private final class Watched(val context: StatementContext, val thread: Thread, val giveUp: () => Unit) {
    @volatile var asked = false
    private var since = 0L

    def look(now: Long): Unit = if (asked || thread.isInterrupted || context.isCancelled) {
      if (since == 0L) {
        since = now
        context.cancel()
      }
      if (now - since > (if (context.commitBegun.isEmpty) Grace else GraceOfCommit)) giveUp()
    }
  }

  private val watched = ConcurrentHashMap.newKeySet[Watched]()

  private lazy val watcher = {
    try ControlC.register() catch { case _: LinkageError => }
    val thread = new Thread(null, () => watch(), "headwater-cancellations", 0, false)
    thread.setContextClassLoader(null)
    thread.setDaemon(true)
    thread.start()
    thread
  }

  /** Runs a call of the handler; `giveUp` ends it, from another thread. */
  def watching[T](context: StatementContext, giveUp: () => Unit)(call: => T): T = {
    val one = new Watched(context, Thread.currentThread(), giveUp)
    watched.add(one)
    java.util.concurrent.locks.LockSupport.unpark(watcher)
    try call finally watched.remove(one)
  }

  /** Cancels every call there is: of a shell, which has one user. */
  def cancelAll(): Unit = watched.forEach(_.asked = true)

  private def watch(): Unit = while (true) {
    if (watched.isEmpty) java.util.concurrent.locks.LockSupport.park(this)
    else Thread.sleep(PauseMilliseconds)
    val now = System.nanoTime()
    watched.asScala.foreach(one => try one.look(now) catch { case NonFatal(_) => })
  }
}

/** Ctrl-C in `spark-sql`, of which Spark tells its jobs alone. Hive's classes are not there in every Spark. */
private object ControlC {
  def register(): Unit = HiveInterruptUtils.add(new HiveInterruptCallback {
    override def interrupt(): Unit = Cancellations.cancelAll()
  })
}
