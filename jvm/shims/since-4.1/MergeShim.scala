package headwater.spark.shims

import org.apache.spark.sql.catalyst.analysis.AssignmentUtils
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{Assignment, UpdateAction}

/** Clauses of MERGE, and what they assign. */
object MergeShim {
  /** What UPDATE SET * stands for. */
  def updateOfStar(condition: Option[Expression], assignments: Seq[Assignment]): UpdateAction =
    UpdateAction(condition, assignments, fromStar = true)

  def isOfStar(update: UpdateAction): Boolean = update.fromStar

  /**
   * An assignment for each column of the target, in their order.
   *
   * @param evolves whether fields that the values' structs lack are filled
   */
  def alignUpdate(target: Seq[Attribute], assignments: Seq[Assignment], ofStar: Boolean, evolves: Boolean): Seq[Assignment] =
    AssignmentUtils.alignUpdateAssignments(target, assignments, ofStar, evolves)

  def alignInsert(target: Seq[Attribute], assignments: Seq[Assignment], evolves: Boolean): Seq[Assignment] =
    AssignmentUtils.alignInsertAssignments(target, assignments, evolves)
}
