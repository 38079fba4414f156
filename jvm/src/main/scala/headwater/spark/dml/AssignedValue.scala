package headwater.spark.dml

import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions.{Expression, UnaryExpression, Unevaluable}
import org.apache.spark.sql.catalyst.plans.logical.{Assignment, InsertAction, LogicalPlan, MergeAction, UpdateAction}
import org.apache.spark.sql.types.DataType

/**
 * The value of an assignment. It never counts as resolved: Spark then resolves the value but does not cast it. Spark's own cast would match
 * struct fields by position, and would not name the column of a null that is not allowed. [[PlanHeadwaterDml]] unwraps and casts the value.
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
  /** DEFAULT stays as it is: Spark looks for it where the value is. */
  def wrap(assignments: Seq[Assignment]): Seq[Assignment] = assignments.map {
    case kept @ Assignment(_, UnresolvedAttribute(Seq(name))) if name.equalsIgnoreCase("DEFAULT") => kept
    case assignment => assignment.copy(value = AssignedValue(assignment.value))
  }

  def wrap(action: MergeAction): MergeAction = action match {
    case update: UpdateAction => update.copy(assignments = wrap(update.assignments))
    case insert: InsertAction => insert.copy(assignments = wrap(insert.assignments))
    case other => other
  }

  def unwrap(plan: LogicalPlan): LogicalPlan = plan.transformExpressions { case AssignedValue(value) => value }
}
