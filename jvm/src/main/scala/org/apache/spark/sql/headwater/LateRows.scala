package org.apache.spark.sql.headwater

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.types.{Decimal, StructType}
import org.apache.spark.sql.vectorized.{ColumnarArray, ColumnarBatch, ColumnarMap, ColumnVector}
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.util.SerializableConfiguration

/**
 * Reads some columns of files late: their values one by one, where somebody asks for them. Spark evaluates a filter or a join's key before
 * the other columns of a row, so the values of rows that are left out are never made, and where all of a file's are left out, not even read.
 * Where many rows are asked for after all, that is dearer than to read them all: the task then goes on with Spark's reader.
 *
 * @param schema the columns as the files have them; `late`: which of these, all of them flat; `position`: where the rows' positions are.
 * @param present reads the other columns.
 * @param whole reads all of them.
 * @param rebaseMode how dates and times of files that do not tell are meant, as Spark's setting says.
 */
final class LateReading(
    schema: StructType,
    late: Set[Int],
    position: Int,
    present: PartitionedFile => Iterator[InternalRow],
    whole: PartitionedFile => Iterator[InternalRow],
    rebaseMode: String,
    conf: Broadcast[SerializableConfiguration])
    extends (PartitionedFile => Iterator[InternalRow]) with Serializable {

  /** Of the task: each has its own copy of this. */
  private var dense = false

  override def apply(file: PartitionedFile): Iterator[InternalRow] =
    if (dense) whole(file)
    else {
      val asked = new LateFile(file, schema, late.toArray.sorted, position, rebaseMode, conf.value.value, whole)
      new LateRows(present(file), asked, schema.length, late, schema.indices.filterNot(late).indexOf(position), () => dense = true).asRows
    }
}

/** Batches of a file's present columns, made complete by late ones. `length`: of the columns that are of the file; partition values follow. */
private final class LateRows(
    source: Iterator[InternalRow], file: LateFile, length: Int, late: Set[Int], position: Int, whenDense: () => Unit) extends RowsOrBatches(source) {
  private var passed = 0L
  private var dense = false

  override def hasNext: Boolean = rows.hasNext

  override def next(): Any = {
    if (!dense && passed > 0 && file.asked * LateRows.Sparse > passed) {
      dense = true
      file.readWhole()
      whenDense()
    }
    rows.next() match {
      case batch: ColumnarBatch =>
        passed += batch.numRows()
        val positions = batch.column(position)
        val present = (0 until batch.numCols()).iterator.map(batch.column)
        val vectors = Iterator.range(0, length).map(i => if (late(i)) new LateVector(file, i, positions) else present.next()).toArray[ColumnVector]
        new ColumnarBatch(vectors ++ present, batch.numRows())
      case other => throw new IllegalStateException(s"expected a batch, not ${other.getClass.getName}")
    }
  }

  override def close(): Unit = try super.close() finally file.close()
}

private object LateRows {
  /** Of how many rows one may be asked for: of more, to find the values one by one takes longer than to read all of them in a row. */
  val Sparse = 64
}

/** A late column's values at the rows of a batch. */
private final class LateVector(file: LateFile, number: Int, positions: ColumnVector) extends ColumnVector(file.typeOf(number)) {
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
