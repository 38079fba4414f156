package headwater.spark.catalog

/**
 * Which version of a table a statement reads: a version, or a time in microseconds since the epoch (as text), or the latest.
 *
 * @param mayBeLater whether the time may be after the latest version, which is then the one
 */
final case class TableVersion(version: Option[Long] = None, timestamp: Option[String] = None, mayBeLater: Boolean = false) {
  def isLatest: Boolean = version.isEmpty && timestamp.isEmpty
}

object TableVersion {
  val Latest: TableVersion = TableVersion()
  def apply(version: Long): TableVersion = TableVersion(Some(version))
}
