package headwater.spark.write

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.OutputWriter

/** A Parquet writer that notes what its footer says in [[ClosedFiles]]. */
final class NotingWriter(writer: OutputWriter, footer: WrittenFooter, leaves: Seq[Seq[String]]) extends OutputWriter {
  override def path(): String = writer.path()

  override def write(row: InternalRow): Unit = writer.write(row)

  override def close(): Unit = {
    writer.close()
    footer.read.foreach(known => ClosedFiles.note(path(), FooterStatistics.of(known, leaves)))
  }
}
