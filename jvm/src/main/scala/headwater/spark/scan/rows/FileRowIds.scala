package headwater.spark.scan.rows

/**
 * What a table with row tracking gives to the rows of a file that hold nothing else themselves: the first row's id, and the commit version.
 */
final case class FileRowIds(baseRowId: Option[Long], defaultRowCommitVersion: Option[Long])

object FileRowIds {
  /** The key under which a task finds it in the constants of a file. */
  val MetadataKey = "headwater_row_ids"
}
