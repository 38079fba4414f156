package headwater.spark.scan.late

import java.io.Closeable

import scala.jdk.CollectionConverters._

import org.apache.parquet.column.page.PageReadStore
import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.schema.MessageType
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector
import org.apache.spark.sql.types.DataType

/**
 * A file's row groups, one open at a time, from which [[ParquetValueCursor]]s read the values of late columns.
 *
 * @param namingFile adds the file's name to a failure
 */
private final class LateRowGroups(
    reader: ParquetFileReader,
    types: Array[DataType],
    readers: Array[ParquetValueReader],
    namingFile: (=> Unit) => Unit)
    extends Closeable {

  private val groups = reader.getRowGroups.asScala.toArray
  private var first, end = 0L
  private val found = types.zip(readers).map { case (dataType, read) => new Found(dataType, read) }
  reader.setRequestedSchema {
    val file = reader.getFileMetaData.getSchema
    new MessageType(
      file.getName,
      readers.toSeq.flatMap(_.column).map(column => file.getType(file.getFieldIndex(column.getPath.head))).asJava)
  }

  def columns: Array[LateColumn] = found.map(column => column: LateColumn)

  def asked: Long = found.map(_.asked).max

  private final class Found(dataType: DataType, read: ParquetValueReader) extends LateColumn {
    private var cursor: ParquetValueCursor = _
    var asked = 0L

    override val vector = new OnHeapColumnVector(1, dataType)
    override def row: Int = 0

    override def find(position: Long): Unit = {
      asked += 1
      vector.reset()
      if (read.column.isEmpty) vector.putNull(0) else namingFile(put(position))
    }

    private def put(position: Long): Unit = {
      // Spark asks for rows in ascending order. If it does not, the row group is opened again.
      if (position < first || position >= end || position - first < cursor.following) open(position)
      if (cursor.seek(position - first)) read.put(cursor.values, vector) else vector.putNull(0)
    }

    def enter(group: Int, pages: PageReadStore): Unit = read.column.foreach { column =>
      val chunk = groups(group).getColumns.asScala.find(_.getPath.toArray.sameElements(column.getPath)).get
      val full = column.getMaxDefinitionLevel == 0 || (chunk.getStatistics.isNumNullsSet && chunk.getStatistics.getNumNulls == 0)
      cursor = new ParquetValueCursor(column, pages.getPageReader(column), nullable = !full)
    }
  }

  private def open(position: Long): Unit = {
    val group = groups.indexWhere(known => position < known.getRowIndexOffset + known.getRowCount)
    val pages = reader.readRowGroup(group)
    first = groups(group).getRowIndexOffset
    end = first + groups(group).getRowCount
    found.foreach(_.enter(group, pages))
  }

  override def close(): Unit = reader.close()
}
