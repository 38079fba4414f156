package headwater.spark.dml

import headwater.spark.HeadwaterException
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

  private val NotMatched = "WHEN NOT MATCHED"
  private val NotMatchedBySource = "WHEN NOT MATCHED BY SOURCE"
  private val Sides = Map(
    NotMatched -> "A row of the source without a match has no row of the target: the clause sees the source's columns only.",
    NotMatchedBySource -> "A row of the target without a match has no row of the source: the clause sees the target's columns only.")

  def check(merge: MergeIntoTable): Unit = {
    val (target, source) = (merge.targetTable, merge.sourceTable)
    val both = Join(target, source, Inner, None, JoinHint.NONE)
    check(None, "search condition", merge.mergeCondition, both, both)
    merge.matchedActions.foreach(check(Some("WHEN MATCHED"), _, both, target, both))
    merge.notMatchedActions.foreach(check(Some(NotMatched), _, source, target, both))
    merge.notMatchedBySourceActions.foreach(check(Some(NotMatchedBySource), _, target, target, both))
  }

  /** The source lacks a column that `*` needs. */
  def refuseStar(action: String, missing: Attribute, source: Seq[Attribute]): Unit =
    refuse(None, s"$action clause", SparkInternals.quoted(Seq(missing.name)), source, isOfOtherSide = false)

  private def check(clause: Option[String], action: MergeAction, scope: LogicalPlan, target: LogicalPlan, both: LogicalPlan): Unit = {
    val kind = action match {
      case _: DeleteAction => "DELETE"
      case _: InsertAction | _: InsertStarAction => "INSERT"
      case _ => "UPDATE"
    }
    action.condition.foreach(check(clause, s"$kind condition", _, scope, both))
    AssignedColumns.of(action).foreach { assignment =>
      check(None, s"$kind clause", assignment.key, target, target)
      check(clause, s"$kind clause", assignment.value, scope, both)
    }
  }

  private def check(clause: Option[String], part: String, expression: Expression, scope: LogicalPlan, both: LogicalPlan): Unit =
    if (!expression.resolved) names.unresolved(expression, scope).foreach { name =>
      val isOfOtherSide = scope.ne(both) && names.unresolved(name, both).isEmpty
      refuse(clause, part, name.sql, scope.output, isOfOtherSide)
    }

  private def refuse(clause: Option[String], part: String, name: String, columns: Seq[Attribute], isOfOtherSide: Boolean): Unit = {
    val seen = columns.map(column => SparkInternals.quoted(column.qualifier.lastOption.toSeq :+ column.name))
    throw HeadwaterException(
      "DELTA_MERGE_UNRESOLVED_EXPRESSION",
      "sqlExpr" -> name,
      "clause" -> clause.fold(part)(words => s"$part of $words"),
      "cols" -> seen.mkString(", "),
      "hint" -> (if (isOfOtherSide) clause.flatMap(Sides.get).getOrElse("") else "Check the spelling."))
  }
}
