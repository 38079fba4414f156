package headwater.spark.scan.late

import org.apache.spark.sql.types.Decimal
import org.apache.spark.sql.vectorized.{ColumnarArray, ColumnarMap, ColumnVector}
import org.apache.spark.unsafe.types.UTF8String

/** A late column of a batch: reads a row's value when Spark asks for it. */
private final class LateColumnVector(file: LateColumnsFile, number: Int, positions: ColumnVector)
    extends ColumnVector(file.typeOf(number)) {
  private var column: LateColumn = _
  private var row = -1

  private def at(wanted: Int): ColumnVector = {
    if (wanted != row) {
      column = file.column(number)
      column.find(positions.getLong(wanted))
      row = wanted
    }
    column.vector
  }

  override def close(): Unit = {}
  override def hasNull: Boolean = true
  override def numNulls(): Int = unsupported
  override def isNullAt(row: Int): Boolean = at(row).isNullAt(column.row)
  override def getBoolean(row: Int): Boolean = at(row).getBoolean(column.row)
  override def getByte(row: Int): Byte = at(row).getByte(column.row)
  override def getShort(row: Int): Short = at(row).getShort(column.row)
  override def getInt(row: Int): Int = at(row).getInt(column.row)
  override def getLong(row: Int): Long = at(row).getLong(column.row)
  override def getFloat(row: Int): Float = at(row).getFloat(column.row)
  override def getDouble(row: Int): Double = at(row).getDouble(column.row)
  override def getDecimal(row: Int, precision: Int, scale: Int): Decimal = at(row).getDecimal(column.row, precision, scale)
  override def getUTF8String(row: Int): UTF8String = at(row).getUTF8String(column.row)
  override def getBinary(row: Int): Array[Byte] = at(row).getBinary(column.row)
  override def getArray(row: Int): ColumnarArray = unsupported
  override def getMap(row: Int): ColumnarMap = unsupported
  override def getChild(ordinal: Int): ColumnVector = unsupported

  private def unsupported: Nothing = throw new UnsupportedOperationException("a late column is flat, and its values are read one by one")
}
