package headwater.spark.dml

import headwater.spark.bridge.Bridge
import headwater.spark.bridge.messages.UnresolvedInMergeRequest
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.Inner
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.headwater.dml.VariableResolver

/**
 * Refuses the names of a MERGE that Spark would not resolve. Some clauses see one side only, and Spark's error would suggest the very name,
 * as the other side has it. A name that is not unique, and one in a subquery, is left to Spark.
 */
class NamesOfMerge(session: SparkSession) {
  private lazy val names = new VariableResolver(session)

  def check(merge: MergeIntoTable): Unit = {
    val (target, source) = (merge.targetTable, merge.sourceTable)
    val both = Join(target, source, Inner, None, JoinHint.NONE)
    check("on", "search condition", merge.mergeCondition, both, both)
    merge.matchedActions.foreach(check("matched", _, both, target, both))
    merge.notMatchedActions.foreach(check("not_matched", _, source, target, both))
    merge.notMatchedBySourceActions.foreach(check("not_matched_by_source", _, target, target, both))
  }

  /** The source lacks a column that `*` needs. */
  def refuseStar(action: String, missing: Attribute, source: Seq[Attribute]): Unit =
    refuse("on", s"$action clause", SparkInternals.quoted(Seq(missing.name)), source, isOfOtherSide = false)

  private def check(clause: String, action: MergeAction, scope: LogicalPlan, target: LogicalPlan, both: LogicalPlan): Unit = {
    val kind = action match {
      case _: DeleteAction => "DELETE"
      case _: InsertAction | _: InsertStarAction => "INSERT"
      case _ => "UPDATE"
    }
    action.condition.foreach(check(clause, s"$kind condition", _, scope, both))
    AssignedColumns.of(action).foreach { assignment =>
      check("on", s"$kind clause", assignment.key, target, target)
      check(clause, s"$kind clause", assignment.value, scope, both)
    }
  }

  private def check(clause: String, part: String, expression: Expression, scope: LogicalPlan, both: LogicalPlan): Unit =
    if (!expression.resolved) names.unresolved(expression, scope).foreach { name =>
      val isOfOtherSide = scope.ne(both) && names.unresolved(name, both).isEmpty
      refuse(clause, part, name.sql, scope.output, isOfOtherSide)
    }

  private def refuse(clause: String, part: String, name: String, columns: Seq[Attribute], isOfOtherSide: Boolean): Unit = {
    val seen = columns.map(column => SparkInternals.quoted(column.qualifier.lastOption.toSeq :+ column.name))
    throw Bridge.refusal(session, UnresolvedInMergeRequest(clause, part, name, seen, isOfOtherSide))
  }
}
