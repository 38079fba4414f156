package headwater.spark.dml

import headwater.spark.catalog.{CatalogRelation, HeadwaterTable}
import org.apache.spark.sql.catalyst.analysis.EliminateSubqueryAliases
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/** The target of a DELETE, UPDATE or MERGE as Spark's catalog returned it, before it becomes a [[DmlTarget]]. */
object PendingTarget {
  def unapply(plan: LogicalPlan): Option[HeadwaterTable] = EliminateSubqueryAliases(plan) match {
    case CatalogRelation(table: HeadwaterTable, _, _) => Some(table)
    case _ => None
  }

  /** The same target over a table, its aliases kept. */
  def replace(plan: LogicalPlan, table: HeadwaterTable): LogicalPlan = plan.transform {
    case CatalogRelation(_: HeadwaterTable, output, _) => DmlTarget(table, output)
  }
}
