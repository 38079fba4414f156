package headwater.spark.scan

import java.io.Closeable

import org.apache.hadoop.conf.Configuration
import org.apache.parquet.HadoopReadOptions
import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.hadoop.util.HadoopInputFile
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.{DataSourceUtils, PartitionedFile}
import org.apache.spark.sql.execution.datasources.v2.FileDataSourceV2
import org.apache.spark.sql.internal.LegacyBehaviorPolicy
import org.apache.spark.sql.types.{DataType, StructType}

/**
 * The late columns of a file, which is opened when the first value is asked for. Where it has one of them in a way that [[ParquetValueReader]] does
 * not know, all of them are read by Spark's reader.
 *
 * @param late which columns of the schema, in order.
 * @param whole reads all columns.
 */
final class LateColumnsFile(
    file: PartitionedFile,
    schema: StructType,
    late: Array[Int],
    position: Int,
    rebaseMode: String,
    conf: Configuration,
    whole: PartitionedFile => Iterator[InternalRow])
    extends Closeable {
  private var columns: Array[LateColumn] = _
  private var groups: LateRowGroups = _
  private var rows: WholeFileColumns = _

  def typeOf(column: Int): DataType = schema(column).dataType

  def column(number: Int): LateColumn = {
    if (columns == null) naming(open())
    columns(number)
  }

  /** How many rows' values were asked for, until they were read by Spark's reader. */
  def asked: Long = if (groups == null) 0 else groups.asked

  /** From now on, by Spark's reader. */
  def readWhole(): Unit = naming {
    if (groups != null) groups.close()
    groups = null
    rows = new WholeFileColumns(whole(file), position, naming)
    columns = Array.tabulate(schema.length)(rows.column)
  }

  private def open(): Unit = {
    val reader = ParquetFileReader.open(HadoopInputFile.fromPath(file.toPath, conf), HadoopReadOptions.builder(conf, file.toPath).build())
    try {
      val metadata = reader.getFooter.getFileMetaData
      val rebases = DataSourceUtils.datetimeRebaseSpec(metadata.getKeyValueMetaData.get, rebaseMode).mode != LegacyBehaviorPolicy.CORRECTED
      val readers = late.map(column => ParquetValueReader.of(schema(column), metadata.getSchema, rebases))
      if (readers.forall(_.isDefined)) {
        groups = new LateRowGroups(reader, late.map(schema(_).dataType), readers.flatten, naming)
        columns = Array.fill(schema.length)(null)
        late.zip(groups.columns).foreach { case (number, column) => columns(number) = column }
      }
    } finally if (groups == null) reader.close()
    if (groups == null) readWhole()
  }

  /** A failure is told with the file's name, as Spark does where it reads one itself. */
  private def naming[T](work: => T): T =
    try work catch { case e: Exception => throw FileDataSourceV2.attachFilePath(file.urlEncodedPath, e) }

  override def close(): Unit = try if (groups != null) groups.close() finally if (rows != null) rows.close()
}
