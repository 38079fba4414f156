package headwater.spark.dml

import scala.collection.mutable

import org.apache.spark.TaskContext
import org.apache.spark.util.AccumulatorV2

/**
 * A sum over the partitions of one stage, each of which counts once: what a stage's task counted when it was run again, as its output was lost,
 * replaces what it counted before. Spark's own accumulators add it.
 */
final class PartitionSumAccumulator extends AccumulatorV2[Long, Long] {
  private val rows = mutable.HashMap.empty[Int, Long]
  // In a task, a number and no map: Spark's heartbeat reads it while the task counts.
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
