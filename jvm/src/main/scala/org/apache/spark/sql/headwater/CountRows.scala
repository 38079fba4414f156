package org.apache.spark.sql.headwater

import scala.collection.mutable

import org.apache.spark.TaskContext
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{LeafExpression, Nondeterministic, Predicate}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode, FalseLiteral, TrueLiteral}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.util.AccumulatorV2

/** How many rows passed by in a job's tasks; or, of rows that Spark has at hand and looks at when it plans, then, which may be several times. */
final class RowCounter private (inTasks: RowsOfPartitions) extends Serializable {
  @transient private var planning = 0L

  def begin(): Unit = if (TaskContext.get() == null) planning = 0L

  def count(): Unit = if (TaskContext.get() == null) planning += 1 else inTasks.add(1L)

  def value: Long = planning + inTasks.value
}

object RowCounter {
  def apply(session: SparkSession): RowCounter = {
    val inTasks = new RowsOfPartitions
    session.sparkContext.register(inTasks)
    new RowCounter(inTasks)
  }
}

/**
 * A sum over the partitions of one stage, each of which counts once: what a stage's task counted when it was run again, as its output was lost,
 * replaces what it counted before. Spark's own accumulators add it.
 */
final class RowsOfPartitions extends AccumulatorV2[Long, Long] {
  private val rows = mutable.HashMap.empty[Int, Long]
  // In a task, a number and no map: Spark's heartbeat reads it while the task counts.
  private var partition = RowsOfPartitions.None
  private var counted = 0L

  override def isZero: Boolean = rows.isEmpty && partition == RowsOfPartitions.None

  override def copy(): RowsOfPartitions = {
    val other = new RowsOfPartitions
    other.rows ++= rows
    other.partition = partition
    other.counted = counted
    other
  }

  override def reset(): Unit = {
    rows.clear()
    partition = RowsOfPartitions.None
    counted = 0L
  }

  override def add(n: Long): Unit = {
    if (partition == RowsOfPartitions.None) partition = TaskContext.getPartitionId()
    counted += n
  }

  override def merge(other: AccumulatorV2[Long, Long]): Unit = other match {
    case task: RowsOfPartitions =>
      rows ++= task.rows
      if (task.partition != RowsOfPartitions.None) rows(task.partition) = task.counted
    case _ => throw new UnsupportedOperationException(s"cannot merge ${other.getClass.getName}")
  }

  override def value: Long = rows.values.sum + counted
}

private object RowsOfPartitions {
  val None: Int = -1
}

/** True for every row, which it counts. */
case class CountRows(counter: RowCounter) extends LeafExpression with Predicate with Nondeterministic {
  override def nullable: Boolean = false
  override def prettyName: String = "count_row"
  override protected def initializeInternal(partitionIndex: Int): Unit = counter.begin()
  override protected def evalInternal(input: InternalRow): Any = { counter.count(); true }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val counting = ctx.addReferenceObj("counter", counter)
    ctx.addPartitionInitializationStatement(s"$counting.begin();")
    ev.copy(code = code"$counting.count();", isNull = FalseLiteral, value = TrueLiteral)
  }
}
