package headwater.spark.bridge

import headwater.spark.bridge.messages.NoFileSystemRequest
import headwater.spark.catalog.TableEntry
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.headwater.SparkInternals

/**
 * Where a table lies, as the log and the handler name it, and what its user has given to reach it.
 *
 * @param entry the catalog's entry that the statement has reached it by
 */
final case class TableLocation(path: String, store: StoreOptions = StoreOptions.none, entry: Option[TableEntry] = None)

/** Where a table lies, as Hadoop, the log and the handler name it. A location without a file system is refused by the handler's error. */
object TableLocation {
  def qualified(session: SparkSession, location: Path, store: StoreOptions = StoreOptions.none): Path =
    try StoreFailure.wrapping(location.getFileSystem(store.configuration(session)).makeQualified(location))
    catch {
      case e: StoreFailure =>
        Bridge.call(session, NoFileSystemRequest(location.toString, e.described)) // throws the error
        throw e
    }

  /** The location that a user named, with the options that are for it among others. */
  def of(session: SparkSession, location: Path, options: Map[String, String]): TableLocation = {
    val store = StoreOptions.of(session, location, options)
    TableLocation(path(session, location, store), store)
  }

  /** A location as the log and the handler name it: a plain path on the local file system, else a URI. */
  def path(session: SparkSession, location: Path, store: StoreOptions = StoreOptions.none): String =
    if (isLocal(session, location, store)) location.toUri.getPath
    else {
      val qualified = this.qualified(session, location, store)
      if (qualified.toUri.getScheme == "file") qualified.toUri.getPath else qualified.toString
    }

  /** Avoids a copy of the whole Hadoop configuration, which costs more than everything else when a table is opened. */
  private def isLocal(session: SparkSession, location: Path, store: StoreOptions): Boolean =
    location.isAbsolute && location.toUri.getAuthority == null && {
      def default = store.hadoop.get("fs.defaultFS").orElse(Option(SparkInternals.conf(session).getConfString("fs.defaultFS", null)))
        .getOrElse(session.sparkContext.hadoopConfiguration.get("fs.defaultFS", "file:///"))
      Option(location.toUri.getScheme).getOrElse(default.takeWhile(_ != ':')) == "file"
    }
}
