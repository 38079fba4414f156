package headwater.spark.shims

import java.util

import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.expressions.Transform

/** How Spark asks a catalog for a new table: by a `TableInfo`. */
trait StagingShim extends NewTables {
  override def createTable(
      ident: Identifier,
      columns: Array[Column],
      partitions: Array[Transform],
      properties: util.Map[String, String]): Table = create(ident, NewTable(columns, partitions, properties))

  override def createTable(ident: Identifier, table: TableInfo): Table = create(ident, StagingShim.asked(table))
  override def stageCreate(ident: Identifier, table: TableInfo): StagedTable = stage(ident, StagingShim.asked(table), "create")
  override def stageReplace(ident: Identifier, table: TableInfo): StagedTable = stage(ident, StagingShim.asked(table), "replace")
  override def stageCreateOrReplace(ident: Identifier, table: TableInfo): StagedTable =
    stage(ident, StagingShim.asked(table), "create_or_replace")
}

object StagingShim {
  private[shims] def asked(table: TableInfo): NewTable =
    NewTable(table.columns, table.partitions, table.properties, table.constraints.toSeq.map(ChangeShim.described))

  /** Asks a catalog for a new table. */
  def createIn(catalog: TableCatalog, ident: Identifier, table: NewTable): Table = catalog.createTable(
    ident,
    new TableInfo.Builder().withColumns(table.columns).withPartitions(table.partitions).withProperties(table.properties).build())
}
