package headwater.spark.scan.late

import headwater.spark.scan.rows.RowOrBatchIterator
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.vectorized.{ColumnarBatch, ColumnVector}

/**
 * The late columns of a file, from batches of all columns that Spark's reader reads. One batch is in memory at a time.
 *
 * @param position the index of the column with the rows' positions
 */
private final class WholeFileColumns(source: Iterator[InternalRow], position: Int, namingFile: (=> Unit) => Unit)
    extends RowOrBatchIterator(source) {
  private var batch: ColumnarBatch = _
  private var row = 0

  override def hasNext: Boolean = rows.hasNext
  override def next(): Any = rows.next()

  def column(number: Int): LateColumn = new LateColumn {
    override def find(position: Long): Unit = namingFile(reach(position))
    override def vector: ColumnVector = batch.column(number)
    override def row: Int = WholeFileColumns.this.row
  }

  private def reach(wanted: Long): Unit = {
    while (batch == null || at(batch.numRows() - 1) < wanted) {
      batch = next().asInstanceOf[ColumnarBatch]
      row = 0
    }
    if (at(row) > wanted) row = 0
    while (at(row) < wanted) row += 1
  }

  private def at(row: Int): Long = batch.column(position).getLong(row)
}
