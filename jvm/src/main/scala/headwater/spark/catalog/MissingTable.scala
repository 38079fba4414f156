package headwater.spark.catalog

import java.util

import headwater.spark.HeadwaterException
import org.apache.spark.sql.connector.catalog.{Column, SupportsRead, TableCapability}
import org.apache.spark.sql.connector.read.ScanBuilder
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * The table at a path that has none yet. Spark can save to it, which creates the table; whatever asks for its columns gets the handler's
 * error.
 */
final class MissingTable(path: String, error: HeadwaterException) extends ColumnsTable with SupportsRead {
  override def name(): String = s"delta.`$path`"
  override def toString: String = name()
  override def columns(): Array[Column] = throw error
  override def capabilities(): util.Set[TableCapability] = util.EnumSet.of(TableCapability.BATCH_READ, TableCapability.V1_BATCH_WRITE)
  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = throw error
}
