package headwater.spark.write

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.mapreduce.TaskAttemptContext
import org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl
import org.apache.spark.sql.execution.datasources.{OutputWriter, OutputWriterFactory}
import org.apache.spark.sql.execution.datasources.parquet.ParquetWriteSupport
import org.apache.spark.sql.types.StructType

/** Writers of a job that writes rows and change data: only files of change data have the last column, the type of change. */
final class ChangeDataWriterFactory(plain: OutputWriterFactory) extends OutputWriterFactory {
  override def getFileExtension(context: TaskAttemptContext): String = plain.getFileExtension(context)

  override def newInstance(path: String, dataSchema: StructType, context: TaskAttemptContext): OutputWriter =
    if (path.substring(path.lastIndexOf('/') + 1).startsWith(ChangeData.FilePrefix)) {
      plain.newInstance(path, dataSchema, context)
    } else {
      // The column is null in these rows, and the writer skips nulls.
      val conf = new Configuration(context.getConfiguration)
      val schema = StructType(dataSchema.init)
      ParquetWriteSupport.setSchema(schema, conf)
      plain.newInstance(path, schema, new TaskAttemptContextImpl(conf, context.getTaskAttemptID))
    }
}
