package org.apache.spark.sql.headwater.scan

import headwater.spark.scan.{LateColumnsFile, LateMaterializedBatches}
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.SerializableConfiguration

/**
 * Reads some columns of files late: their values one by one, where somebody asks for them. Spark evaluates a filter or a join's key before
 * the other columns of a row, so the values of rows that are left out are never made, and where all of a file's are left out, not even read.
 * Where many rows are asked for after all, that is dearer than to read them all: the task then goes on with Spark's reader.
 *
 * @param schema the columns as the files have them; `late`: which of these, all of them flat; `position`: where the rows' positions are.
 * @param present reads the other columns.
 * @param whole reads all of them.
 * @param rebaseMode how dates and times of files that do not tell are meant, as Spark's setting says.
 */
final class LateMaterializationReader(
    schema: StructType,
    late: Set[Int],
    rowsPerValue: Int,
    position: Int,
    present: PartitionedFile => Iterator[InternalRow],
    whole: PartitionedFile => Iterator[InternalRow],
    rebaseMode: String,
    conf: Broadcast[SerializableConfiguration])
    extends (PartitionedFile => Iterator[InternalRow]) with Serializable {

  /** Of the task: each has its own copy of this. */
  private var dense = false

  override def apply(file: PartitionedFile): Iterator[InternalRow] =
    if (dense) whole(file)
    else {
      val asked = new LateColumnsFile(file, schema, late.toArray.sorted, position, rebaseMode, conf.value.value, whole)
      new LateMaterializedBatches(
        present(file), asked, schema.length, late, rowsPerValue, schema.indices.filterNot(late).indexOf(position), () => dense = true).asRows
    }
}
