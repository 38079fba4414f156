package headwater.spark.scan

import headwater.spark.bridge.messages.PinnedVersion
import headwater.spark.catalog.HeadwaterTable

/**
 * What a file index needs to know about the version that it lists. Two indexes of one table are equal if they are live or have the same
 * version.
 *
 * @param tableSchema the columns as the log has them
 */
final case class TableState(
    path: String,
    version: Long,
    tableId: String,
    sizeInBytes: Long,
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
      pinned.hasDeletionVectors,
      pinned.tableSchema,
      pinned.partitionColumns,
      pinned.columnMappingMode,
      RowTrackingColumns.of(pinned.rowTrackingColumns))

  def of(table: HeadwaterTable): TableState = TableState(
    table.path,
    table.snapshotVersion,
    table.info.tableId,
    table.info.sizeInBytes,
    table.info.hasDeletionVectors,
    table.info.tableSchema,
    table.info.partitionColumns,
    table.info.columnMappingMode,
    RowTrackingColumns.of(table.info.rowTrackingColumns))
}
