package org.apache.spark.sql.headwater.bridge

import headwater.spark.dml.{CollectKeys, CountRow, IsMatched, KeySetAccumulator, RowCounter}
import headwater.spark.write.{PositionSet, RaiseRowError}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.{UnresolvedAttribute, UnresolvedFunction, UnresolvedRelation}
import org.apache.spark.sql.catalyst.expressions.{Alias, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LocalRelation, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.trees.{CurrentOrigin, Origin}
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{DataType, StructType}

/**
 * Turns a handler's rewrite, one SQL query with placeholders, into a plan: ``hw_plan.`n` `` becomes the n-th resolved relation,
 * ``hw_expr.`n` `` the n-th expression, `raise_row_error(condition, state, text)` the error of a row, `is_matched(n)` whether the n-th row
 * of a MERGE's source found a match, `count_row()` true for every row, which it counts, `note_keys(k, …)` true for every row, whose key it notes.
 *
 * The query is ours, and has nothing in it that a user wrote: names and literals are quoted, expressions are parsed by themselves ([[parse]]).
 * So it is parsed by the rules that it was written by, whatever the session's.
 */
object QueryCompiler {
  def compile(session: SparkSession, sql: String, plans: Seq[LogicalPlan], expressions: Seq[Expression], matched: PositionSet, counter: RowCounter, keys: => KeySetAccumulator): LogicalPlan = {
    fill(byPlainRules(session)(parser(session).parsePlan(sql)), plans, expressions, matched, counter, keys)
  }

  /** An expression that a user wrote, not yet resolved; Spark's own error where the text is none. A name given to it means nothing here. */
  def parse(session: SparkSession, text: String): Expression =
    // What is wrong with the text is shown in the text, not in the statement that is being run.
    CurrentOrigin.withOrigin(Origin())(parser(session).parseExpression(text)) match {
      case Alias(named, _) => named
      case other => other
    }

  private def parser(session: SparkSession) = session.asInstanceOf[ClassicSession].sessionState.sqlParser

  /** Settings that give SQL another meaning, and what they are by default. */
  private val Rules = Seq(
    SQLConf.ESCAPED_STRING_LITERALS, SQLConf.DOUBLE_QUOTED_IDENTIFIERS, SQLConf.SUPPORT_QUOTED_REGEX_COLUMN_NAME, SQLConf.ENFORCE_RESERVED_KEYWORDS)

  private def byPlainRules[T](session: SparkSession)(work: => T): T = {
    val conf = SparkInternals.conf(session)
    if (Rules.forall(conf.getConf(_) == false)) work
    else {
      val plain = conf.clone()
      Rules.foreach(plain.setConf(_, false))
      SQLConf.withExistingConf(plain)(work)
    }
  }

  private def fill(plan: LogicalPlan, plans: Seq[LogicalPlan], expressions: Seq[Expression], matched: PositionSet, counter: RowCounter, keys: => KeySetAccumulator): LogicalPlan =
    plan.transformUp {
      case UnresolvedRelation(Seq("hw_plan", n), _, _) => plans(n.toInt)
      // Upwards, so that nothing within what takes a placeholder's place is taken for a placeholder itself.
      case node => node.transformExpressionsUp {
        case UnresolvedAttribute(Seq("hw_expr", n)) => expressions(n.toInt)
        case f: UnresolvedFunction if f.nameParts == Seq("is_matched") => IsMatched(f.arguments(0), matched)
        case f: UnresolvedFunction if f.nameParts == Seq("count_row") => CountRow(counter)
        case f: UnresolvedFunction if f.nameParts == Seq("note_keys") => CollectKeys(f.arguments, keys)
        case f: UnresolvedFunction if f.nameParts == Seq("raise_row_error") => RaiseRowError(f.arguments(0), f.arguments(1), f.arguments(2))
      }
    }

  /** The type of an expression over columns of a schema (JSON); an expression that does not resolve is Spark's own error. */
  def expressionType(session: SparkSession, text: String, schema: String): DataType =
    SparkInternals.ofRows(session, Project(Seq(Alias(parse(session, text), "value")()), over(schema))).schema.head.dataType

  /** A condition over columns of a schema (JSON), resolved; one that does not resolve is Spark's own error. */
  def condition(session: SparkSession, text: String, schema: String): Expression =
    SparkInternals.logicalPlan(SparkInternals.ofRows(session, Filter(parse(session, text), over(schema)))).collectFirst {
      case Filter(condition, _) => condition
    }.get

  private def over(schema: String): LocalRelation =
    LocalRelation(SparkInternals.attributes(DataType.fromJson(schema).asInstanceOf[StructType]))
}
