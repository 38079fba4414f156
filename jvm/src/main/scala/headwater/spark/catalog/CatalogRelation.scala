package headwater.spark.catalog

import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** A table of a catalog in a plan, its columns and its options. The other parts of Spark's own class differ between Sparks. */
object CatalogRelation {
  def unapply(relation: DataSourceV2Relation): Some[(Table, Seq[AttributeReference], CaseInsensitiveStringMap)] =
    Some((relation.table, relation.output, relation.options))
}
