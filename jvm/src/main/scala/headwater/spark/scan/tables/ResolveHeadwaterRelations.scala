package headwater.spark.scan.tables

import scala.jdk.CollectionConverters._

import headwater.spark.catalog.{CatalogRelation, HeadwaterTable}
import headwater.spark.changes.HeadwaterChangelog
import headwater.spark.dml.PendingTarget
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, MergeIntoTable}
import org.apache.spark.sql.catalyst.rules.Rule

/** Turns a table that a query reads into the file relation that Spark's own Parquet path scans. */
case class ResolveHeadwaterRelations(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    // A MERGE gets its target from ResolveHeadwaterDml, once its source is known.
    case merge @ MergeIntoTable(PendingTarget(_), source, _, _, _, _, _) => merge.copy(sourceTable = read(source))
    case other => read(other)
  }

  private def read(plan: LogicalPlan): LogicalPlan =
    plan.resolveOperatorsDown {
      case relation @ CatalogRelation(table: HeadwaterTable, output, options) =>
        ReadOptions.check(session, relation)
        // FindChangeReads has taken reads of changes already, except for those of an older version, which the handler rejects.
        HeadwaterChangelog.asked(session, options).foreach(HeadwaterChangelog.load(session, table.location, Nil, _, timeTravel = true))
        val read = table.toRelation(options.asCaseSensitiveMap().asScala.toMap)
        read.copy(output = read.output.zip(output).map { case (column, seen) =>
          seen.withName(column.name).withNullability(column.nullable).asInstanceOf[AttributeReference]
        })
    }
}
