package headwater.spark.bridge

import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.hadoop.hive.common.{HiveInterruptCallback, HiveInterruptUtils}

/**
 * Ends the calls of statements that are cancelled.
 *
 * The calling thread waits for a socket, and an interrupt does not end that. So one thread watches all callers. When a caller is
 * interrupted, its statement may not begin a commit any more, and gets a moment to end by itself. Then its connection is closed, which ends
 * the wait. The handler may go on working, but everything it calls back is refused.
 */
private[spark] object Cancellations {
  /** How long the watching thread sleeps between two looks. */
  private val PauseMilliseconds = 50L
  /** How long a cancelled statement may take to end by itself: with its job, or with a call on this side. In nanoseconds. */
  private val Grace = TimeUnit.MILLISECONDS.toNanos(500)
  /** The same where a commit had begun, so that its outcome is known. In nanoseconds. */
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
    try ControlC.register()
    catch { case _: LinkageError => }
    val thread = new Thread(null, () => watch(), "headwater-cancellations", 0, false)
    thread.setContextClassLoader(null)
    thread.setDaemon(true)
    thread.start()
    thread
  }

  /** Runs a call of the handler; `giveUp`, called from another thread, ends it. */
  def watching[T](context: StatementContext, giveUp: () => Unit)(call: => T): T = {
    val one = new Watched(context, Thread.currentThread(), giveUp)
    watched.add(one)
    java.util.concurrent.locks.LockSupport.unpark(watcher)
    try call
    finally watched.remove(one)
  }

  /** Cancels all calls: for a shell, which has one user. */
  def cancelAll(): Unit = watched.forEach(_.asked = true)

  private def watch(): Unit = while (true) {
    if (watched.isEmpty) java.util.concurrent.locks.LockSupport.park(this)
    else Thread.sleep(PauseMilliseconds)
    val now = System.nanoTime()
    watched.asScala.foreach(one =>
      try one.look(now)
      catch { case NonFatal(_) => })
  }
}

/** Ctrl-C in `spark-sql`, which Spark passes on to its jobs only. Not every Spark has Hive's classes. */
private object ControlC {
  def register(): Unit = HiveInterruptUtils.add(new HiveInterruptCallback {
    override def interrupt(): Unit = Cancellations.cancelAll()
  })
}
