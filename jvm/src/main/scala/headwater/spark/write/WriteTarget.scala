package headwater.spark.write

import java.util

import headwater.spark.catalog.{ColumnsTable, HeadwaterTable}
import headwater.spark.scan.tables.HeadwaterFileIndex
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.connector.catalog.{Column, SupportsWrite, TableCapability}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.write.{LogicalWriteInfo, WriteBuilder}
import org.apache.spark.sql.headwater.write.FixedRows

/**
 * A table as a write sees it whose columns are matched: with what the write replaces. `mode`, `replaceWhere` and what is known of the rows
 * are those of [[headwater.spark.bridge.messages.WriteRequest]]. Spark hands a writer of its first interface no more than a table and the
 * user's options.
 */
final case class WriteTarget(
    table: HeadwaterTable,
    mode: String,
    replaceWhere: Option[String] = None,
    readsTable: Boolean = false,
    rowsAreFixed: Boolean = false)
    extends ColumnsTable
    with SupportsWrite {
  def of(rows: LogicalPlan): WriteTarget =
    copy(readsTable = HeadwaterFileIndex.isReadIn(rows, table.path, table.info.tableId), rowsAreFixed = FixedRows.areIn(rows))

  override def name(): String = table.name()
  override def toString: String = table.toString
  override def columns(): Array[Column] = table.columns()
  override def partitioning(): Array[Transform] = table.partitioning()
  override def properties(): util.Map[String, String] = table.properties()
  override def capabilities(): util.Set[TableCapability] = table.capabilities()
  override def newWriteBuilder(write: LogicalWriteInfo): WriteBuilder = new HeadwaterWriteBuilder(this, write.options)
}

object WriteTarget {
  val Append = "append"
  val Overwrite = "overwrite"
  val Dynamic = "dynamic"
}
