package org.apache.spark.sql.headwater

import java.io.Closeable

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.parquet.HadoopReadOptions
import org.apache.parquet.column.page.PageReadStore
import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.hadoop.util.HadoopInputFile
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.{DataSourceUtils, PartitionedFile}
import org.apache.spark.sql.execution.datasources.v2.FileDataSourceV2
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector
import org.apache.spark.sql.internal.LegacyBehaviorPolicy
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.sql.vectorized.{ColumnarBatch, ColumnVector}

/** A late column of a file, of which one value is at hand at a time: that of `row` in `vector`. */
private[headwater] abstract class LateColumn {
  /** Has the value of a row, given by its position in the file. */
  def find(position: Long): Unit
  def vector: ColumnVector
  def row: Int
}

/**
 * The late columns of a file, which is opened when the first value is asked for. Where it has one of them in a way that [[ValueReader]] does
 * not know, all of them are read by Spark's reader.
 *
 * @param late which columns of the schema, in order.
 * @param whole reads all columns.
 */
private[headwater] final class LateFile(
    file: PartitionedFile,
    schema: StructType,
    late: Array[Int],
    position: Int,
    rebaseMode: String,
    conf: Configuration,
    whole: PartitionedFile => Iterator[InternalRow])
    extends Closeable {
  private var columns: Array[LateColumn] = _
  private var groups: RowGroups = _
  private var rows: RowsBySpark = _

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
    rows = new RowsBySpark(whole(file), position, naming)
    columns = Array.tabulate(schema.length)(rows.column)
  }

  private def open(): Unit = {
    val reader = ParquetFileReader.open(HadoopInputFile.fromPath(file.toPath, conf), HadoopReadOptions.builder(conf, file.toPath).build())
    try {
      val metadata = reader.getFooter.getFileMetaData
      val rebases = DataSourceUtils.datetimeRebaseSpec(metadata.getKeyValueMetaData.get, rebaseMode).mode != LegacyBehaviorPolicy.CORRECTED
      val readers = late.map(column => ValueReader.of(schema(column), metadata.getSchema, rebases))
      if (readers.forall(_.isDefined)) {
        groups = new RowGroups(reader, late.map(schema(_).dataType), readers.flatten, naming)
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

/** A file's row groups, one open at a time. */
private final class RowGroups(reader: ParquetFileReader, types: Array[DataType], readers: Array[ValueReader], naming: (=> Unit) => Unit) extends Closeable {
  private val groups = reader.getRowGroups.asScala.toArray
  private var first, end = 0L
  private val found = types.zip(readers).map { case (dataType, read) => new Found(dataType, read) }
  reader.setRequestedSchema(readers.flatMap(_.column).toSeq.asJava)

  def columns: Array[LateColumn] = found.map(column => column: LateColumn)

  def asked: Long = found.map(_.asked).max

  private final class Found(dataType: DataType, read: ValueReader) extends LateColumn {
    private var cursor: ValueCursor = _
    var asked = 0L

    override val vector = new OnHeapColumnVector(1, dataType)
    override def row: Int = 0

    override def find(position: Long): Unit = {
      asked += 1
      vector.reset()
      if (read.column.isEmpty) vector.putNull(0) else naming(put(position))
    }

    private def put(position: Long): Unit = {
      // Rows are asked for in order. Should they not be, the row group is read again.
      if (position < first || position >= end || position - first < cursor.following) open(position)
      if (cursor.seek(position - first)) read.put(cursor.values, vector) else vector.putNull(0)
    }

    def enter(group: Int, pages: PageReadStore): Unit = read.column.foreach { column =>
      val chunk = groups(group).getColumns.asScala.find(_.getPath.toArray.sameElements(column.getPath)).get
      val full = column.getMaxDefinitionLevel == 0 || (chunk.getStatistics.isNumNullsSet && chunk.getStatistics.getNumNulls == 0)
      cursor = new ValueCursor(column, pages.getPageReader(column), nullable = !full)
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

/** A file's batches by Spark's reader, one at hand at a time. `position`: the column of the rows' positions. */
private final class RowsBySpark(source: Iterator[InternalRow], position: Int, naming: (=> Unit) => Unit) extends RowsOrBatches(source) {
  private var batch: ColumnarBatch = _
  private var row = 0

  override def hasNext: Boolean = rows.hasNext
  override def next(): Any = rows.next()

  def column(number: Int): LateColumn = new LateColumn {
    override def find(position: Long): Unit = naming(reach(position))
    override def vector: ColumnVector = batch.column(number)
    override def row: Int = RowsBySpark.this.row
  }

  private def reach(wanted: Long): Unit = {
    while (batch == null || at(batch.numRows() - 1) < wanted) {
      batch = next().asInstanceOf[ColumnarBatch]
      row = 0
    }
    if (at(row) > wanted) row = 0
    while (at(row) < wanted) row += 1
  }

  private def at(row: Int): Long = batch.column(position).getLong(row)
}
