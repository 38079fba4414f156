package headwater.spark.scan.rows

import headwater.spark.write.ForbiddenNulls
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.vectorized.ColumnarBatch

/** Refuses a file with a null that the schema forbids, which Spark would read as another value. */
final class RowsWithoutForbiddenNulls(source: Iterator[InternalRow], nulls: ForbiddenNulls) extends RowOrBatchIterator(source) {
  override def hasNext: Boolean = rows.hasNext

  override def next(): Any = {
    val following = rows.next()
    following match {
      case batch: ColumnarBatch => nulls.check(batch)
      case row: InternalRow => nulls.check(row)
      case other => throw new IllegalStateException(s"expected a row or a batch, not ${other.getClass.getName}")
    }
    following
  }
}
