package headwater.spark.dml

import headwater.spark.catalog.HeadwaterTable
import headwater.spark.scan.tables.{HeadwaterFileIndex, IndexedFiles}

/** The file index of a [[DmlTarget]]; it carries the table. */
final class DmlTargetIndex(val table: HeadwaterTable) extends HeadwaterFileIndex(IndexedFiles.of(table, live = true))
