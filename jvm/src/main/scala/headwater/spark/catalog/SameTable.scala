package headwater.spark.catalog

import java.nio.file.{Files, Path => LocalPath}

import scala.util.Try

import org.apache.hadoop.fs.Path

/**
 * Whether two paths lead to one table. A table has several paths if there are links, or if its store has several names. A copy of a table
 * has the identifier of its original. So identifier and place must both be the same; places that may be the same count as the same.
 */
object SameTable {
  def apply(path: String, id: String, other: String, otherId: String): Boolean =
    path == other || id == otherId && mayBeSamePlace(path, other)

  private def mayBeSamePlace(path: String, other: String): Boolean =
    if (path.startsWith("/") && other.startsWith("/"))
      Try(Files.isSameFile(LocalPath.of(path), LocalPath.of(other))).getOrElse(true)
    else root(path) != root(other)

  private def root(path: String): (String, String) = {
    val uri = new Path(path).toUri
    (uri.getScheme, uri.getAuthority)
  }
}
