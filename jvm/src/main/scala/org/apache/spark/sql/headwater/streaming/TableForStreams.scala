package org.apache.spark.sql.headwater.streaming

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{CatalogStorageFormat, CatalogTable, CatalogTableType}
import org.apache.spark.sql.connector.catalog.V2TableWithV1Fallback
import org.apache.spark.sql.types.StructType

/** A table that Spark's streaming reads and writes by its path: `toTable` and `readStream.table` pass on this entry. */
trait TableForStreams extends V2TableWithV1Fallback {
  /** The catalog's entry, if the table has a name. */
  def catalogTable: Option[CatalogTable]
  def path: String

  /**
   * The entry has no columns: those are in the log. Spark makes what was registered with it options of the stream; only settings of file
   * systems and the like, which have a dot in their names, are meant for one.
   */
  override def v1Table: CatalogTable = {
    val entry = withoutColumns
    TableForStreams.last.set(catalogTable.map(_ => (path, entry)))
    entry
  }

  private def withoutColumns: CatalogTable = catalogTable
    .map(entry =>
      entry.copy(
        storage = entry.storage.copy(properties = entry.storage.properties.filter(_._1.contains("."))),
        schema = new StructType,
        partitionColumnNames = Nil,
        bucketSpec = None,
        provider = Some("delta")))
    .getOrElse(CatalogTable(
      identifier = TableIdentifier(path, Some("delta")),
      tableType = CatalogTableType.EXTERNAL,
      storage = CatalogStorageFormat.empty.copy(locationUri = Some(new Path(path).toUri)),
      schema = new StructType,
      provider = Some("delta")))
}

object TableForStreams {
  private val last = ThreadLocal.withInitial[Option[(String, CatalogTable)]](() => None)

  /** The entry by which this thread's `toTable` has found the table at a path. Spark passes on no more than the path. */
  def entryOf(path: String): Option[CatalogTable] = last.get.collect { case (`path`, entry) => entry }
}
