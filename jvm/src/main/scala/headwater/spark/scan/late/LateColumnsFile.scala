package headwater.spark.scan.late

import java.io.Closeable

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.datasources.v2.FileDataSourceV2
import org.apache.spark.sql.types.{DataType, StructType}

/**
 * The late columns of one file. The file is opened when the first value is needed. If a late column is stored in a way that
 * [[ParquetValueReader]] does not support, Spark's reader reads all columns instead.
 *
 * @param late the indexes of the late columns in the schema, ascending
 * @param position the index of the column with the rows' positions
 * @param whole reads all columns of a file with Spark's reader
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
    if (columns == null) namingFile(open())
    columns(number)
  }

  /** How many rows' values were read one by one; 0 once Spark's reader reads the file. */
  def asked: Long = if (groups == null) 0 else groups.asked

  /** Switches to Spark's reader for the rest of the file. */
  def readWhole(): Unit = namingFile {
    if (groups != null) groups.close()
    groups = null
    rows = new WholeFileColumns(whole(file), position, namingFile)
    columns = Array.tabulate(schema.length)(rows.column)
  }

  private def open(): Unit = LateRowGroups.open(file, late.map(schema(_)), rebaseMode, conf) match {
    case Some(opened) =>
      groups = opened
      columns = Array.fill(schema.length)(null)
      late.zip(opened.lateColumns(namingFile)).foreach { case (number, column) => columns(number) = column }
    case None => readWhole()
  }

  /** Adds the file's name to a failure, as Spark's own readers do. */
  private def namingFile[T](work: => T): T =
    try work
    catch { case e: Exception => throw FileDataSourceV2.attachFilePath(file.urlEncodedPath, e) }

  override def close(): Unit = try if (groups != null) groups.close()
  finally if (rows != null) rows.close()
}
