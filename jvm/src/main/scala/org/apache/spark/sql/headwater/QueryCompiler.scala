package org.apache.spark.sql.headwater

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.{UnresolvedAttribute, UnresolvedFunction, UnresolvedRelation}
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.expressions.Alias
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.types.{DataType, StructType}

/**
 * Turns a handler's rewrite, one SQL query with placeholders, into a plan: ``hw_plan.`n` `` becomes the n-th resolved relation,
 * ``hw_expr.`n` `` the n-th resolved expression, `hw_raise(condition, state, text)` the error of a row, `hw_matched(n)` whether the n-th row
 * of a MERGE's source found a match, `hw_counted()` true for every row, which it counts.
 */
object QueryCompiler {
  def compile(session: SparkSession, sql: String, plans: Seq[LogicalPlan], expressions: Seq[Expression], matched: PositionSet, counter: RowCounter): LogicalPlan = {
    val parsed = session.asInstanceOf[ClassicSession].sessionState.sqlParser.parsePlan(sql)
    fill(parsed, plans, expressions, matched, counter)
  }

  private def fill(plan: LogicalPlan, plans: Seq[LogicalPlan], expressions: Seq[Expression], matched: PositionSet, counter: RowCounter): LogicalPlan =
    plan.transformDownWithSubqueries {
      case UnresolvedRelation(Seq("hw_plan", n), _, _) => plans(n.toInt)
      case node => node.transformExpressions {
        case UnresolvedAttribute(Seq("hw_expr", n)) => expressions(n.toInt)
        case f: UnresolvedFunction if f.nameParts == Seq("hw_matched") => IsMatched(f.arguments(0), matched)
        case f: UnresolvedFunction if f.nameParts == Seq("hw_counted") => CountRows(counter)
        case f: UnresolvedFunction if f.nameParts == Seq("hw_raise") => RaiseRowError(f.arguments(0), f.arguments(1), f.arguments(2))
      }
    }

  /** The type of an expression over columns of a schema (JSON); an expression that does not resolve is Spark's own error. */
  def expressionType(session: SparkSession, text: String, schema: String): DataType = {
    val expression = session.asInstanceOf[ClassicSession].sessionState.sqlParser.parseExpression(text)
    val relation = LocalRelation(SparkInternals.attributes(DataType.fromJson(schema).asInstanceOf[StructType]))
    SparkInternals.ofRows(session, Project(Seq(Alias(expression, "value")()), relation)).schema.head.dataType
  }
}
