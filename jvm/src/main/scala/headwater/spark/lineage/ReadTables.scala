package headwater.spark.lineage

import headwater.spark.bridge.NotedCommit
import headwater.spark.catalog.{ClonedSource, HeadwaterTable, TableVersion}
import headwater.spark.dml.{DmlPieces, HeadwaterDmlCommand}
import headwater.spark.statements.{CloneCommand, HeadwaterChangeCommand}
import headwater.spark.write.HeadwaterReplaceCommand
import org.apache.spark.sql.catalyst.expressions.{Expression, PlanExpression}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.headwater.SparkInternals

/** The relations that a command of ours reads. Those of other plans are their nodes, which any listener finds. */
object ReadTables {
  def of(plan: LogicalPlan): Seq[LogicalPlan] = plan match {
    case command: HeadwaterDmlCommand => of(command.pieces)
    case command: HeadwaterReplaceCommand => of(command.pieces)
    case command: HeadwaterChangeCommand if NotedCommit.of(plan).exists(_.commit.copies) => Seq(command.table.toRelation(Map.empty))
    case command: CloneCommand if command.source.format.isEmpty => NotedCommit.of(plan).map(cloned(_, command.source))
    case _ => Nil
  }

  private def cloned(noted: NotedCommit, source: ClonedSource): LogicalPlan = {
    val name = source.location.entry.map(entry => SparkInternals.sessionCatalog(noted.session).getTableMetadata(entry.identifier))
    HeadwaterTable.load(noted.session, source.location, TableVersion(source.version, None), name).toRelation(Map.empty)
  }

  private def of(pieces: DmlPieces): Seq[LogicalPlan] =
    (Seq[LogicalPlan](pieces.target) ++ pieces.source ++ pieces.expressions.flatMap(queries)).flatMap(leaves)

  private def leaves(plan: LogicalPlan): Seq[LogicalPlan] =
    plan.collectLeaves() ++ plan.collect { case node => node }.flatMap(_.expressions).flatMap(queries).flatMap(leaves)

  private def queries(expression: Expression): Seq[LogicalPlan] = expression.collect {
    case subquery: PlanExpression[_] => subquery.plan
  }.collect { case plan: LogicalPlan => plan }
}
