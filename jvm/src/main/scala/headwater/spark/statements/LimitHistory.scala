package headwater.spark.statements

import com.fasterxml.jackson.databind.node.ObjectNode
import headwater.spark.bridge.messages.ParsedStatementRequest
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.plans.logical.{GlobalLimit, LocalLimit, LogicalPlan, Project, SubqueryAlias}
import org.apache.spark.sql.catalyst.rules.Rule

/**
 * A LIMIT of a query over `(DESCRIBE HISTORY t)` as one of the statement itself, if nothing between them takes, adds or orders rows. Spark
 * runs commands before it optimizes a query. By now, it has taken generators and window functions out of projections.
 */
case class LimitHistory(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case limit @ GlobalLimit(Literal(most: Int, _), local @ LocalLimit(_, rows)) if most >= 0 =>
      limit.copy(child = local.copy(child = limited(rows, most)))
  }

  private def limited(plan: LogicalPlan, most: Int): LogicalPlan = plan match {
    case project: Project => project.copy(child = limited(project.child, most))
    case alias: SubqueryAlias => alias.copy(child = limited(alias.child, most))
    case limit: GlobalLimit => limit.copy(child = limited(limit.child, most))
    case limit: LocalLimit => limit.copy(child = limited(limit.child, most))
    case command @ HeadwaterCommand(request @ ParsedStatementRequest(table, name, given: ObjectNode), _, _, _, _)
        if request.call == "describe_history" =>
      val own = Option(given.get("limit")).filter(_.isNumber).map(_.asLong)
      val asked = given.deepCopy().put("limit", own.fold(most.toLong)(math.min(_, most.toLong)))
      command.copy(request = ParsedStatementRequest(table, name, asked)(request.call))
    case other => other
  }
}
