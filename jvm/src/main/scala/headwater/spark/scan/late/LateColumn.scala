package headwater.spark.scan.late

import org.apache.spark.sql.vectorized.ColumnVector

/** A column that a file's scan materializes late: it has one value at a time, that of `row` in `vector`. */
private[headwater] abstract class LateColumn {
  /** Reads the value of a row, given by its position in the file. */
  def find(position: Long): Unit
  def vector: ColumnVector
  def row: Int
}
