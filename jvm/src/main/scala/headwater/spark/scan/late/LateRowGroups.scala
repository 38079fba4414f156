package headwater.spark.scan.late

import java.io.Closeable
import java.util.stream.IntStream

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.parquet.HadoopReadOptions
import org.apache.parquet.column.ColumnDescriptor
import org.apache.parquet.column.page.PageReadStore
import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.hadoop.metadata.{BlockMetaData, ColumnChunkMetaData}
import org.apache.parquet.hadoop.util.HadoopInputFile
import org.apache.parquet.internal.column.columnindex.OffsetIndex
import org.apache.parquet.internal.filter2.columnindex.RowRanges
import org.apache.parquet.schema.MessageType
import org.apache.spark.sql.execution.datasources.{DataSourceUtils, PartitionedFile}
import org.apache.spark.sql.execution.vectorized.{OnHeapColumnVector, WritableColumnVector}
import org.apache.spark.sql.internal.LegacyBehaviorPolicy
import org.apache.spark.sql.types.{DataType, StructField}

/**
 * A file's row groups, one open at a time, from which [[ParquetValueCursor]]s read the values of some columns.
 *
 * @param wanted the positions that are asked for, ascending; pages without them are not read. None where they are not known.
 */
private final class LateRowGroups private (
    reader: ParquetFileReader,
    types: Array[DataType],
    readers: Array[ParquetValueReader],
    wanted: Array[Long])
    extends Closeable {

  private val groups = reader.getRowGroups.asScala.toArray
  private var first, end = 0L
  private val columns = readers.map(new Column(_))
  reader.setRequestedSchema {
    val file = reader.getFileMetaData.getSchema
    new MessageType(
      file.getName,
      readers.toSeq.flatMap(_.column).map(column => file.getType(file.getFieldIndex(column.getPath.head))).asJava)
  }

  /** @param namingFile adds the file's name to a failure */
  def lateColumns(namingFile: (=> Unit) => Unit): Array[LateColumn] = types.indices.map(new Late(_, namingFile): LateColumn).toArray

  /** How many values of a column were read, of the one with the most. */
  def asked: Long = columns.map(_.asked).max

  /** The positions that are asked for and that the file has; of a part of a file, those that this part has. */
  def found: Array[Long] = wanted.filter(position => groups.exists(contains(_, position)))

  /** Puts a column's value at a position into a row of a vector. */
  def put(column: Int, position: Long, vector: WritableColumnVector, row: Int): Unit = columns(column).put(position, vector, row)

  private final class Late(column: Int, namingFile: (=> Unit) => Unit) extends LateColumn {
    override val vector = new OnHeapColumnVector(1, types(column))
    override def row: Int = 0

    override def find(position: Long): Unit = {
      vector.reset()
      namingFile(put(column, position, vector, 0))
    }
  }

  private final class Column(read: ParquetValueReader) {
    private var cursor: ParquetValueCursor = _
    var asked = 0L

    def put(position: Long, vector: WritableColumnVector, row: Int): Unit = {
      asked += 1
      if (read.column.isEmpty) vector.putNull(row)
      else {
        // Spark asks for rows in ascending order. If it does not, the row group is opened again.
        if (position < first || position >= end || position - first < cursor.following) open(position)
        if (cursor.seek(position - first)) read.put(cursor.values, vector, row) else vector.putNull(row)
      }
    }

    def enter(group: Int, pages: PageReadStore): Unit = read.column.foreach { column =>
      val stored = chunk(group, column)
      val full = column.getMaxDefinitionLevel == 0 || (stored.getStatistics.isNumNullsSet && stored.getStatistics.getNumNulls == 0)
      cursor = new ParquetValueCursor(column, pages.getPageReader(column), nullable = !full)
    }
  }

  private def open(position: Long): Unit = {
    val group = groups.indexWhere(contains(_, position))
    val pages = filtered(group).getOrElse(reader.readRowGroup(group))
    first = groups(group).getRowIndexOffset
    end = first + groups(group).getRowCount
    columns.foreach(_.enter(group, pages))
  }

  /** The pages of a group with positions that are asked for, unless most of its pages have some. */
  private def filtered(group: Int): Option[PageReadStore] = {
    val known = groups(group)
    val rows = wanted.filter(contains(known, _)).map(_ - known.getRowIndexOffset)
    val columns = readers.flatMap(_.column.map(chunk(group, _)))
    val indexed = columns.nonEmpty && columns.forall(_.getOffsetIndexReference != null)
    if (rows.isEmpty || !indexed || rows.length > pages(group, columns.toSeq)) None
    else {
      val ranges = RowRanges.create(known.getRowCount, IntStream.range(0, rows.length).iterator, new RowsAsPages(rows))
      // Its type is of a class that no other package may name.
      val pages: PageReadStore = reader.readFilteredRowGroup(group, ranges)
      Some(pages)
    }
  }

  /** The pages of the column that has the most. */
  private def pages(group: Int, columns: Seq[ColumnChunkMetaData]): Int = {
    val indexes = reader.getColumnIndexStore(group)
    columns.map(column => indexes.getOffsetIndex(column.getPath).getPageCount).max
  }

  private def chunk(group: Int, column: ColumnDescriptor): ColumnChunkMetaData =
    groups(group).getColumns.asScala.find(_.getPath.toArray.sameElements(column.getPath)).get

  private def contains(group: BlockMetaData, position: Long): Boolean =
    position >= group.getRowIndexOffset && position - group.getRowIndexOffset < group.getRowCount

  override def close(): Unit = reader.close()
}

/** An index of pages of one row each: Parquet's ranges of rows are made of pages. */
private final class RowsAsPages(rows: Array[Long]) extends OffsetIndex {
  override def getPageCount: Int = rows.length
  override def getFirstRowIndex(page: Int): Long = rows(page)
  override def getLastRowIndex(page: Int, rowsOfGroup: Long): Long = rows(page)
  override def getOffset(page: Int): Long = throw new UnsupportedOperationException
  override def getCompressedPageSize(page: Int): Int = throw new UnsupportedOperationException
  override def getPageOrdinal(page: Int): Int = throw new UnsupportedOperationException
}

private object LateRowGroups {
  /**
   * Opens a file, or the part of it that a task reads. None if it stores one of the columns in a way that [[ParquetValueReader]] does not
   * support.
   *
   * @param rebaseMode Spark's setting for dates and times in files that do not say which calendar they use
   * @param wanted as of the class
   */
  def open(
      file: PartitionedFile,
      fields: Array[StructField],
      rebaseMode: String,
      conf: Configuration,
      wanted: Array[Long] = Array.empty): Option[LateRowGroups] = {
    val options = HadoopReadOptions.builder(conf, file.toPath).withRange(file.start, file.start + file.length).build()
    val reader = ParquetFileReader.open(HadoopInputFile.fromPath(file.toPath, conf), options)
    var opened: Option[LateRowGroups] = None
    try {
      val metadata = reader.getFooter.getFileMetaData
      val rebases = DataSourceUtils.datetimeRebaseSpec(metadata.getKeyValueMetaData.get, rebaseMode).mode != LegacyBehaviorPolicy.CORRECTED
      val readers = fields.map(ParquetValueReader.of(_, metadata.getSchema, rebases))
      if (readers.forall(_.isDefined)) opened = Some(new LateRowGroups(reader, fields.map(_.dataType), readers.flatten, wanted))
    } finally if (opened.isEmpty) reader.close()
    opened
  }
}
