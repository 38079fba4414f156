package headwater.spark.catalog

import java.util.OptionalLong

import org.apache.spark.sql.connector.read.{Scan, Statistics, SupportsReportStatistics}
import org.apache.spark.sql.types.StructType

/** A scan that never runs: it gives DESCRIBE EXTENDED the table's size. */
private final class SizeOnlyScan(schema: StructType, bytes: Long) extends Scan with SupportsReportStatistics {
  override def readSchema(): StructType = schema
  override def estimateStatistics(): Statistics = new Statistics {
    override def sizeInBytes(): OptionalLong = OptionalLong.of(bytes)
    override def numRows(): OptionalLong = OptionalLong.empty()
  }
}
