package headwater.spark.dml

import scala.collection.mutable

import org.apache.spark.TaskContext
import org.apache.spark.util.AccumulatorV2

/**
 * A sum over the partitions of one stage in which each partition counts once. If a task runs again because its output was lost, its count
 * replaces the earlier one; Spark's own accumulators would add both.
 */
final class PartitionSumAccumulator extends AccumulatorV2[Long, Long] {
  private val rows = mutable.HashMap.empty[Int, Long]
  // A task uses these two instead of the map, as Spark's heartbeat reads the accumulator while the task counts.
  private var partition = PartitionSumAccumulator.None
  private var counted = 0L

  override def isZero: Boolean = rows.isEmpty && partition == PartitionSumAccumulator.None

  override def copy(): PartitionSumAccumulator = {
    val other = new PartitionSumAccumulator
    other.rows ++= rows
    other.partition = partition
    other.counted = counted
    other
  }

  override def reset(): Unit = {
    rows.clear()
    partition = PartitionSumAccumulator.None
    counted = 0L
  }

  override def add(n: Long): Unit = {
    if (partition == PartitionSumAccumulator.None) partition = TaskContext.getPartitionId()
    counted += n
  }

  override def merge(other: AccumulatorV2[Long, Long]): Unit = other match {
    case task: PartitionSumAccumulator =>
      rows ++= task.rows
      if (task.partition != PartitionSumAccumulator.None) rows(task.partition) = task.counted
    case _ => throw new UnsupportedOperationException(s"cannot merge ${other.getClass.getName}")
  }

  override def value: Long = rows.values.sum + counted
}

private object PartitionSumAccumulator {
  val None: Int = -1
}
