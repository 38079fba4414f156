package headwater.spark.scan.rows

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.vectorized.{ColumnarBatch, ColumnVector}

/**
 * Adds the position of each row in its file to batches that hold all rows of the file, in order. Spark's reader can read positions too, but
 * at several times the cost of a column: it must consider the pages that filters skip.
 */
final class RowIndexBatches(source: Iterator[InternalRow], position: Int) extends RowOrBatchIterator(source) {
  private val positions = new RowIndexVector
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
