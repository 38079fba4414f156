package headwater.spark.dml

import headwater.spark.catalog.HeadwaterTable
import org.apache.spark.sql.catalyst.analysis.EliminateSubqueryAliases
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/** The target of a DELETE, UPDATE or MERGE as Spark's catalog returned it, before it becomes a [[DmlTarget]]. */
object PendingTarget {
  def unapply(plan: LogicalPlan): Option[HeadwaterTable] = EliminateSubqueryAliases(plan) match {
    case DataSourceV2Relation(table: HeadwaterTable, _, _, _, _, _) => Some(table)
    case _ => None
  }

  /** The same target over a table, its aliases kept. */
  def replace(plan: LogicalPlan, table: HeadwaterTable): LogicalPlan = plan.transform {
    case DataSourceV2Relation(_: HeadwaterTable, output, _, _, _, _) => DmlTarget(table, output)
  }
}
