package headwater.spark.scan.late

import java.io.Closeable

import org.apache.hadoop.conf.Configuration
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.datasources.v2.FileDataSourceV2
import org.apache.spark.sql.execution.vectorized.{ColumnVectorUtils, ConstantColumnVector, OnHeapColumnVector}
import org.apache.spark.sql.types._
import org.apache.spark.sql.vectorized.{ColumnarBatch, ColumnVector}

/**
 * Reads the rows of files at some positions, in batches: no other value is decoded.
 *
 * @param schema the columns as files have them, all of which [[RowsAtPositions.supports]]
 * @param position the index of the column with the rows' positions, -1 if it is not asked for
 * @param partitionSchema the columns that follow those of the file
 * @param rebaseMode Spark's setting for dates and times in files that do not say which calendar they use
 * @param mostRows the most rows of a batch
 * @param skipsCorrupt whether Spark goes on without a file that cannot be read
 */
final case class RowsAtPositions(
    schema: StructType,
    position: Int,
    partitionSchema: StructType,
    rebaseMode: String,
    mostRows: Int,
    skipsCorrupt: Boolean) {
  private def stored: Array[Int] = schema.indices.filter(_ != position).toArray

  /**
   * Opens a file. None if it stores a column in a way that only Spark's reader supports.
   *
   * @param positions ascending; the file may lack rows at some of them
   */
  def of(file: PartitionedFile, positions: Array[Long], conf: Configuration): Option[Iterator[InternalRow]] =
    LateRowGroups.open(file, stored.map(schema(_)), rebaseMode, conf, positions).map { groups =>
      Option(TaskContext.get()).foreach(_.addTaskCompletionListener[Unit](_ => groups.close()))
      new Batches(file, groups).asInstanceOf[Iterator[InternalRow]]
    }

  private final class Batches(file: PartitionedFile, groups: LateRowGroups) extends Iterator[Any] with Closeable {
    private val positions = groups.found
    private val columns = stored
    private var taken = 0

    override def hasNext: Boolean = taken < positions.length

    override def next(): Any = {
      if (!hasNext) throw new NoSuchElementException
      try {
        val batch = read(math.min(positions.length - taken, mostRows))
        taken += batch.numRows()
        if (!hasNext) close()
        batch
      } catch {
        // Spark does not know the error of another class for one of the file.
        case e: Exception if !skipsCorrupt => throw FileDataSourceV2.attachFilePath(file.urlEncodedPath, e)
      }
    }

    private def read(most: Int): ColumnarBatch = {
      val vectors = schema.map(field => new OnHeapColumnVector(most, field.dataType)).toArray
      val bytes = vectors.filter(vector => RowsAtPositions.hasBytes(vector.dataType)).map(_.arrayData())
      val mostBytes = RowsAtPositions.MostBytes / math.max(bytes.length, 1)
      var row = 0
      while (row < most && bytes.forall(_.getElementsAppended < mostBytes)) {
        val at = positions(taken + row)
        if (position >= 0) vectors(position).putLong(row, at)
        var i = 0
        while (i < columns.length) {
          groups.put(i, at, vectors(columns(i)), row)
          i += 1
        }
        row += 1
      }
      new ColumnarBatch(vectors ++ partitions(row), row)
    }

    private def partitions(rows: Int): Seq[ColumnVector] = partitionSchema.indices.map { i =>
      val vector = new ConstantColumnVector(rows, partitionSchema(i).dataType)
      ColumnVectorUtils.populate(vector, file.partitionValues, i)
      vector
    }

    override def close(): Unit = groups.close()
  }
}

object RowsAtPositions {
  /** A batch ends after so many bytes of texts: a long one that is once in a file's dictionary may be in each row. */
  private val MostBytes = 8 << 20

  /** Whether columns may be read so. */
  def supports(schema: StructType): Boolean = schema.forall(_.dataType match {
    case _: ArrayType | _: MapType | _: StructType | _: VariantType => false
    case _ => true
  })

  private def hasBytes(dataType: DataType): Boolean = dataType match {
    case _: StringType | BinaryType => true
    case decimal: DecimalType => decimal.precision > Decimal.MAX_LONG_DIGITS
    case _ => false
  }
}
