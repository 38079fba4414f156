package headwater.spark.scan.late

import java.io.Closeable

import org.apache.hadoop.conf.Configuration
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.datasources.v2.FileDataSourceV2
import org.apache.spark.sql.execution.vectorized.{ColumnVectorUtils, ConstantColumnVector, OnHeapColumnVector}
import org.apache.spark.sql.types.{ArrayType, DataType, MapType, StructType, VariantType}
import org.apache.spark.sql.vectorized.{ColumnarBatch, ColumnVector}

/**
 * The rows of a file at some positions, in batches: no other value is decoded.
 *
 * @param position the index of the column with the rows' positions, -1 if there is none
 * @param partitionSchema the columns that follow those of the file
 */
final class RowsAtPositions private (
    file: PartitionedFile,
    groups: LateRowGroups,
    schema: StructType,
    position: Int,
    partitionSchema: StructType)
    extends Iterator[Any]
    with Closeable {
  private val positions = groups.found
  private val stored = RowsAtPositions.stored(schema, position)
  private var taken = 0

  override def hasNext: Boolean = taken < positions.length

  override def next(): Any = {
    if (!hasNext) throw new NoSuchElementException
    try {
      val batch = read(math.min(positions.length - taken, RowsAtPositions.MostOfBatch))
      taken += batch.numRows()
      if (!hasNext) close()
      batch
    } catch { case e: Exception => throw FileDataSourceV2.attachFilePath(file.urlEncodedPath, e) }
  }

  private def read(count: Int): ColumnarBatch = {
    val vectors = schema.map(field => new OnHeapColumnVector(count, field.dataType)).toArray
    var row = 0
    while (row < count) {
      val at = positions(taken + row)
      if (position >= 0) vectors(position).putLong(row, at)
      var i = 0
      while (i < stored.length) {
        groups.put(i, at, vectors(stored(i)), row)
        i += 1
      }
      row += 1
    }
    new ColumnarBatch(vectors ++ partitions(count), count)
  }

  private def partitions(rows: Int): Seq[ColumnVector] = partitionSchema.indices.map { i =>
    val vector = new ConstantColumnVector(rows, partitionSchema(i).dataType)
    ColumnVectorUtils.populate(vector, file.partitionValues, i)
    vector
  }

  override def close(): Unit = groups.close()
}

object RowsAtPositions {
  private val MostOfBatch = 4096

  private def stored(schema: StructType, position: Int): Array[Int] = schema.indices.filter(_ != position).toArray

  /** Whether columns may be read so. */
  def supports(schema: StructType): Boolean = schema.forall(field => isFlat(field.dataType))

  private def isFlat(dataType: DataType): Boolean = dataType match {
    case _: ArrayType | _: MapType | _: StructType | _: VariantType => false
    case _ => true
  }

  /**
   * Opens a file. None if it stores a column in a way that only Spark's reader supports.
   *
   * @param schema the columns as the file has them
   * @param position the index of the column with the rows' positions, -1 if there is none
   * @param positions ascending; the file may lack rows at some of them
   */
  def of(
      file: PartitionedFile,
      schema: StructType,
      position: Int,
      positions: Array[Long],
      partitionSchema: StructType,
      rebaseMode: String,
      conf: Configuration): Option[Iterator[InternalRow]] =
    LateRowGroups.open(file, stored(schema, position).map(schema(_)), rebaseMode, conf, Some(positions)).map { groups =>
      Option(TaskContext.get()).foreach(_.addTaskCompletionListener[Unit](_ => groups.close()))
      new RowsAtPositions(file, groups, schema, position, partitionSchema).asInstanceOf[Iterator[InternalRow]]
    }
}
