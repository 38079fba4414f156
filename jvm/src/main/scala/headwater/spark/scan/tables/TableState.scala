package headwater.spark.scan.tables

import headwater.spark.scan.rows.RowTrackingColumns
import headwater.spark.bridge.messages.{PinnedVersion, TableDescription}
import headwater.spark.catalog.HeadwaterTable
import org.apache.spark.sql.types.StructType

/**
 * What a file index needs to know about the version that it lists. Two indexes of one table are equal if they are live or have the same
 * version.
 *
 * @param rows of its files, if they are known
 * @param tableSchema the columns as the log has them
 */
final case class TableState(
    path: String,
    version: Long,
    tableId: String,
    sizeInBytes: Long,
    rows: Option[Long],
    hasDeletionVectors: Boolean,
    tableSchema: String,
    partitionColumns: Seq[String],
    columnMappingMode: String,
    rowTracking: Option[RowTrackingColumns]) {

  /** Whether the files of both have the same columns in the same places. */
  def hasColumnsOf(other: TableState): Boolean =
    tableSchema == other.tableSchema && partitionColumns == other.partitionColumns && columnMappingMode == other.columnMappingMode
}

object TableState {
  def of(path: String, pinned: PinnedVersion): TableState =
    TableState(
      path,
      pinned.version,
      pinned.tableId,
      pinned.sizeInBytes,
      pinned.rows,
      pinned.hasDeletionVectors,
      pinned.tableSchema,
      pinned.partitionColumns,
      pinned.columnMappingMode,
      RowTrackingColumns.of(pinned.rowTrackingColumns))

  def of(table: HeadwaterTable): TableState = of(table.info).copy(path = table.path)

  def of(table: TableDescription): TableState = TableState(
    table.path,
    table.version,
    table.tableId,
    table.sizeInBytes,
    rows = None,
    hasDeletionVectors = table.hasDeletionVectors,
    tableSchema = table.tableSchema,
    partitionColumns = table.partitionColumns,
    columnMappingMode = table.columnMappingMode,
    rowTracking = RowTrackingColumns.of(table.rowTrackingColumns))

  /** That of files which are written, whose columns have their own names. */
  def ofNewFiles(path: String, schema: StructType): TableState = TableState(
    path,
    version = -1L,
    tableId = "",
    sizeInBytes = 0L,
    rows = None,
    hasDeletionVectors = false,
    tableSchema = schema.json,
    partitionColumns = Nil,
    columnMappingMode = "none",
    rowTracking = None)
}
