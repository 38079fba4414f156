package headwater.spark.write

import org.apache.hadoop.mapreduce.TaskAttemptContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.{OutputWriter, OutputWriterFactory}
import org.apache.spark.sql.types.StructType

/** Writers that refuse a row with a null that the schema forbids, as nobody could read the file. */
final class NullCheckingWriterFactory(plain: OutputWriterFactory) extends OutputWriterFactory {
  override def getFileExtension(context: TaskAttemptContext): String = plain.getFileExtension(context)

  override def newInstance(path: String, dataSchema: StructType, context: TaskAttemptContext): OutputWriter = {
    val writer = plain.newInstance(path, dataSchema, context)
    val nulls = new ForbiddenNulls(dataSchema, "to be written")
    new OutputWriter {
      override def path(): String = writer.path()
      override def write(row: InternalRow): Unit = { nulls.check(row); writer.write(row) }
      override def close(): Unit = writer.close()
    }
  }
}
