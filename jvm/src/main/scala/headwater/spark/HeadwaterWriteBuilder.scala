package headwater.spark

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.sources.InsertableRelation
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** A write into an existing table: the rows go to the handler as a plan, what to overwrite is in the options. */
class HeadwaterWriteBuilder(table: HeadwaterTable, options: CaseInsensitiveStringMap)
    extends WriteBuilder
    with SupportsOverwriteV2
    with SupportsDynamicOverwrite {

  override def truncate(): WriteBuilder = this
  override def canOverwrite(predicates: Array[Predicate]): Boolean = true
  override def overwrite(predicates: Array[Predicate]): WriteBuilder = this
  override def overwriteDynamicPartitions(): WriteBuilder = this

  override def build(): Write = new V1Write {
    override def toInsertableRelation: InsertableRelation = (data: DataFrame, _: Boolean) => table match {
      case staged: HeadwaterStagedTable => staged.stage(data, options.asCaseSensitiveMap().asScala.toMap)
      case _ => HeadwaterWrites.write(table, data, options.asCaseSensitiveMap().asScala.toMap)
    }
  }
}

object HeadwaterWrites {
  /** Hands rows that already match the table to the handler. */
  def write(table: HeadwaterTable, data: DataFrame, options: Map[String, String]): Unit = {
    val context = new StatementContext(table.session)
    Bridge.call(
      context, "write",
      "table" -> table.path,
      "name" -> table.name(),
      "version" -> table.snapshotVersion,
      "tableId" -> table.info.get("tableId"),
      "plan" -> context.addPlan(SparkInternals.logicalPlan(data)),
      "schema" -> data.schema.json,
      "options" -> options)
    SparkInternals.refreshCaches(table.session, table.path)
  }
}
