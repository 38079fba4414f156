package headwater.spark.shims

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.parser.{ParameterContext, ParserInterface}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern

/** A parser of a Spark that gives it the values of parameter markers. */
abstract class ParserShim(spark: ParserInterface) extends ForwardingParser(spark) {
  override def parsePlanWithParameters(text: String, parameters: ParameterContext): LogicalPlan =
    parse(text, Some(new ContextValues(spark, parameters)))(spark.parsePlanWithParameters(_, parameters))
}

object ParserShim {
  /** The mark of plans in which an expression computes a name. */
  val UnresolvedIdentifier: TreePattern.TreePattern = TreePattern.PLAN_WITH_UNRESOLVED_IDENTIFIER

  /** What the analysis of statements needs beside what all Sparks need. */
  val rules: Seq[SparkSession => Rule[LogicalPlan]] = Nil

  /** The plan of a statement of ours that waits for values of its markers; None here, where Spark has the values when it parses. */
  def awaitingValues(text: String, marked: String => MarkedText, parse: String => Expression): Option[LogicalPlan] = None
}
