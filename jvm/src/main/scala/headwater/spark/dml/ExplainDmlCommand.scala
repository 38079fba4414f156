package headwater.spark.dml

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{DeleteFromTable, LogicalPlan, MergeIntoTable, UpdateTable}
import org.apache.spark.sql.execution.ExplainMode
import org.apache.spark.sql.execution.command.{ExplainCommand, LeafRunnableCommand}
import org.apache.spark.sql.headwater.SparkInternals

/** EXPLAIN of a DELETE, UPDATE or MERGE: the handler's explanation for a Delta table, Spark's own for any other. */
case class ExplainDmlCommand(statement: LogicalPlan, mode: ExplainMode) extends LeafRunnableCommand {
  private val explained = ExplainCommand(statement, mode)
  override val output: Seq[Attribute] = explained.output

  override def run(session: SparkSession): Seq[Row] = SparkInternals.analyzed(session, statement) match {
    case dml: HeadwaterDmlCommand => Seq(Row(dml.explain(session, mode.name)))
    case _ => explained.run(session)
  }
}

object ExplainDmlCommand {
  def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case ExplainCommand(statement @ (_: DeleteFromTable | _: UpdateTable | _: MergeIntoTable), mode) => ExplainDmlCommand(statement, mode)
    case other => other
  }
}
