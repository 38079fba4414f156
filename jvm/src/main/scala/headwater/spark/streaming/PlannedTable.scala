package headwater.spark.streaming

import java.util

import headwater.spark.catalog.ColumnsTable
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.connector.catalog.{Column, Identifier, TableCapability}
import org.apache.spark.sql.headwater.streaming.TableForStreams

/**
 * A table that `DataStreamWriter.toTable` has had the catalog create. Spark asks for that before it checks the query; the table is created
 * when the query has passed, so that nothing remains of one that is refused.
 *
 * @param catalogTable the catalog's entry as it will be; None for a table that is only a path
 */
final class PlannedTable(
    val identifier: Identifier,
    val path: String,
    val catalogTable: Option[CatalogTable],
    creation: Map[String, String] => Unit)
    extends TableForStreams
    with ColumnsTable {
  private var created = false

  /** Creates it, with the options of the query's writer. */
  def create(options: Map[String, String]): Unit = synchronized {
    if (!created) creation(options)
    created = true
  }

  override def name(): String = identifier.toString
  override def columns(): Array[Column] = Array.empty
  override def capabilities(): util.Set[TableCapability] = util.EnumSet.noneOf(classOf[TableCapability])
}

object PlannedTable {
  private val last = new ThreadLocal[PlannedTable]

  /** Whether this thread is in `toTable`. Spark passes nothing on that would show it. */
  def isForStream: Boolean = StackWalker.getInstance().walk(frames =>
    frames.anyMatch(frame => frame.getMethodName == "toTable" && frame.getClassName.endsWith(".DataStreamWriter")))

  def note(table: PlannedTable): Unit = last.set(table)

  /** The table of this name that this thread's `toTable` has planned. */
  def named(identifier: Identifier): Option[PlannedTable] = Option(last.get).filter(_.identifier == identifier && isForStream)

  /** The table that this thread has planned last, if it is the one at a path; the next call returns none. */
  def take(path: String): Option[PlannedTable] = {
    val found = Option(last.get).filter(_.path == path)
    forget()
    found
  }

  /** What an earlier `toTable` that failed has planned is not created any more. */
  def forget(): Unit = last.remove()
}
