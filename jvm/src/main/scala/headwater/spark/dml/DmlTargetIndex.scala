package headwater.spark.dml

import headwater.spark.catalog.HeadwaterTable
import headwater.spark.scan.{HeadwaterFileIndex, TableState}

/** The index of a relation that a DELETE, UPDATE or MERGE is about; the statement is read off the table it carries. */
final class DmlTargetIndex(val table: HeadwaterTable)
    extends HeadwaterFileIndex(table.session, table.path, TableState.of(table), live = true, table.partitionSchema, Map.empty)
