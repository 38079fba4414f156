package headwater.spark.shims

import org.apache.spark.sql.catalyst.parser._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/** The values that Spark hands to a parser. */
private[shims] final class ContextValues(spark: ParserInterface, context: ParameterContext) extends ParameterValues {
  override def isEmpty: Boolean = context match {
    case NamedParameterContext(values) => values.isEmpty
    case PositionalParameterContext(values) => values.isEmpty
    case HybridParameterContext(values, _) => values.isEmpty
  }

  override def substitute(text: String): String = ParameterHandler.substituteParameters(text, context)._1

  override def parse(text: String): LogicalPlan = spark.parsePlanWithParameters(text, context)
}
