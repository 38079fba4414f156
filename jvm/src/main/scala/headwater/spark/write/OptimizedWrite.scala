package headwater.spark.write

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{
  Aggregate, Filter, GlobalLimit, LogicalPlan, Project, Range, RepartitionOperation, SubqueryAlias, UnaryNode
}

/**
 * Rows on their way into files (`OPTIMIZED_WRITE`): those of one table partition come to one task, and as many tasks share them as it takes
 * for each to have about `bytes` of shuffle. `keys` are the partition columns.
 */
case class OptimizedWrite(keys: Seq[Expression], partitions: Int, bytes: Long, child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override def maxRows: Option[Long] = child.maxRows
  override protected def withNewChildInternal(newChild: LogicalPlan): LogicalPlan = copy(child = newChild)
}

object OptimizedWrite {
  val Hint = "OPTIMIZED_WRITE"

  /** Whether a plan's rows are known to come from one task: there is nothing to gather then. */
  def isOneTask(plan: LogicalPlan): Boolean = plan.maxRows.exists(_ <= 1) ||
    (plan match {
      case one: RepartitionOperation => one.numPartitions == 1
      case range: Range => range.numSlices.contains(1)
      case _: GlobalLimit => true
      case total: Aggregate => total.groupingExpressions.isEmpty
      case Project(_, child) => isOneTask(child)
      case Filter(_, child) => isOneTask(child)
      case SubqueryAlias(_, child) => isOneTask(child)
      case _ => false
    })
}
