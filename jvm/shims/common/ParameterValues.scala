package headwater.spark.shims

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/** Values of the parameter markers of one statement, where Spark has them when it parses. */
trait ParameterValues {
  def isEmpty: Boolean

  /** A text that Spark can parse, with literals in place of its markers. */
  def substitute(text: String): String

  /** Spark's plan of a text with markers. */
  def parse(text: String): LogicalPlan
}
