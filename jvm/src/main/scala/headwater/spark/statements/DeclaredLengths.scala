package headwater.spark.statements

import headwater.spark.catalog.HeadwaterTable
import org.apache.spark.sql.catalyst.analysis.{ResolvedFieldName, ResolvedTable}
import org.apache.spark.sql.catalyst.plans.logical.{AlterColumns, AlterColumnSpec, LogicalPlan}
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types.{StringType, StructField}

/**
 * ALTER COLUMN … TYPE of a CHAR or VARCHAR within a struct, array or map. Spark keeps the declared type with the top-level column, where
 * its analysis does not look for that of a field, which is a STRING then. So the analysis sees a field that has its declared type itself.
 */
private object DeclaredLengths {
  def unapply(plan: LogicalPlan): Option[LogicalPlan] = plan match {
    case alter: AlterColumns => alter.table match {
        case ResolvedTable(_, _, table: HeadwaterTable, _) =>
          val specs = alter.specs.filter(isAsked(table, _))
          Option.when(specs.nonEmpty)(alter.transformExpressions {
            case spec: AlterColumnSpec if specs.contains(spec) =>
              spec.mapChildren {
                case column: ResolvedFieldName => column.copy(field = declared(table, column).get)
                case other => other
              }
          })
        case _ => None
      }
    case _ => None
  }

  private def isAsked(table: HeadwaterTable, spec: AlterColumnSpec): Boolean = spec.column match {
    case column: ResolvedFieldName => spec.newDataType.isDefined && column.path.nonEmpty && column.field.dataType == StringType &&
      SparkInternals.declaredType(column.field).isEmpty && declared(table, column).isDefined
    case _ => false
  }

  private def declared(table: HeadwaterTable, column: ResolvedFieldName): Option[StructField] =
    SparkInternals.declaredField(SparkInternals.schema(table.columns()), column.name, column.field)
}
