package headwater.spark.shims

import org.apache.spark.sql.catalyst.analysis.TableOutputResolver
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTableType}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.internal.SQLConf

/** Calls of Spark's analysis whose parameters differ between Sparks. */
object AnalysisShim {
  /** A query's columns as a table expects them. By name, columns that are missing get their defaults. */
  def resolveOutput(table: String, expected: Seq[Attribute], query: LogicalPlan, byName: Boolean, conf: SQLConf): LogicalPlan =
    TableOutputResolver.resolveOutputColumns(table, expected, query, byName, conf, supportColDefaultValue = byName)

  /** Whether an entry of the catalog is a view. */
  def isView(entry: CatalogTable): Boolean = entry.tableType == CatalogTableType.VIEW
}
