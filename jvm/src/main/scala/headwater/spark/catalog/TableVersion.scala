package headwater.spark.catalog

/** Which version of a table a statement reads: a version, or a time in microseconds since the epoch (as text), or the latest. */
final case class TableVersion(version: Option[Long] = None, timestamp: Option[String] = None) {
  def isLatest: Boolean = version.isEmpty && timestamp.isEmpty
}

object TableVersion {
  val Latest: TableVersion = TableVersion()
  def apply(version: Long): TableVersion = TableVersion(Some(version))
}
