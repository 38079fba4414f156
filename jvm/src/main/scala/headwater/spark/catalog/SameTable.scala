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

  /** Whether a file lies in the folder of a table, whatever links lead there. */
  def liesBelow(file: Path, folder: String): Boolean = {
    val (inside, outside) = (file.toUri, new Path(folder).toUri)
    def real(path: String) = Try(LocalPath.of(path).toRealPath()).getOrElse(LocalPath.of(path))
    if (folder.startsWith("/")) inside.getScheme == "file" && real(inside.getPath).startsWith(real(outside.getPath))
    else root(file.toString) == root(folder) && inside.getPath.startsWith(s"${outside.getPath}/")
  }

  private def root(path: String): (String, String) = {
    val uri = new Path(path).toUri
    (uri.getScheme, uri.getAuthority)
  }
}
