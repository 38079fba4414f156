package headwater.spark

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.EliminateSubqueryAliases
import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.catalyst.plans.logical.{DeleteFromTable, LogicalPlan, MergeIntoTable, UpdateTable}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/** Turns a table that is read into the file relation Spark's own Parquet path scans. */
case class ResolveHeadwaterRelations(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan match {
      case delete: DeleteFromTable => refuse(delete.table, "DELETE")
      case update: UpdateTable => refuse(update.table, "UPDATE")
      case merge: MergeIntoTable => refuse(merge.targetTable, "MERGE")
      case _ =>
    }
    plan.resolveOperatorsDown {
      case DataSourceV2Relation(table: HeadwaterTable, output, _, _, options, _) =>
        // A read of changes has been found before this, but for one of an older version, which the handler refuses.
        if (HeadwaterChanges.asked(session, options)) HeadwaterChanges.load(session, table.path, Nil, "timeTravel" -> true)
        val read = table.toRelation(options.asCaseSensitiveMap().asScala.toMap)
        read.copy(output = read.output.zip(output).map { case (column, seen) =>
          seen.withName(column.name).asInstanceOf[AttributeReference]
        })
    }
  }

  private def refuse(target: LogicalPlan, statement: String): Unit = EliminateSubqueryAliases(target) match {
    case DataSourceV2Relation(table: HeadwaterTable, _, _, _, _, _) =>
      Bridge.call(new StatementContext(session), "not_supported_yet", "statement" -> statement, "name" -> table.name())
    case _ =>
  }
}
