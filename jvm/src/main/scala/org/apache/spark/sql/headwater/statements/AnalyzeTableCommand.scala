package org.apache.spark.sql.headwater.statements

import headwater.spark.catalog.HeadwaterTable
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{CatalogColumnStat, CatalogStatistics}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.errors.QueryCompilationErrors
import org.apache.spark.sql.execution.command.{CommandUtils, LeafRunnableCommand}
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types._

/**
 * ANALYZE TABLE … COMPUTE STATISTICS, as Spark has it for its own tables: the figures go to the metastore. The size is that of the log,
 * where Spark would list the directory with the files of older versions.
 *
 * @param columns the columns to analyze; None for all, empty for the table alone
 */
case class AnalyzeTableCommand(table: HeadwaterTable, identifier: TableIdentifier, noScan: Boolean, columns: Option[Seq[String]])
    extends LeafRunnableCommand {
  override def nodeName: String = "ANALYZE TABLE"
  override def simpleString(maxFields: Int): String = s"$nodeName ${table.name()}"

  override def run(session: SparkSession): Seq[Row] = {
    val catalog = SparkInternals.sessionCatalog(session)
    val before = catalog.getTableMetadata(identifier).stats
    val relation = table.toRelation(Map.empty)
    val analyzed = columns.map(_.map(name =>
      relation.output.find(column => conf.resolver(column.name, name)).getOrElse(throw QueryCompilationErrors.columnNotFoundError(name))))
      .getOrElse(relation.output)
    analyzed.filterNot(isSupported).foreach { column =>
      throw QueryCompilationErrors.columnTypeNotSupportStatisticsCollectionError(column.name, identifier, column.dataType)
    }
    val (rows, found) =
      if (noScan) (before.filter(_.sizeInBytes == table.info.sizeInBytes).flatMap(_.rowCount), Map.empty[String, CatalogColumnStat])
      else if (analyzed.isEmpty) (Some(BigInt(SparkInternals.ofRows(session, relation).count())), Map.empty[String, CatalogColumnStat])
      else {
        val (count, statistics) = CommandUtils.computeColumnStats(session.asInstanceOf[ClassicSession], relation, analyzed)
        (
          Some(BigInt(count)),
          statistics.map { case (column, known) => column.name -> known.toCatalogColumnStat(column.name, column.dataType) })
      }
    val kept = before.map(_.colStats).getOrElse(Map.empty).filter { case (name, _) => relation.output.exists(_.name == name) }
    catalog.alterTableStats(identifier, Some(CatalogStatistics(table.info.sizeInBytes, rows, kept ++ found)))
    Nil
  }

  private def isSupported(column: Attribute): Boolean = column.dataType match {
    case _: NumericType | _: DatetimeType | _: StringType | BooleanType | BinaryType => true
    case _ => false
  }
}
