package headwater.spark.scan.rows

import org.apache.spark.sql.types.StructType

/**
 * The names, in data files, of the columns for row ids and row commit versions. A scan that asks for them gets no nulls
 * ([[RowTrackingBatches]]).
 */
final case class RowTrackingColumns(rowId: String, rowCommitVersion: String) {
  def names: Seq[String] = Seq(rowId, rowCommitVersion)

  def in(schema: StructType): Boolean = names.exists(schema.fieldNames.contains)
}

object RowTrackingColumns {
  /** The names of the fields in `_metadata`. */
  val (rowIdField, rowCommitVersionField) = ("row_id", "row_commit_version")

  /** The same of those that all rows of a file share. */
  val (baseRowIdField, defaultRowCommitVersionField) = ("base_row_id", "default_row_commit_version")

  def of(names: Seq[String]): Option[RowTrackingColumns] = names match {
    case Seq(rowId, rowCommitVersion) => Some(RowTrackingColumns(rowId, rowCommitVersion))
    case _ => None
  }
}
