package org.apache.spark.sql.headwater

import org.apache.spark.TaskContext
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{LeafExpression, Nondeterministic, Predicate}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode, FalseLiteral, TrueLiteral}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.util.LongAccumulator

/** How many rows passed by in a job's tasks; or, of rows that Spark has at hand and looks at when it plans, then, which may be several times. */
final class RowCounter private (inTasks: LongAccumulator) extends Serializable {
  @transient private var planning = 0L

  def begin(): Unit = if (TaskContext.get() == null) planning = 0L

  def count(): Unit = if (TaskContext.get() == null) planning += 1 else inTasks.add(1L)

  def value: Long = planning + inTasks.sum
}

object RowCounter {
  def apply(session: SparkSession): RowCounter = {
    val inTasks = new LongAccumulator
    session.sparkContext.register(inTasks)
    new RowCounter(inTasks)
  }
}

/** True for every row, which it counts. */
case class CountRows(counter: RowCounter) extends LeafExpression with Predicate with Nondeterministic {
  override def nullable: Boolean = false
  override def prettyName: String = "hw_counted"
  override protected def initializeInternal(partitionIndex: Int): Unit = counter.begin()
  override protected def evalInternal(input: InternalRow): Any = { counter.count(); true }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val counting = ctx.addReferenceObj("counter", counter)
    ctx.addPartitionInitializationStatement(s"$counting.begin();")
    ev.copy(code = code"$counting.count();", isNull = FalseLiteral, value = TrueLiteral)
  }
}
