package headwater.spark.scan

import org.apache.spark.sql.types.{Decimal, LongType}
import org.apache.spark.sql.vectorized.{ColumnarArray, ColumnarMap, ColumnVector}
import org.apache.spark.unsafe.types.UTF8String

/** The positions of a batch's rows: the numbers from `first` on. As with Spark's own vectors, the next batch overwrites this one. */
private final class RowIndexVector extends ColumnVector(LongType) {
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
