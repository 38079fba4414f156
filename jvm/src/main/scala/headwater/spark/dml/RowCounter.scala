package headwater.spark.dml

import org.apache.spark.TaskContext
import org.apache.spark.sql.SparkSession

/**
 * Counts rows: in a job's tasks, or on the driver if Spark evaluates a local relation while it plans. Planning may happen several times;
 * the last one counts.
 */
final class RowCounter private (inTasks: PartitionSumAccumulator) extends Serializable {
  @transient private var planning = 0L

  def begin(): Unit = if (TaskContext.get() == null) planning = 0L

  def count(): Unit = if (TaskContext.get() == null) planning += 1 else inTasks.add(1L)

  def value: Long = planning + inTasks.value
}

object RowCounter {
  def apply(session: SparkSession): RowCounter = {
    val inTasks = new PartitionSumAccumulator
    session.sparkContext.register(inTasks)
    new RowCounter(inTasks)
  }
}
