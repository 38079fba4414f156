package headwater.spark.shims

import org.apache.spark.sql.catalyst.analysis.AssignmentUtils
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{Assignment, UpdateAction}
import org.apache.spark.sql.internal.SQLConf

/** Clauses of MERGE, and what they assign. This Spark does not keep what came from a star, and fills no fields of structs. */
object MergeShim {
  /** What UPDATE SET * stands for. */
  def updateOfStar(condition: Option[Expression], assignments: Seq[Assignment]): UpdateAction = UpdateAction(condition, assignments)

  def isOfStar(update: UpdateAction): Boolean = false

  /**
   * An assignment for each column of the target, in their order.
   *
   * @param evolves whether fields that the values' structs lack are filled
   */
  def alignUpdate(target: Seq[Attribute], assignments: Seq[Assignment], ofStar: Boolean, evolves: Boolean): Seq[Assignment] =
    AssignmentUtils.alignUpdateAssignments(target, filled(assignments, evolves))

  def alignInsert(target: Seq[Attribute], assignments: Seq[Assignment], evolves: Boolean): Seq[Assignment] =
    AssignmentUtils.alignInsertAssignments(target, filled(assignments, evolves))

  private def filled(assignments: Seq[Assignment], evolves: Boolean): Seq[Assignment] =
    if (!evolves) assignments
    else assignments.map(each => each.copy(value = FilledFields(each.value, each.key.dataType, SQLConf.get.resolver)))
}
