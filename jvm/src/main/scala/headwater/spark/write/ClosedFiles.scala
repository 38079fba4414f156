package headwater.spark.write

import java.util.concurrent.ConcurrentHashMap

/**
 * What the footers of files say that writers in this JVM have closed, by path, until the commit of their task takes it. So the commit need
 * not open the files: on an object store, that would be two requests for each.
 */
object ClosedFiles {
  private val known = new ConcurrentHashMap[String, FooterStatistics]()

  def note(path: String, statistics: FooterStatistics): Unit = known.put(path, statistics)

  /** Takes what is known of a file. A task that fails takes it too, so that nothing stays. */
  def take(path: String): Option[FooterStatistics] = Option(known.remove(path))

  def size: Int = known.size
}
