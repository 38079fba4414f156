package headwater.spark

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.{DeleteFromTable, LogicalPlan, MergeIntoTable, UpdateTable}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/** Turns a table that is read into the file relation Spark's own Parquet path scans. */
case class ResolveHeadwaterRelations(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    // The target of a row-level command stays a table.
    case _: DeleteFromTable | _: UpdateTable | _: MergeIntoTable => plan
    case _ => plan.resolveOperatorsDown {
      case relation @ DataSourceV2Relation(table: HeadwaterTable, output, _, _, options, _) =>
        ResolveHeadwaterRelations.ChangeFeedOptions.filter(name => "true".equalsIgnoreCase(options.get(name))).foreach { name =>
          throw HeadwaterDataSource.refused(session, "change_feed", Map("option" -> name, "value" -> options.get(name)))
        }
        val read = table.toRelation(options.asCaseSensitiveMap().asScala.toMap)
        read.copy(output = read.output.zip(output).map { case (column, seen) =>
          seen.withName(column.name).asInstanceOf[org.apache.spark.sql.catalyst.expressions.AttributeReference]
        })
    }
  }
}

object ResolveHeadwaterRelations {
  private val ChangeFeedOptions = Seq("readChangeFeed", "readChangeData")
}
