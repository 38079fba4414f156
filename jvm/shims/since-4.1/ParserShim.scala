package headwater.spark.shims

import org.apache.spark.sql.catalyst.parser.{ParameterContext, ParserInterface}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.trees.TreePattern

/** A parser of a Spark that gives it the values of parameter markers. */
abstract class ParserShim(spark: ParserInterface) extends ForwardingParser(spark) {
  override def parsePlanWithParameters(text: String, parameters: ParameterContext): LogicalPlan =
    parse(text, Some(new ContextValues(spark, parameters)))(spark.parsePlanWithParameters(_, parameters))
}

object ParserShim {
  /** The mark of plans in which an expression computes a name. */
  val UnresolvedIdentifier: TreePattern.TreePattern = TreePattern.PLAN_WITH_UNRESOLVED_IDENTIFIER
}
