package headwater.spark.shims

import org.apache.spark.sql.connector.catalog.{DelegatingCatalogExtension, Identifier, StagedTable, StagingTableCatalog, Table}

/** A catalog that makes new tables, however Spark asks it for them: `StagingShim` has that. */
trait NewTables extends DelegatingCatalogExtension with StagingTableCatalog {
  /** CREATE TABLE. */
  protected def create(ident: Identifier, table: NewTable): Table

  /** CREATE TABLE by the catalog below this one. */
  protected def createBelow(ident: Identifier, table: NewTable): Table =
    super.createTable(ident, table.columns, table.partitions, table.properties)

  /** CREATE and REPLACE TABLE … AS SELECT, and REPLACE TABLE. */
  protected def stage(ident: Identifier, table: NewTable, mode: String): StagedTable
}
