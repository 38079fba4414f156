package headwater.spark.dml

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule

/** Gives [[ApiColumn]]s the statement's attributes, once its tables are resolved and the target has the columns it will have. */
case class ResolveApiColumns(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case merge: MergeIntoTable if isReady(merge.targetTable) && merge.sourceTable.resolved =>
      fill(merge, merge.targetTable.output, merge.sourceTable.output)
    case update: UpdateTable if isReady(update.table) => fill(update, update.table.output, Nil)
    case delete: DeleteFromTable if isReady(delete.table) => fill(delete, delete.table.output, Nil)
    case other => other
  }

  private def isReady(target: LogicalPlan): Boolean = target.resolved && PendingTarget.unapply(target).isEmpty

  private def fill(statement: LogicalPlan, target: Seq[Attribute], source: Seq[Attribute]): LogicalPlan =
    statement.transformExpressions { case column: ApiColumn => column.over(target, source, conf.resolver) }
}
