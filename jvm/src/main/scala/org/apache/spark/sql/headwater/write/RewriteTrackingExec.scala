package org.apache.spark.sql.headwater.write

import headwater.spark.write.RewriteTracking
import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder, UnsafeProjection}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}

/**
 * Notes what the last columns of each row say ([[RewriteTrackingExec.Columns]]) and passes on, without them, the rows that are to be written. It
 * stands right below the writer, in the writer's own tasks, so that what a failed task noted is lost with it.
 */
case class RewriteTrackingExec(child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output.dropRight(RewriteTrackingExec.Columns)
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = Nil

  override protected def doExecute(): RDD[InternalRow] = {
    val (kept, all) = (output, child.output)
    child.execute().mapPartitionsInternal { rows =>
      val noted = RewriteTracking.ofTask()
      val project = UnsafeProjection.create(kept, all)
      val first = kept.size
      rows.filter(RewriteTrackingExec.note(_, first, noted)).map(project)
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan = copy(child = newChild)
}

object RewriteTrackingExec {
  /**
   * So many columns are the last ones of a tracked query, in this order: the file's number (int) and the row's position in it (bigint), both null where no row
   * is replaced; the action's number (int), null where the row is not to be counted; whether the row is written (boolean); the number of
   * the source row that found a match (bigint), or null.
   */
  val Columns = 5

  private def note(row: InternalRow, first: Int, noted: RewriteTracking): Boolean = {
    if (!row.isNullAt(first)) noted.file(row.getInt(first), row.getLong(first + 1))
    if (!row.isNullAt(first + 2)) noted.action(row.getInt(first + 2))
    if (!row.isNullAt(first + 4)) noted.sourceRow(row.getLong(first + 4))
    !row.isNullAt(first + 3) && row.getBoolean(first + 3)
  }

  /** Runs a tracked query whose rows are not written anywhere. */
  def run(plan: SparkPlan): RewriteTracking = RewriteTracking.merged(
    RewriteTrackingExec(plan).execute().mapPartitions { rows =>
      while (rows.hasNext) rows.next()
      RewriteTracking.find(TaskContext.get()).iterator
    }.collect())
}
