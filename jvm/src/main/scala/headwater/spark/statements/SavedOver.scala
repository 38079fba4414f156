package headwater.spark.statements

import scala.util.Try

import headwater.spark.scan.tables.HeadwaterFileIndex
import org.apache.spark.sql.{SaveMode, SparkSession}
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.command.RunnableCommand
import org.apache.spark.sql.headwater.SparkInternals

/**
 * `saveAsTable` in mode overwrite and a format of Spark's own, of rows that come from the Delta table that it replaces, or from its files,
 * as those of a shallow clone do. Spark drops that table before it reads the rows. It looks for the table only where a query reads it by
 * its name, newest version, outside of subqueries.
 *
 * Spark's command is known by its parts, because Spark 4.0 has none: there, nobody sees the rows before the table is gone.
 */
private[statements] object SavedOver {
  def refuse(session: SparkSession, command: RunnableCommand): Unit = command.productIterator.toSeq match {
    case Seq(table: CatalogTable, SaveMode.Overwrite, rows: LogicalPlan) =>
      val read = tables(rows)
      def replaced = tables(SparkInternals.logicalPlan(session.table(table.identifier.quotedString)))
      if (read.nonEmpty) Try(replaced).getOrElse(Nil).foreach { target =>
        if (HeadwaterFileIndex.isReadIn(rows, target.path, target.state.tableId, anyVersion = true) || read.exists(
            _.listsBelow(target.path))) {
          throw SparkInternals.overwritesItsSource(session, table.identifier)
        }
      }
    case _ =>
  }

  private def tables(plan: LogicalPlan): Seq[HeadwaterFileIndex] = plan.collectWithSubqueries {
    case HeadwaterFileIndex.Of(index) => index
  }
}
