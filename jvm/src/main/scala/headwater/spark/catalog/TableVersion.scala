package headwater.spark.catalog

/** Which version of a table a statement reads. */
final case class TableVersion(version: Option[Long] = None, timestamp: Option[String] = None) {
  def isLatest: Boolean = version.isEmpty && timestamp.isEmpty
}

object TableVersion {
  val Latest: TableVersion = TableVersion()
  def apply(version: Long): TableVersion = TableVersion(Some(version))
}
