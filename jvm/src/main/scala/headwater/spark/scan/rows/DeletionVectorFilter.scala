package headwater.spark.scan.rows

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, UnsafeProjection}
import org.apache.spark.sql.types.DataType
import org.apache.spark.sql.vectorized.{ColumnarBatch, ColumnVector}

/**
 * Leaves out a file's rows that its deletion vector names. The rows come singly or in batches, with their position in the file as one
 * column; `dropPosition` removes that column where only this class needs it.
 */
final class DeletionVectorFilter(
    source: Iterator[InternalRow],
    deleted: DeletionVector,
    position: Int,
    dropPosition: Boolean,
    types: Array[DataType])
    extends RowOrBatchIterator(source) {

  private var following: Any = _
  private lazy val project = UnsafeProjection.create(types.indices.map { i =>
    val from = if (dropPosition && i >= position) i + 1 else i
    BoundReference(from, types(i), nullable = true)
  })

  override def hasNext: Boolean = {
    while (following == null && rows.hasNext) {
      following = rows.next() match {
        case batch: ColumnarBatch => live(batch)
        case row: InternalRow => if (deleted.contains(row.getLong(position))) null else if (dropPosition) project(row) else row
        case other => throw new IllegalStateException(s"expected a row or a batch, not ${other.getClass.getName}")
      }
    }
    following != null
  }

  override def next(): Any = {
    if (!hasNext) throw new NoSuchElementException
    val taken = following
    following = null
    taken
  }

  /** Whether no rows were skipped between those of a batch; their positions ascend. */
  private def areConsecutive(positions: ColumnVector, rows: Int): Boolean =
    rows > 0 && positions.getLong(rows - 1) - positions.getLong(0) == rows - 1

  private def liveOneByOne(positions: ColumnVector, rows: Int, selected: Array[Int]): Int = {
    var count = 0
    var row = 0
    while (row < rows) {
      if (!deleted.contains(positions.getLong(row))) { selected(count) = row; count += 1 }
      row += 1
    }
    count
  }

  private def live(batch: ColumnarBatch): ColumnarBatch = {
    val positions = batch.column(position)
    val selected = new Array[Int](batch.numRows())
    val count = if (areConsecutive(positions, batch.numRows())) deleted.live(positions.getLong(0), batch.numRows(), selected)
    else liveOneByOne(positions, batch.numRows(), selected)
    if (count == 0) null
    else {
      val columns = (0 until batch.numCols()).filterNot(i => dropPosition && i == position).map(batch.column)
      val vectors = if (count == batch.numRows()) columns else columns.map(new SelectedColumnVector(_, selected): ColumnVector)
      new ColumnarBatch(vectors.toArray, count)
    }
  }
}
