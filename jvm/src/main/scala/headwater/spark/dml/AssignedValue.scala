package headwater.spark.dml

import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions.{Expression, UnaryExpression, Unevaluable}
import org.apache.spark.sql.catalyst.plans.logical.{Assignment, InsertAction, LogicalPlan, MergeAction, UpdateAction}
import org.apache.spark.sql.types.DataType

/**
 * A value on its way to a column. It never counts as resolved, so that Spark resolves what is in it but does not cast it: Spark would cast
 * structs by the order of their fields and give no name to a null that must not be. [[PlanHeadwaterDml]] takes the value out and fits it.
 */
case class AssignedValue(child: Expression) extends UnaryExpression with Unevaluable {
  override lazy val resolved: Boolean = false
  override def dataType: DataType = child.dataType
  override def nullable: Boolean = child.nullable
  override def sql: String = child.sql
  override def toString: String = child.toString
  override protected def withNewChildInternal(newChild: Expression): Expression = copy(child = newChild)
}

object AssignedValue {
  /** Spark looks for DEFAULT in the place of a value. */
  def holding(assignments: Seq[Assignment]): Seq[Assignment] = assignments.map {
    case kept @ Assignment(_, UnresolvedAttribute(Seq(name))) if name.equalsIgnoreCase("DEFAULT") => kept
    case assignment => assignment.copy(value = AssignedValue(assignment.value))
  }

  def holding(action: MergeAction): MergeAction = action match {
    case update: UpdateAction => update.copy(assignments = holding(update.assignments))
    case insert: InsertAction => insert.copy(assignments = holding(insert.assignments))
    case other => other
  }

  def released(plan: LogicalPlan): LogicalPlan = plan.transformExpressions { case AssignedValue(value) => value }
}
