package headwater.spark.shims

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.parser.ParserInterface
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern

/** A parser of a Spark that puts values for parameter markers into plans, and so has none when it parses. */
abstract class ParserShim(spark: ParserInterface) extends ForwardingParser(spark)

object ParserShim {
  /** The mark of plans in which an expression computes a name. */
  val UnresolvedIdentifier: TreePattern.TreePattern = TreePattern.UNRESOLVED_IDENTIFIER

  /** What the analysis of statements needs beside what all Sparks need. */
  val rules: Seq[SparkSession => Rule[LogicalPlan]] = Seq(ResolveMarkedStatements(_))

  /**
   * The plan of a statement of ours that waits for values of its markers; None if it has none.
   *
   * @param marked finds the markers of a text
   * @param parse Spark's parser of expressions
   */
  def awaitingValues(text: String, marked: String => MarkedText, parse: String => Expression): Option[LogicalPlan] =
    if (text.exists(":?".contains(_))) MarkedStatement.of(marked(text), parse) else None
}
