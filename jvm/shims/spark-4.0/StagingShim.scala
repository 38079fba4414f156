package headwater.spark.shims

import java.util

import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.expressions.Transform

/** How Spark asks a catalog for a new table: by columns, partitions and properties. */
trait StagingShim extends DelegatingCatalogExtension with StagingTableCatalog {
  /** CREATE TABLE. */
  protected def create(ident: Identifier, table: NewTable): Table

  /** CREATE and REPLACE TABLE … AS SELECT, and REPLACE TABLE. */
  protected def stage(ident: Identifier, table: NewTable, mode: String): StagedTable

  override def stageCreate(
      ident: Identifier,
      columns: Array[Column],
      partitions: Array[Transform],
      properties: util.Map[String, String]): StagedTable = stage(ident, NewTable(columns, partitions, properties), "create")

  override def stageReplace(
      ident: Identifier,
      columns: Array[Column],
      partitions: Array[Transform],
      properties: util.Map[String, String]): StagedTable = stage(ident, NewTable(columns, partitions, properties), "replace")

  override def stageCreateOrReplace(
      ident: Identifier,
      columns: Array[Column],
      partitions: Array[Transform],
      properties: util.Map[String, String]): StagedTable =
    stage(ident, NewTable(columns, partitions, properties), "create_or_replace")
}

object StagingShim {
  /** Asks a catalog for a new table. */
  def createIn(catalog: TableCatalog, ident: Identifier, table: NewTable): Table =
    catalog.createTable(ident, table.columns, table.partitions, table.properties)
}
