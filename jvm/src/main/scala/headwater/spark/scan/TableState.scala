package headwater.spark.scan

import headwater.spark.bridge.messages.PinnedVersion
import headwater.spark.catalog.HeadwaterTable

/**
 * What a file index needs to know about the version that it lists. Two indexes of one table are equal if they are live or have the same
 * version.
 */
final case class TableState(
    path: String,
    version: Long,
    tableId: String,
    sizeInBytes: Long,
    hasDeletionVectors: Boolean,
    schema: String,
    rowTracking: Option[RowTrackingColumns])

object TableState {
  def of(path: String, pinned: PinnedVersion): TableState =
    TableState(
      path,
      pinned.version,
      pinned.tableId,
      pinned.sizeInBytes,
      pinned.hasDeletionVectors,
      pinned.schema,
      RowTrackingColumns.of(pinned.rowTrackingColumns))

  def of(table: HeadwaterTable): TableState = TableState(
    table.path,
    table.snapshotVersion,
    table.info.tableId,
    table.info.sizeInBytes,
    table.info.hasDeletionVectors,
    table.info.schema,
    RowTrackingColumns.of(table.info.rowTrackingColumns))
}
