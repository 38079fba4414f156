package headwater.spark.write

import org.apache.hadoop.mapreduce.TaskAttemptContext
import org.apache.spark.sql.execution.datasources.{OutputWriter, OutputWriterFactory}
import org.apache.spark.sql.types.StructType

/** Writers that note the statistics of each file they close in [[ClosedFiles]]. `leaves` are those of [[FooterStatistics]]. */
final class NotingWriterFactory(plain: OutputWriterFactory, leaves: Seq[Seq[String]]) extends OutputWriterFactory {
  override def getFileExtension(context: TaskAttemptContext): String = plain.getFileExtension(context)

  override def newInstance(path: String, dataSchema: StructType, context: TaskAttemptContext): OutputWriter = {
    val writer = plain.newInstance(path, dataSchema, context)
    WrittenFooter.of(writer, context.getConfiguration).map(new NotingWriter(writer, _, leaves)).getOrElse(writer)
  }
}
