package headwater.spark.shims

import java.util

import org.apache.spark.sql.connector.catalog.{DelegatingCatalogExtension, Identifier, StagedTable, StagingTableCatalog, Table}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types.StructType

/** A catalog that makes new tables, however Spark asks it for them: `StagingShim` has that. */
trait NewTables extends DelegatingCatalogExtension with StagingTableCatalog {
  /** CREATE TABLE. */
  protected def create(ident: Identifier, table: NewTable): Table

  /** CREATE TABLE by the catalog below this one. */
  protected def createBelow(ident: Identifier, table: NewTable): Table =
    super.createTable(ident, table.columns, table.partitions, table.properties)

  /** CREATE and REPLACE TABLE … AS SELECT, and REPLACE TABLE. */
  protected def stage(ident: Identifier, table: NewTable, mode: String): StagedTable

  // Catalogs that wrap this one may still ask by a schema, as Spark no longer does.

  override def createTable(
      ident: Identifier,
      schema: StructType,
      partitions: Array[Transform],
      properties: util.Map[String, String]): Table =
    create(ident, NewTable(SparkInternals.columns(schema), partitions, properties))

  override def stageCreate(
      ident: Identifier,
      schema: StructType,
      partitions: Array[Transform],
      properties: util.Map[String, String]): StagedTable =
    stage(ident, NewTable(SparkInternals.columns(schema), partitions, properties), "create")

  override def stageReplace(
      ident: Identifier,
      schema: StructType,
      partitions: Array[Transform],
      properties: util.Map[String, String]): StagedTable =
    stage(ident, NewTable(SparkInternals.columns(schema), partitions, properties), "replace")

  override def stageCreateOrReplace(
      ident: Identifier,
      schema: StructType,
      partitions: Array[Transform],
      properties: util.Map[String, String]): StagedTable =
    stage(ident, NewTable(SparkInternals.columns(schema), partitions, properties), "create_or_replace")
}
