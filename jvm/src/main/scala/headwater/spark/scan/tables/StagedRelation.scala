package headwater.spark.scan.tables

import headwater.spark.bridge.{SchemaText, StoreOptions}
import headwater.spark.bridge.messages.StagedFiles
import headwater.spark.catalog.HeadwaterTable
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.datasources.LogicalRelation
import org.apache.spark.sql.headwater.scan.HeadwaterParquetFileFormat

/** Reads files that a write job has staged, which are part of no version of their table. */
object StagedRelation {
  def apply(session: SparkSession, files: StagedFiles, store: StoreOptions): LogicalRelation = {
    val columns = SchemaText.read(files.schema)
    val partitions = HeadwaterTable.partitionSchema(columns, files.partitionColumns)
    val state = TableState(
      files.path,
      version = -1L,
      tableId = "",
      files.sizeInBytes,
      rows = None,
      hasDeletionVectors = false,
      tableSchema = files.tableSchema,
      partitionColumns = files.partitionColumns,
      columnMappingMode = files.columnMappingMode,
      rowTracking = None)
    val index = new HeadwaterFileIndex(IndexedFiles(session, state, live = false, partitions, store, only = Some(files.files)))
    LogicalRelation(new TableRelation(index, partitions, columns, new HeadwaterParquetFileFormat(state), store.hadoop)(session))
  }
}
