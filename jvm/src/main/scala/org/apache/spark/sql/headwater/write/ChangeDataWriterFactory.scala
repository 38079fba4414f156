package org.apache.spark.sql.headwater.write

import headwater.spark.write.ChangeData
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.mapreduce.TaskAttemptContext
import org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl
import org.apache.spark.sql.execution.datasources.{OutputWriter, OutputWriterFactory}
import org.apache.spark.sql.execution.datasources.parquet.ParquetWriteSupport
import org.apache.spark.sql.types.StructType

/** Of a job that writes rows and change data, only the files of change data have the column that tells the kind of change. */
private[headwater] final class ChangeDataWriterFactory(plain: OutputWriterFactory) extends OutputWriterFactory {
  override def getFileExtension(context: TaskAttemptContext): String = plain.getFileExtension(context)

  override def newInstance(path: String, dataSchema: StructType, context: TaskAttemptContext): OutputWriter =
    if (path.substring(path.lastIndexOf('/') + 1).startsWith(ChangeData.FilePrefix)) {
      plain.newInstance(path, dataSchema, context)
    } else {
      // The column is the last one and null in these rows, and nulls are not written.
      val conf = new Configuration(context.getConfiguration)
      val schema = StructType(dataSchema.init)
      ParquetWriteSupport.setSchema(schema, conf)
      plain.newInstance(path, schema, new TaskAttemptContextImpl(conf, context.getTaskAttemptID))
    }
}
