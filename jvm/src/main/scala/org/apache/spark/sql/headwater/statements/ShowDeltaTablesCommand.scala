package org.apache.spark.sql.headwater.statements

import headwater.spark.bridge.{Bridge, SchemaText, TableLocation}
import headwater.spark.bridge.messages.{SummarizeTablesRequest, TableSummary}
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{CatalogStatistics, CatalogTable}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.command.{LeafRunnableCommand, ShowTablesCommand}
import org.apache.spark.sql.headwater.SparkInternals

/** SHOW TABLE EXTENDED as Spark has it, with what the log says of Delta tables, where the metastore has their names only. */
case class ShowDeltaTablesCommand(shown: ShowTablesCommand) extends LeafRunnableCommand {
  override val output: Seq[Attribute] = shown.output
  override def nodeName: String = "SHOW TABLE EXTENDED"

  override def run(session: SparkSession): Seq[Row] = {
    val rows = shown.run(session)
    val found = rows.map(row => if (row.getBoolean(2)) None else entry(session, row))
    val paths = found.flatten.map(table => TableLocation.path(session, new Path(table.location)))
    val summaries = if (paths.isEmpty) Iterator.empty else Bridge.call(session, SummarizeTablesRequest(paths)).tables.iterator
    rows.zip(found).map {
      case (row, Some(table)) => summaries.next().fold(row)(summary => Row(row.get(0), row.get(1), row.get(2), information(table, summary)))
      case (row, None) => row
    }
  }

  /** The metastore's entry of a Delta table; it may have been dropped since. */
  private def entry(session: SparkSession, row: Row): Option[CatalogTable] =
    if (!row.getString(3).contains("Provider: ")) None
    else scala.util.Try(SparkInternals.sessionCatalog(session).getTableMetadata(TableIdentifier(
      row.getString(1),
      Some(row.getString(0))))).toOption
      .filter(_.provider.exists(_.equalsIgnoreCase("delta")))

  private def information(table: CatalogTable, summary: TableSummary): String = table.copy(
    schema = SchemaText.read(summary.schema),
    partitionColumnNames = summary.partitionColumns,
    properties = summary.properties,
    comment = summary.description.orElse(table.comment),
    stats = Some(CatalogStatistics(summary.sizeInBytes, summary.rows.map(BigInt(_))))).simpleString + "\n"
}
