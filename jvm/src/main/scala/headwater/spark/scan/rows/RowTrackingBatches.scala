package headwater.spark.scan.rows

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Add, BoundReference, Coalesce, Expression, JoinedRow, UnsafeProjection}
import org.apache.spark.sql.types.{DataType, LongType}
import org.apache.spark.sql.vectorized.{ColumnarBatch, ColumnVector}

/**
 * Fills in row ids and row commit versions that a file does not hold (protocol chapter "Reader Requirements for Row Tracking"): the id from
 * the file's first id and the row's position, the commit version from the file's.
 *
 * @param rowId the index of the column for row ids, -1 if there is none; the same for `rowCommitVersion`
 * @param position the index of the column with the rows' positions, which row ids need
 * @param dropPosition whether only this class needs it
 * @param types of the columns of the result
 */
final class RowTrackingBatches(
    source: Iterator[InternalRow],
    file: FileRowIds,
    rowId: Int,
    rowCommitVersion: Int,
    position: Int,
    dropPosition: Boolean,
    types: Array[DataType])
    extends RowOrBatchIterator(source) {

  private lazy val (joined, known) =
    (new JoinedRow, InternalRow(file.baseRowId.map(Long.box).orNull, file.defaultRowCommitVersion.map(Long.box).orNull))
  private lazy val project = {
    val width = types.length + (if (dropPosition) 1 else 0)
    def long(index: Int) = BoundReference(index, LongType, nullable = true)
    UnsafeProjection.create(types.indices.map { i =>
      val from = if (dropPosition && i >= position) i + 1 else i
      val column: Expression =
        if (from == rowId) Coalesce(Seq(long(from), Add(long(width), long(position))))
        else if (from == rowCommitVersion) Coalesce(Seq(long(from), long(width + 1)))
        else BoundReference(from, types(i), nullable = true)
      column
    })
  }

  override def hasNext: Boolean = rows.hasNext

  override def next(): Any = rows.next() match {
    case batch: ColumnarBatch =>
      val columns = (0 until batch.numCols()).filterNot(i => dropPosition && i == position).map { i =>
        if (i == rowId) new DefaultLongVector(batch.column(i), file.baseRowId, Some(batch.column(position)))
        else if (i == rowCommitVersion) new DefaultLongVector(batch.column(i), file.defaultRowCommitVersion, None)
        else batch.column(i)
      }
      new ColumnarBatch(columns.toArray[ColumnVector], batch.numRows())
    case row: InternalRow => project(joined(row, known))
    case other => throw new IllegalStateException(s"expected a row or a batch, not ${other.getClass.getName}")
  }
}
