package org.apache.spark.sql.headwater.write

import headwater.spark.write.RowErrors
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}

/**
 * Ends a task's rows at the first one that breaks a rule of the table, and keeps its error for the task's commit ([[RowErrors]]).
 *
 * A bad row is no failure of Spark's. If a task failed with it, Spark would run the task four times in vain, and executor, scheduler and
 * writer would log every frame each time. It runs directly below the writer; the driver removes what the tasks wrote.
 */
case class RowErrorsExec(child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  override protected def doExecute(): RDD[InternalRow] = child.execute().mapPartitionsInternal(new RowErrors(_))

  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan = copy(child = newChild)
}
