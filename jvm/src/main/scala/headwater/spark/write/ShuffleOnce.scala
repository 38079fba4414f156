package headwater.spark.write

import org.apache.spark.sql.catalyst.expressions.{
  Alias, Ascending, Attribute, AttributeMap, Expression, NamedExpression, PlanExpression, SortOrder, UserDefinedExpression
}
import org.apache.spark.sql.catalyst.plans.logical.{
  LogicalPlan, Project, RebalancePartitions, RepartitionByExpression, RepartitionOperation, Sort
}
import org.apache.spark.sql.catalyst.rules.Rule

/**
 * Lets an optimized write and a query that sorts or distributes its rows last have one shuffle in place of two.
 *
 * In a table without partitions, the query's own shuffle gathers the rows: an [[OptimizedWrite]] without keys directly above it gives it
 * the sizes. In a table with partitions, the rows that it sorts or cuts into ranges are so by the partition columns first. That also is the
 * order in which Spark's writer wants them: sorted again by these columns alone, they would lose the query's own. Rows that it distributes
 * by partition columns only are distributed by the write. Anything else keeps its own shuffle.
 */
object ShuffleOnce extends Rule[LogicalPlan] {
  // Upwards, so that a write that was moved down is not met again.
  override def apply(plan: LogicalPlan): LogicalPlan = plan.transformUp {
    case write: OptimizedWrite if !OptimizedWrite.isOneTask(write.child) => moved(write, write.child, write.keys).getOrElse(write)
  }

  /** The rows of `plan`, gathered by `keys` inside it; None where that takes a shuffle of its own. */
  private def moved(write: OptimizedWrite, plan: LogicalPlan, keys: Seq[Expression]): Option[LogicalPlan] = {
    def gathered(shuffle: RepartitionOperation) = write.copy(keys = Nil, child = shuffle)
    plan match {
      case Project(columns, child) if columns.forall(_.deterministic) =>
        below(keys, columns).flatMap(moved(write, child, _)).map(Project(columns, _))
      case sort: Sort if sort.global =>
        val order = partitionsFirst(keys, sort.order)
        Some(sort.copy(order = order, global = false, child = gathered(RepartitionByExpression(order, sort.child, None))))
      case sort: Sort =>
        moved(write, sort.child, keys).map(child => sort.copy(order = partitionsFirst(keys, sort.order), child = child))
      case shuffle: RepartitionByExpression =>
        distributed(write, shuffle.partitionExpressions, shuffle.optNumPartitions, shuffle.child, keys)
      case shuffle: RebalancePartitions =>
        distributed(write, shuffle.partitionExpressions, shuffle.optNumPartitions, shuffle.child, keys)
      case shuffle: RepartitionOperation if shuffle.shuffle && keys.isEmpty => Some(gathered(shuffle))
      case _ => None
    }
  }

  private def distributed(
      write: OptimizedWrite,
      by: Seq[Expression],
      tasks: Option[Int],
      child: LogicalPlan,
      keys: Seq[Expression]): Option[LogicalPlan] = {
    val order = by.collect { case order: SortOrder => order }
    val values = by.map { case SortOrder(value, _, _, _) => value; case value => value }
    if (keys.isEmpty) Some(write.copy(child = RepartitionByExpression(by, child, tasks)))
    else if (by.nonEmpty && values.forall(isIn(keys, _))) Some(write.copy(keys = keys, child = child))
    else if (order.nonEmpty)
      Some(write.copy(keys = Nil, child = RepartitionByExpression(partitionsFirst(keys, order), child, tasks)))
    else None
  }

  /** Keys as expressions over the rows below a projection; None if it would also cost to compute them there. */
  private def below(keys: Seq[Expression], columns: Seq[NamedExpression]): Option[Seq[Expression]] = {
    val values = AttributeMap(columns.collect { case alias: Alias => alias.toAttribute -> alias.child })
    val found = keys.map(_.transform { case key: Attribute => values.getOrElse(key, key) })
    def isCostly(key: Expression) = key.exists {
      case _: UserDefinedExpression | _: PlanExpression[_] => true
      case _ => false
    }
    Option.when(!found.exists(isCostly))(found)
  }

  private def partitionsFirst(keys: Seq[Expression], order: Seq[SortOrder]): Seq[SortOrder] =
    keys.map(key => order.find(_.child.semanticEquals(key)).getOrElse(SortOrder(key, Ascending))) ++
      order.filterNot(each => isIn(keys, each.child))

  private def isIn(keys: Seq[Expression], value: Expression) = keys.exists(_.semanticEquals(value))
}
