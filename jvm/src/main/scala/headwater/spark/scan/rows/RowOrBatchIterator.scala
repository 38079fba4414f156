package headwater.spark.scan.rows

import java.io.Closeable

import org.apache.spark.sql.catalyst.InternalRow

/**
 * Transforms a file's rows, which come singly or in batches. Spark passes both through an iterator of rows, hence [[asRows]]. If the task
 * ends early, Spark closes the iterator.
 */
abstract class RowOrBatchIterator(source: Iterator[InternalRow]) extends Iterator[Any] with Closeable {
  protected val rows: Iterator[Any] = source.asInstanceOf[Iterator[Any]]

  def asRows: Iterator[InternalRow] = this.asInstanceOf[Iterator[InternalRow]]

  override def close(): Unit = source match {
    case closeable: Closeable => closeable.close()
    case _ =>
  }
}
