package io.delta.tables

import scala.annotation.varargs

import org.apache.spark.sql.DataFrame

/** The description of an OPTIMIZE. */
class DeltaOptimizeBuilder private[tables] (table: Opened, partitions: Option[String]) {

  /** Only the partitions for which a condition is true. */
  def where(partitionFilter: String): DeltaOptimizeBuilder = new DeltaOptimizeBuilder(table, Some(partitionFilter))

  /** Compacts small files. */
  def executeCompaction(): DataFrame = run("")

  /** Clusters rows by some columns, along a Z-order curve. */
  @varargs
  def executeZOrderBy(columns: String*): DataFrame = run(s"\nZORDER BY ${SqlText.columns(columns)}")

  private def run(ending: String): DataFrame =
    table.sql(s"OPTIMIZE ${table.name}${partitions.map(condition => s"\nWHERE ($condition\n)").getOrElse("")}$ending")
}
