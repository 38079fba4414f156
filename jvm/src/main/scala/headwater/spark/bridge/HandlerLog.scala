package headwater.spark.bridge

import java.io.{BufferedReader, InputStream, InputStreamReader}
import java.nio.charset.StandardCharsets.UTF_8

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging

/**
 * The handler's standard error, into Spark's log. Held back until the handler has started: an interpreter that has no `headwater` is not
 * worth a warning where the next one has it, and its last words are the reason given where none has.
 */
private[spark] final class HandlerLog(stream: InputStream) extends Thread("headwater-handler-log") with Logging {
  private val held = mutable.Queue.empty[String]
  private var started = false
  private var level = "WARNING"
  setDaemon(true)
  start()

  override def run(): Unit = {
    val reader = new BufferedReader(new InputStreamReader(stream, UTF_8))
    try Iterator.continually(reader.readLine()).takeWhile(_ != null).foreach(take) catch { case NonFatal(_) => }
  }

  def handlerStarted(): Unit = synchronized {
    started = true
    held.dequeueAll(_ => true).foreach(forward)
  }

  /** What a process that did not start said last. */
  def lastWords: Option[String] = {
    join(1000)
    synchronized(held.map(_.trim).filter(_.nonEmpty).lastOption)
  }

  private def take(line: String): Unit = synchronized {
    if (started) forward(line)
    else {
      held.enqueue(line)
      if (held.size > HandlerLog.MostHeld) held.dequeue()
    }
  }

  /** A line without a level of its own goes on with the record before it. Spark's log shows the level, and whose line it is, itself. */
  private def forward(written: String): Unit = {
    val own = HandlerLog.Levels.find(l => written.startsWith(l + HandlerLog.Name))
    own.foreach(level = _)
    val line = own.map(l => written.drop(l.length + HandlerLog.Name.length)).getOrElse(written)
    level match {
      case "DEBUG" => logDebug(line)
      case "INFO" => logInfo(line)
      case "ERROR" | "CRITICAL" => logError(line)
      case _ => logWarning(line)
    }
  }
}

private object HandlerLog {
  val MostHeld = 50
  val Name = " headwater "
  val Levels: Seq[String] = Seq("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
}
