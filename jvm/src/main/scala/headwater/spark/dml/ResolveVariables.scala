package headwater.spark.dml

import headwater.spark.catalog.{CatalogRelation, HeadwaterTable}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.Inner
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.headwater.dml.VariableResolver

/**
 * Resolves SQL variables where Spark only looks for columns: in the conditions and values of UPDATE and MERGE, and in REPLACE WHERE.
 * Columns come first, in the scope that Spark gives each clause.
 */
case class ResolveVariables(session: SparkSession) extends Rule[LogicalPlan] {
  private lazy val names = new VariableResolver(session)

  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case update @ UpdateTable(target @ DmlTarget(_, _), assignments, condition) if !update.resolved =>
      update.copy(assignments = valued(assignments, target), condition = condition.map(names.resolve(_, target)))
    case merge @ MergeIntoTable(target @ DmlTarget(_, _), source, condition, matched, notMatched, notMatchedBySource, _)
        if !merge.resolved && source.resolved =>
      val both = Join(target, source, Inner, None, JoinHint.NONE)
      merge.copy(
        mergeCondition = names.resolve(condition, both),
        matchedActions = matched.map(resolve(_, both)),
        notMatchedActions = notMatched.map(resolve(_, source)),
        notMatchedBySourceActions = notMatchedBySource.map(resolve(_, target)))
    case other => other.resolveOperatorsDown {
        case overwrite: OverwriteByExpression if !overwrite.deleteExpr.resolved =>
          overwrite.table match {
            case table @ CatalogRelation(_: HeadwaterTable, _, _) =>
              overwrite.copy(deleteExpr = names.resolve(overwrite.deleteExpr, table))
            case _ => overwrite
          }
      }
  }

  private def resolve(action: MergeAction, scope: LogicalPlan): MergeAction = action match {
    case delete: DeleteAction => delete.copy(condition = resolve(delete.condition, scope))
    case update: UpdateAction => update.copy(condition = resolve(update.condition, scope), assignments = valued(update.assignments, scope))
    case insert: InsertAction => insert.copy(condition = resolve(insert.condition, scope), assignments = valued(insert.assignments, scope))
    case other => other
  }

  private def resolve(condition: Option[Expression], scope: LogicalPlan): Option[Expression] = condition.map(names.resolve(_, scope))

  private def valued(assignments: Seq[Assignment], scope: LogicalPlan): Seq[Assignment] =
    assignments.map(assignment => assignment.copy(value = names.resolve(assignment.value, scope)))
}
