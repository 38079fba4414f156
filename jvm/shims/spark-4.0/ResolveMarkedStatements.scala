package headwater.spark.shims

import org.apache.spark.sql.{classic, SparkSession}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule

/** Parses a [[MarkedStatement]] again when its markers have values. */
private[shims] case class ResolveMarkedStatements(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsUp {
    case marked: MarkedStatement => marked.text.map(parse).getOrElse(marked)
  }

  private def parse(text: String): LogicalPlan = session.asInstanceOf[classic.SparkSession].sessionState.sqlParser.parsePlan(text)
}
