package headwater.spark.scan.rows

import org.apache.spark.sql.vectorized.ColumnVector

/** The longs of a column, its nulls replaced by a default; by the default plus the row's position if there are `positions`. */
private final class DefaultLongVector(stored: ColumnVector, default: Option[Long], positions: Option[ColumnVector]) extends LongVector {
  private val allStored = !stored.hasNull
  private val value = default.getOrElse(0L)
  private val position = positions.orNull

  override def getLong(row: Int): Long =
    if (allStored || !stored.isNullAt(row)) stored.getLong(row)
    else if (position == null) value
    else value + position.getLong(row)

  override def isNullAt(row: Int): Boolean = default.isEmpty && stored.isNullAt(row)
  override def hasNull: Boolean = default.isEmpty && stored.hasNull
  override def numNulls(): Int = if (default.isEmpty) stored.numNulls() else 0
  // The reader uses the vector below again for its next batch, and closes it itself.
  override def close(): Unit = {}
}
