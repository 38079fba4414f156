package headwater.spark.scan

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.vectorized.{ColumnarBatch, ColumnVector}

/**
 * Batches of a whole file, in order and none left out, with the position of each row in the file as one more column. Spark's reader can tell
 * positions too, at several times the cost of reading a column: it must allow for pages it skipped.
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
