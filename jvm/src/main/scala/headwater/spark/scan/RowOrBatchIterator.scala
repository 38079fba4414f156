package headwater.spark.scan

import java.io.Closeable

import org.apache.spark.sql.catalyst.InternalRow

/**
 * What is made of a file's rows, which come singly or as batches. Spark passes both through iterators of rows, hence [[asRows]], and closes
 * them where the task ends before they do.
 */
abstract class RowOrBatchIterator(source: Iterator[InternalRow]) extends Iterator[Any] with Closeable {
  protected val rows: Iterator[Any] = source.asInstanceOf[Iterator[Any]]

  def asRows: Iterator[InternalRow] = this.asInstanceOf[Iterator[InternalRow]]

  override def close(): Unit = source match {
    case closeable: Closeable => closeable.close()
    case _ =>
  }
}
