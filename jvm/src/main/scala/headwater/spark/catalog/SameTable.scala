package headwater.spark.catalog

import java.nio.file.{Files, Path => LocalPath}

import scala.util.Try

import org.apache.hadoop.fs.Path

/**
 * Whether two paths lead to one table. Links and the several names of a store give one table more than one path, and a copy of a table has
 * the identifier of its original: so it takes the identifier and the place. A place that is not known to be another one counts as the same.
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
