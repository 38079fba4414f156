package headwater.spark.scan.rows

import org.apache.spark.sql.types.Decimal
import org.apache.spark.sql.vectorized.{ColumnarArray, ColumnarMap, ColumnVector}
import org.apache.spark.unsafe.types.UTF8String

/** Some rows of a column, in order: row i is row `selected(i)` of the base. Nothing is copied; the base owns the memory. */
final class SelectedColumnVector(base: ColumnVector, selected: Array[Int]) extends ColumnVector(base.dataType()) {
  override def close(): Unit = {}
  override def hasNull: Boolean = base.hasNull
  override def numNulls(): Int = base.numNulls()
  override def isNullAt(row: Int): Boolean = base.isNullAt(selected(row))
  override def getBoolean(row: Int): Boolean = base.getBoolean(selected(row))
  override def getByte(row: Int): Byte = base.getByte(selected(row))
  override def getShort(row: Int): Short = base.getShort(selected(row))
  override def getInt(row: Int): Int = base.getInt(selected(row))
  override def getLong(row: Int): Long = base.getLong(selected(row))
  override def getFloat(row: Int): Float = base.getFloat(selected(row))
  override def getDouble(row: Int): Double = base.getDouble(selected(row))
  override def getArray(row: Int): ColumnarArray = base.getArray(selected(row))
  override def getMap(row: Int): ColumnarMap = base.getMap(selected(row))
  override def getDecimal(row: Int, precision: Int, scale: Int): Decimal = base.getDecimal(selected(row), precision, scale)
  override def getUTF8String(row: Int): UTF8String = base.getUTF8String(selected(row))
  override def getBinary(row: Int): Array[Byte] = base.getBinary(selected(row))
  override def getChild(ordinal: Int): ColumnVector = new SelectedColumnVector(base.getChild(ordinal), selected)
}
