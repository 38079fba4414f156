package headwater.spark.write

import java.lang.reflect.AccessibleObject

import scala.util.Try

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.mapreduce.RecordWriter
import org.apache.parquet.format.converter.ParquetMetadataConverter
import org.apache.parquet.hadoop.{ParquetOutputFormat, ParquetRecordWriter}
import org.apache.parquet.hadoop.metadata.ParquetMetadata
import org.apache.spark.sql.execution.datasources.OutputWriter

/**
 * The footer of a file that a Parquet writer has closed, from the writer's memory, as a reader of the file would see it: the two differ,
 * as a file keeps no bound that is not a number, for example. None where the writer does not show it; then the file must be read.
 */
final class WrittenFooter private (writer: ParquetRecordWriter[_], longestBound: Int) {
  def read: Option[ParquetMetadata] = Try {
    val internal = WrittenFooter.internalWriter.get(writer)
    val footer = WrittenFooter.opened(internal.getClass.getMethod("getFooter")).invoke(internal).asInstanceOf[ParquetMetadata]
    val converter = new ParquetMetadataConverter(longestBound)
    converter.fromParquetMetadata(converter.toParquetMetadata(WrittenFooter.FormatVersion, footer))
  }.toOption
}

object WrittenFooter {
  private val FormatVersion = 1
  private val Encryption = "parquet.crypto.factory.class"

  private lazy val internalWriter = opened(classOf[ParquetRecordWriter[_]].getDeclaredField("internalWriter"))

  /** Of a writer of Spark's. A file that is encrypted is read as its readers do. */
  def of(writer: OutputWriter, conf: Configuration): Option[WrittenFooter] =
    if (conf.get(Encryption) != null) None
    else Try {
      val field = writer.getClass.getDeclaredFields.find(field => classOf[RecordWriter[_, _]].isAssignableFrom(field.getType))
      field.map(opened(_).get(writer)).collect { case parquet: ParquetRecordWriter[_] =>
        val longest = conf.getInt(ParquetOutputFormat.STATISTICS_TRUNCATE_LENGTH, Int.MaxValue)
        new WrittenFooter(parquet, longest)
      }
    }.toOption.flatten

  private def opened[A <: AccessibleObject](member: A): A = { member.setAccessible(true); member }
}
