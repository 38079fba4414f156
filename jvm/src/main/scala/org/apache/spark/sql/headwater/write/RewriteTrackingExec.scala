package org.apache.spark.sql.headwater.write

import headwater.spark.write.RewriteTracking
import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder, UnsafeProjection}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}

/**
 * Reads the tracking columns of each row, the last ones ([[RewriteTrackingExec.Columns]]), into the task's [[RewriteTracking]], and passes
 * on the rows to be written without these columns. It runs directly below the writer, in the writer's tasks, so a failed task loses its
 * tracking too.
 */
case class RewriteTrackingExec(child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output.dropRight(RewriteTrackingExec.Columns)
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = Nil

  override protected def doExecute(): RDD[InternalRow] = {
    val (kept, all) = (output, child.output)
    child.execute().mapPartitionsInternal { rows =>
      val tracking = RewriteTracking.ofTask()
      val project = UnsafeProjection.create(kept, all)
      val first = kept.size
      rows.filter(RewriteTrackingExec.note(_, first, tracking)).map(project)
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan = copy(child = newChild)
}

object RewriteTrackingExec {
  /**
   * The number of tracking columns. In this order: the file's number (int) and the row's position in it (bigint), both null if no row is
   * replaced; the action's number (int), null if the row is not counted; whether the row is written (boolean); the number of the source row
   * that found a match (bigint), or null.
   */
  val Columns = 5

  private def note(row: InternalRow, first: Int, tracking: RewriteTracking): Boolean = {
    if (!row.isNullAt(first)) tracking.file(row.getInt(first), row.getLong(first + 1))
    if (!row.isNullAt(first + 2)) tracking.action(row.getInt(first + 2))
    if (!row.isNullAt(first + 4)) tracking.sourceRow(row.getLong(first + 4))
    !row.isNullAt(first + 3) && row.getBoolean(first + 3)
  }

  /** Runs a tracked query without writing its rows. */
  def run(plan: SparkPlan): RewriteTracking = RewriteTracking.merged(
    RewriteTrackingExec(plan).execute().mapPartitions { rows =>
      while (rows.hasNext) rows.next()
      RewriteTracking.find(TaskContext.get()).iterator
    }.collect())
}
