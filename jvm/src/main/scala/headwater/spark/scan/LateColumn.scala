package headwater.spark.scan

import org.apache.spark.sql.vectorized.ColumnVector

/** A late column of a file, of which one value is at hand at a time: that of `row` in `vector`. */
private[headwater] abstract class LateColumn {
  /** Has the value of a row, given by its position in the file. */
  def find(position: Long): Unit
  def vector: ColumnVector
  def row: Int
}
