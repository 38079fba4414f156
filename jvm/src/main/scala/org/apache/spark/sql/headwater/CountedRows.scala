package org.apache.spark.sql.headwater

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.{Decimal, LongType}
import org.apache.spark.sql.vectorized.{ColumnarArray, ColumnarBatch, ColumnarMap, ColumnVector}
import org.apache.spark.unsafe.types.UTF8String

/**
 * Batches of a whole file, in order and none left out, with the position of each row in the file as one more column. Spark's reader can tell
 * positions too, at several times the cost of reading a column: it must allow for pages it skipped.
 */
final class CountedRows(source: Iterator[InternalRow], position: Int) extends RowsOrBatches(source) {
  private val positions = new Positions
  private var following = 0L

  override def hasNext: Boolean = rows.hasNext

  override def next(): Any = rows.next() match {
    case batch: ColumnarBatch =>
      positions.first = following
      following += batch.numRows()
      val (before, after) = (0 until batch.numCols()).map(batch.column).splitAt(position)
      new ColumnarBatch((before ++ (positions +: after)).toArray[ColumnVector], batch.numRows())
    case other => throw new IllegalStateException(s"expected a batch, not ${other.getClass.getName}")
  }
}

/** The numbers from `first` on. As with Spark's own vectors, the next batch writes over this one. */
private final class Positions extends ColumnVector(LongType) {
  var first = 0L

  override def getLong(row: Int): Long = first + row
  override def close(): Unit = {}
  override def hasNull: Boolean = false
  override def numNulls(): Int = 0
  override def isNullAt(row: Int): Boolean = false
  override def getBoolean(row: Int): Boolean = unsupported
  override def getByte(row: Int): Byte = unsupported
  override def getShort(row: Int): Short = unsupported
  override def getInt(row: Int): Int = unsupported
  override def getFloat(row: Int): Float = unsupported
  override def getDouble(row: Int): Double = unsupported
  override def getArray(row: Int): ColumnarArray = unsupported
  override def getMap(row: Int): ColumnarMap = unsupported
  override def getDecimal(row: Int, precision: Int, scale: Int): Decimal = unsupported
  override def getUTF8String(row: Int): UTF8String = unsupported
  override def getBinary(row: Int): Array[Byte] = unsupported
  override def getChild(ordinal: Int): ColumnVector = unsupported

  private def unsupported: Nothing = throw new UnsupportedOperationException("a position is a long")
}
