package org.apache.spark.sql.headwater.scan

import java.io.Closeable

import scala.util.Try

import headwater.spark.scan.filters.FloatingBounds
import org.apache.parquet.VersionParser.ParsedVersion
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.{PartitionedFile, RecordReaderIterator}
import org.apache.spark.sql.execution.datasources.parquet.SpecificParquetRecordReaderBase

/**
 * Reads files with filters that lose rows with NaN if a file's writer left NaN out of its bounds ([[FloatingBounds]]). Spark's reader reads
 * the footer when it opens a file, so the writer is known at no cost. A file of such a writer is opened again, with fewer filters.
 *
 * @param filtered Spark's vectorized reader, with all filters
 * @param besideNaN the same with the filters that lose no such row
 */
final class ReaderBesideNaN(filtered: PartitionedFile => Iterator[InternalRow], besideNaN: PartitionedFile => Iterator[InternalRow])
    extends (PartitionedFile => Iterator[InternalRow]) with Serializable {

  override def apply(file: PartitionedFile): Iterator[InternalRow] = {
    val rows = filtered(file)
    if (ReaderBesideNaN.writer(rows).exists(FloatingBounds.countNaN)) rows
    else {
      rows match {
        case opened: Closeable => opened.close()
        case _ =>
      }
      besideNaN(file)
    }
  }
}

private object ReaderBesideNaN {
  private lazy val reader = opened(classOf[RecordReaderIterator[_]], "rowReader")
  private lazy val version = opened(classOf[SpecificParquetRecordReaderBase[_]], "writerVersion")

  /** The writer of the file that was opened; None if the reader does not show it. */
  def writer(rows: Iterator[_]): Option[String] = Try {
    val found = version.get(reader.get(rows)).asInstanceOf[ParsedVersion]
    s"${found.application} version ${found.version}"
  }.toOption

  private def opened(owner: Class[_], name: String) = {
    val field = owner.getDeclaredField(name)
    field.setAccessible(true)
    field
  }
}
