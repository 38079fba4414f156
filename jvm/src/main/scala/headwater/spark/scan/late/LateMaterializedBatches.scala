package headwater.spark.scan.late

import headwater.spark.scan.rows.RowOrBatchIterator
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.vectorized.{ColumnarBatch, ColumnVector}

/**
 * Batches with every column of a file: those that `source` has read, and the late ones, which [[LateColumnVector]] reads on demand.
 *
 * @param length how many columns come from the file; partition values follow them
 * @param rowsPerValue once more than one row in this many needed its late columns, the rest of the file is read whole
 * @param whenDense called then
 */
final class LateMaterializedBatches(
    source: Iterator[InternalRow],
    file: LateColumnsFile,
    length: Int,
    late: Set[Int],
    rowsPerValue: Int,
    position: Int,
    whenDense: () => Unit)
    extends RowOrBatchIterator(source) {
  private var passed = 0L
  private var dense = false

  override def hasNext: Boolean = rows.hasNext

  override def next(): Any = {
    if (!dense && passed > 0 && file.asked * rowsPerValue > passed) {
      dense = true
      file.readWhole()
      whenDense()
    }
    rows.next() match {
      case batch: ColumnarBatch =>
        passed += batch.numRows()
        val positions = batch.column(position)
        val present = (0 until batch.numCols()).iterator.map(batch.column)
        val vectors = Iterator.range(
          0,
          length).map(i => if (late(i)) new LateColumnVector(file, i, positions) else present.next()).toArray[ColumnVector]
        new ColumnarBatch(vectors ++ present, batch.numRows())
      case other => throw new IllegalStateException(s"expected a batch, not ${other.getClass.getName}")
    }
  }

  override def close(): Unit = try super.close()
  finally file.close()
}
