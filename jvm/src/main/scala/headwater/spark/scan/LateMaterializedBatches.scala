package headwater.spark.scan

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.vectorized.{ColumnarBatch, ColumnVector}

/** Batches of a file's present columns, made complete by late ones. `length`: of the columns that are of the file; partition values follow. */
final class LateMaterializedBatches(
    source: Iterator[InternalRow], file: LateColumnsFile, length: Int, late: Set[Int], position: Int, whenDense: () => Unit) extends RowOrBatchIterator(source) {
  private var passed = 0L
  private var dense = false

  override def hasNext: Boolean = rows.hasNext

  override def next(): Any = {
    if (!dense && passed > 0 && file.asked * LateMaterializedBatches.Sparse > passed) {
      dense = true
      file.readWhole()
      whenDense()
    }
    rows.next() match {
      case batch: ColumnarBatch =>
        passed += batch.numRows()
        val positions = batch.column(position)
        val present = (0 until batch.numCols()).iterator.map(batch.column)
        val vectors = Iterator.range(0, length).map(i => if (late(i)) new LateColumnVector(file, i, positions) else present.next()).toArray[ColumnVector]
        new ColumnarBatch(vectors ++ present, batch.numRows())
      case other => throw new IllegalStateException(s"expected a batch, not ${other.getClass.getName}")
    }
  }

  override def close(): Unit = try super.close() finally file.close()
}

private object LateMaterializedBatches {
  /** Of how many rows one may be asked for: of more, to find the values one by one takes longer than to read all of them in a row. */
  val Sparse = 64
}
