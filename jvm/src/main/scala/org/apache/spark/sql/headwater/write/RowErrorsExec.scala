package org.apache.spark.sql.headwater.write

import headwater.spark.write.RowErrors
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
