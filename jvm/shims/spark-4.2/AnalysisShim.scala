package headwater.spark.shims

import org.apache.spark.sql.catalyst.analysis.TableOutputResolver
import org.apache.spark.sql.catalyst.analysis.TableOutputResolver.DefaultValueFillMode
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.internal.SQLConf

/** Calls of Spark's analysis whose parameters differ between Sparks. */
object AnalysisShim {
  /** A query's columns as a table expects them. By name, columns and fields that are missing get their defaults. */
  def resolveOutput(table: String, expected: Seq[Attribute], query: LogicalPlan, byName: Boolean, conf: SQLConf): LogicalPlan = {
    val mode = if (byName) DefaultValueFillMode.RECURSE else DefaultValueFillMode.NONE
    TableOutputResolver.resolveOutputColumns(table, expected, query, byName, conf, mode)
  }

  /** Whether an entry of the catalog is a view, of any kind. */
  def isView(entry: CatalogTable): Boolean = entry.isViewLike
}
