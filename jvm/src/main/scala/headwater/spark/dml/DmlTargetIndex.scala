package headwater.spark.dml

import headwater.spark.catalog.HeadwaterTable
import headwater.spark.scan.tables.{HeadwaterFileIndex, TableState}

/** The file index of a [[DmlTarget]]; it carries the table. */
final class DmlTargetIndex(val table: HeadwaterTable)
    extends HeadwaterFileIndex(table.session, table.path, TableState.of(table), live = true, table.partitionSchema, table.store)
