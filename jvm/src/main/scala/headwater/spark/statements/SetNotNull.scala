package headwater.spark.statements

import headwater.spark.catalog.HeadwaterTable
import org.apache.spark.sql.catalyst.analysis.{ResolvedFieldName, ResolvedTable}
import org.apache.spark.sql.catalyst.plans.logical.{AlterColumns, AlterColumnSpec, LogicalPlan}

/**
 * ALTER COLUMN … SET NOT NULL of a column that may be null. Spark's analysis refuses it for every table; the handler allows it if no row
 * has null there. So the analysis sees a column that is NOT NULL already. The number of an ALTER's fields differs between versions of
 * Spark, so nothing here depends on it.
 */
private object SetNotNull {
  def unapply(plan: LogicalPlan): Option[LogicalPlan] = plan match {
    case alter: AlterColumns if isOurs(alter.table) && alter.specs.exists(isRefused) =>
      Some(alter.transformExpressions {
        case spec: AlterColumnSpec if isRefused(spec) =>
          spec.mapChildren {
            case column: ResolvedFieldName => column.copy(field = column.field.copy(nullable = false))
            case other => other
          }
      })
    case _ => None
  }

  private def isOurs(table: LogicalPlan): Boolean = table match {
    case ResolvedTable(_, _, _: HeadwaterTable, _) => true
    case _ => false
  }

  private def isRefused(spec: AlterColumnSpec): Boolean = spec.column match {
    case column: ResolvedFieldName => spec.newNullability.contains(false) && column.field.nullable
    case _ => false
  }
}
