package org.apache.spark.sql.headwater.scan

import headwater.spark.scan.late.{LateColumnsFile, LateMaterializedBatches}
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.SerializableConfiguration

/**
 * Late materialization: reads some columns only for rows that need them. Spark evaluates a filter or a join key before it reads the other
 * columns of a row. So values of rows that are filtered out are never decoded, and if a file has no other rows, its late columns are not
 * even read. If many rows need their values, one by one is slower than all at once: the task then continues with Spark's reader.
 *
 * @param schema the columns as the files have them
 * @param late the indexes of the late columns, which are all flat
 * @param rowsPerValue see [[LateMaterialization]]
 * @param position the index of the column with the rows' positions
 * @param present reads the other columns
 * @param whole reads all columns
 * @param rebaseMode Spark's setting for dates and times in files that do not say which calendar they use
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

  /** Whether this task has switched to Spark's reader; each task has its own copy of this object. */
  private var dense = false

  override def apply(file: PartitionedFile): Iterator[InternalRow] =
    if (dense) whole(file)
    else {
      val asked = new LateColumnsFile(file, schema, late.toArray.sorted, position, rebaseMode, conf.value.value, whole)
      new LateMaterializedBatches(
        present(file),
        asked,
        schema.length,
        late,
        rowsPerValue,
        schema.indices.filterNot(late).indexOf(position),
        () => dense = true).asRows
    }
}
