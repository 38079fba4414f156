package org.apache.spark.sql.headwater.scan

import java.io.Closeable

import scala.jdk.CollectionConverters._
import scala.util.Try

import headwater.spark.scan.filters.FloatingBounds
import org.apache.parquet.VersionParser.ParsedVersion
import org.apache.parquet.schema.MessageType
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.{PartitionedFile, RecordReaderIterator}
import org.apache.spark.sql.execution.datasources.parquet.SpecificParquetRecordReaderBase

/**
 * Reads files with filters that lose rows of some of them. Spark's reader reads the footer when it opens a file, so it costs nothing to
 * know which. Such a file is opened again, with filters that lose none.
 *
 * @param filtered Spark's vectorized reader, with all filters
 * @param unfiltered the same with the filters that lose no row of any file
 */
final class CheckedFiltersReader(
    filtered: PartitionedFile => Iterator[InternalRow],
    unfiltered: PartitionedFile => Iterator[InternalRow],
    check: FilterCheck)
    extends (PartitionedFile => Iterator[InternalRow]) with Serializable {

  override def apply(file: PartitionedFile): Iterator[InternalRow] = {
    val rows = filtered(file)
    if (check.holds(rows)) rows
    else {
      rows match {
        case opened: Closeable => opened.close()
        case _ =>
      }
      unfiltered(file)
    }
  }
}

/**
 * Whether filters lose no row of a file that was opened.
 *
 * @param meetsNaN whether they lose rows with NaN if the file's writer left NaN out of its bounds ([[FloatingBounds]])
 * @param ids the columns by name, if files are read by their ids. Parquet's reader filters by name, and a file may call another column so.
 */
final case class FilterCheck(meetsNaN: Boolean, ids: Map[String, Long]) {
  def holds(rows: Iterator[_]): Boolean = Try {
    val reader = FilterCheck.reader.get(rows)
    (!meetsNaN || FloatingBounds.countNaN(FilterCheck.writer(reader))) && (ids.isEmpty || hasIds(FilterCheck.columns(reader)))
  }.getOrElse(false) // the reader does not show it

  private def hasIds(columns: MessageType): Boolean = columns.getFields.asScala.forall(column =>
    ids.forall { case (name, id) =>
      !column.getName.equalsIgnoreCase(name) || Option(column.getId).exists(_.intValue == id)
    })
}

private object FilterCheck {
  private lazy val reader = opened(classOf[RecordReaderIterator[_]], "rowReader")
  private lazy val version = opened(classOf[SpecificParquetRecordReaderBase[_]], "writerVersion")
  private lazy val schema = opened(classOf[SpecificParquetRecordReaderBase[_]], "fileSchema")

  private def writer(reader: AnyRef): String = {
    val found = version.get(reader).asInstanceOf[ParsedVersion]
    s"${found.application} version ${found.version}"
  }

  private def columns(reader: AnyRef): MessageType = schema.get(reader).asInstanceOf[MessageType]

  private def opened(owner: Class[_], name: String) = {
    val field = owner.getDeclaredField(name)
    field.setAccessible(true)
    field
  }
}
