package headwater.spark.scan.rows

/** The positions of a batch's rows: the numbers from `first` on. As with Spark's own vectors, the next batch overwrites this one. */
private final class RowIndexVector extends LongVector {
  var first = 0L

  override def getLong(row: Int): Long = first + row
  override def close(): Unit = {}
  override def hasNull: Boolean = false
  override def numNulls(): Int = 0
  override def isNullAt(row: Int): Boolean = false
}
