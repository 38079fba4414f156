package headwater.spark.streaming

import java.io.IOException

import scala.util.control.NonFatal

import headwater.spark.bridge.Bridge
import headwater.spark.bridge.messages.StillNewRequest
import org.apache.hadoop.fs.Path
import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.headwater.SparkInternals

/**
 * A table that `DataStreamWriter.toTable` has created for the query it is about to start. Spark creates the table before it checks the query;
 * if it then refuses the query, nothing of the table may remain.
 *
 * @param name None for a table that is only a path
 */
final case class CreatedTable(path: String, tableId: String, name: Option[TableIdentifier]) extends Logging {
  /** Drops the table, unless somebody has written to it or altered it. */
  def undo(session: SparkSession): Unit =
    try if (Bridge.call(session, StillNewRequest(path, tableId))) {
      val directory = new Path(path)
      val files = directory.getFileSystem(SparkInternals.hadoopConf(session))
      files.delete(new Path(directory, "_delta_log"), true)
      try files.delete(directory, false) catch { case _: IOException => } // it holds something else
      name.foreach(SparkInternals.sessionCatalog(session).dropTable(_, ignoreIfNotExists = true, purge = false))
    } catch { case NonFatal(e) => logWarning(s"The table $path, created for a query that was refused, could not be dropped.", e) }
}

object CreatedTable {
  private val last = new ThreadLocal[CreatedTable]

  /** Whether this thread is in `toTable`. Spark passes nothing on that would show it. */
  def isForStream: Boolean = StackWalker.getInstance().walk(frames =>
    frames.anyMatch(frame => frame.getMethodName == "toTable" && frame.getClassName.endsWith(".DataStreamWriter")))

  def note(table: CreatedTable): Unit = last.set(table)

  /** The table that this thread has created last, if it is the one at a path; the next call returns none. */
  def take(path: String): Option[CreatedTable] = {
    val found = Option(last.get).filter(_.path == path)
    last.remove()
    found
  }
}
