package headwater.spark.bridge

import java.io.{BufferedReader, InputStream, InputStreamReader}
import java.nio.charset.StandardCharsets.UTF_8

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging

/**
 * Writes the handler's standard error into Spark's log. Lines are held back until the handler has started: an interpreter without the
 * `headwater` package deserves no warning if the next one has it. If none has, its last line is the reason in the error.
 */
private[spark] final class HandlerLog(stream: InputStream) extends Thread("headwater-handler-log") with Logging {
  private val held = mutable.Queue.empty[String]
  private var started = false
  private var level = "WARNING"
  setDaemon(true)
  start()

  override def run(): Unit = {
    val reader = new BufferedReader(new InputStreamReader(stream, UTF_8))
    try Iterator.continually(reader.readLine()).takeWhile(_ != null).foreach(take)
    catch { case NonFatal(_) => }
  }

  def handlerStarted(): Unit = synchronized {
    started = true
    held.dequeueAll(_ => true).foreach(forward)
  }

  /** The last line of a process that did not start. */
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

  /** A line without a level continues the record before it. Spark's log shows the level and the logger itself. */
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
