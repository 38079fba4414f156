package headwater.spark.catalog

import java.util

import headwater.spark.shims.NewTable
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.write.{LogicalWriteInfo, WriteBuilder}

/** A table of another provider: created at once, and dropped again if writing its rows fails. Spark does the same without staging. */
final class NonDeltaStagedTable(catalog: TableCatalog, ident: Identifier, info: NewTable, mode: String, create: () => Table)
    extends StagedTable
    with SupportsWrite
    with ColumnsTable {

  private lazy val table: Table = {
    if (mode != "create" && catalog.tableExists(ident)) catalog.dropTable(ident)
    Option(create()).getOrElse(catalog.loadTable(ident))
  }

  override def name(): String = table.name()
  override def columns(): Array[Column] = info.columns
  override def partitioning() = info.partitions
  override def properties(): util.Map[String, String] = info.properties
  override def capabilities(): util.Set[TableCapability] = table.capabilities()
  override def newWriteBuilder(write: LogicalWriteInfo): WriteBuilder = table.asInstanceOf[SupportsWrite].newWriteBuilder(write)
  override def commitStagedChanges(): Unit = table
  override def abortStagedChanges(): Unit = catalog.dropTable(ident)
}
