package org.apache.spark.sql.headwater

import java.util.concurrent.ConcurrentHashMap

import headwater.spark.HeadwaterRowException
import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}

/**
 * Ends a task's rows at one that breaks a rule of the table, and keeps the error for the task's commit to hand over.
 *
 * A mistake in the rows is no failure of Spark's: a task that fails with it is run again in vain, four times, and each time executor,
 * scheduler and writer log it with every frame there is. It stands right below the writer; what the tasks wrote is removed on the driver.
 */
case class RowErrorsExec(child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  override protected def doExecute(): RDD[InternalRow] = child.execute().mapPartitionsInternal(new RowErrors(_))

  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan = copy(child = newChild)
}

private final class RowErrors(rows: Iterator[InternalRow]) extends Iterator[InternalRow] {
  private var ahead: InternalRow = _
  private var ended = false

  /** Some iterators make a row when they are asked whether there is one, others when it is taken. */
  override def hasNext: Boolean = ahead != null || (!ended && {
    try { if (rows.hasNext) ahead = rows.next() else ended = true }
    catch { case e: HeadwaterRowException => RowErrors.note(e); ended = true }
    !ended
  })

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException("no more rows")
    val row = ahead
    ahead = null
    row
  }
}

object RowErrors {
  private val ofTasks = new ConcurrentHashMap[Long, HeadwaterRowException]()

  private def note(error: HeadwaterRowException): Unit = {
    val task = TaskContext.get()
    ofTasks.put(task.taskAttemptId(), error)
    task.addTaskCompletionListener[Unit]((_: TaskContext) => ofTasks.remove(task.taskAttemptId()))
  }

  /** What ended the rows of a task. */
  def find(task: TaskContext): Option[HeadwaterRowException] = Option(task).flatMap(t => Option(ofTasks.get(t.taskAttemptId())))
}
