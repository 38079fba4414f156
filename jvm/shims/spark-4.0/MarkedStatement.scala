package headwater.spark.shims

import org.apache.spark.sql.catalyst.analysis.Parameter
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LogicalPlan}
import org.apache.spark.sql.catalyst.trees.TreePattern.PARAMETER

/**
 * A statement of ours with parameter markers, until Spark has put values in their places: this Spark does so in plans alone, not in texts.
 *
 * @param pieces the text; each second piece is a marker
 * @param markers Spark's expressions of the markers, or their values by now
 */
private[shims] case class MarkedStatement(pieces: Seq[String], markers: Seq[Expression]) extends LeafNode {
  override def output: Seq[Attribute] = Nil
  override lazy val resolved: Boolean = false

  /** The text with the values; None as long as one is missing. */
  def text: Option[String] = Option.unless(markers.exists(_.containsPattern(PARAMETER))) {
    pieces.indices.map(i => if (i % 2 == 1) markers(i / 2).sql else pieces(i)).mkString
  }
}

private[shims] object MarkedStatement {
  /** None for a text without markers. */
  def of(pieces: Seq[String], parse: String => Expression): Option[LogicalPlan] = Option.when(pieces.size > 1) {
    val markers = pieces.indices.collect { case i if i % 2 == 1 => pieces(i) }
    MarkedStatement(pieces, parse(markers.mkString("struct(", ", ", ")")).collect { case marker: Parameter => marker })
  }
}
