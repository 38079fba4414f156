package headwater.spark.shims

import org.apache.spark.sql.catalyst.analysis.Parameter
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LogicalPlan}
import org.apache.spark.sql.catalyst.trees.TreePattern.PARAMETER

/**
 * A statement of ours with parameter markers, until Spark has put values in their places: this Spark does so in plans alone, not in texts.
 *
 * @param markers Spark's expressions of the markers, or their values by now
 */
private[shims] case class MarkedStatement(written: MarkedText, markers: Seq[Expression]) extends LeafNode {
  override def output: Seq[Attribute] = Nil
  override lazy val resolved: Boolean = false

  /** The text with the values; None as long as one is missing. */
  def text: Option[String] = Option.unless(markers.exists(_.containsPattern(PARAMETER)))(written.withValues(markers(_).sql))
}

private[shims] object MarkedStatement {
  /** None for a text without markers. */
  def of(written: MarkedText, parse: String => Expression): Option[LogicalPlan] = Option.when(written.markers.nonEmpty) {
    MarkedStatement(written, parse(written.markers.mkString("struct(", ", ", ")")).collect { case marker: Parameter => marker })
  }
}
