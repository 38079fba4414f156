package headwater.spark.shims

import org.apache.spark.sql.catalyst.analysis.{Resolver, TableOutputResolver}
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTableType}
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.internal.SQLConf

/** Calls of Spark's analysis whose parameters differ between Sparks. */
object AnalysisShim {
  /** A query's columns as a table expects them. By name, columns that are missing get their defaults, and fields of structs are null. */
  def resolveOutput(table: String, expected: Seq[Attribute], query: LogicalPlan, byName: Boolean, conf: SQLConf): LogicalPlan = {
    val rows = if (byName) withFields(expected, query, conf.resolver) else query
    TableOutputResolver.resolveOutputColumns(table, expected, rows, byName, conf, supportColDefaultValue = byName)
  }

  /** Whether an entry of the catalog is a view. */
  def isView(entry: CatalogTable): Boolean = entry.tableType == CatalogTableType.VIEW

  /** This Spark fills columns that are missing, and no fields of structs. */
  private def withFields(expected: Seq[Attribute], query: LogicalPlan, resolver: Resolver): LogicalPlan = {
    val columns = query.output.map { column =>
      expected.filter(wanted => resolver(wanted.name, column.name)) match {
        case Seq(wanted) if FilledFields.lacks(column.dataType, wanted.dataType, resolver) =>
          Alias(FilledFields(column, wanted.dataType, resolver), column.name)()
        case _ => column
      }
    }
    if (columns == query.output) query else Project(columns, query)
  }
}
