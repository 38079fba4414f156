package headwater.spark.catalog

import java.util
import java.util.OptionalLong

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.catalog.{CatalogColumnStat, CatalogStatistics}
import org.apache.spark.sql.connector.expressions.{Expressions, NamedReference}
import org.apache.spark.sql.connector.read.{Scan, Statistics, SupportsReportStatistics}
import org.apache.spark.sql.connector.read.colstats.ColumnStatistics
import org.apache.spark.sql.types.StructType

/**
 * A scan that never runs: it gives DESCRIBE EXTENDED the table's size, the row count that the log has, and what ANALYZE TABLE stored.
 * Without one in the log, the row count is what ANALYZE TABLE stored, while the table has the size that it had then.
 */
private final class DescribedScan(schema: StructType, bytes: Long, counted: => Option[Long], analyzed: Option[CatalogStatistics])
    extends Scan with SupportsReportStatistics {
  override def readSchema(): StructType = schema

  override def estimateStatistics(): Statistics = new Statistics {
    override def sizeInBytes(): OptionalLong = OptionalLong.of(bytes)
    override def numRows(): OptionalLong =
      optional(counted.map(BigInt(_)).orElse(analyzed.filter(_.sizeInBytes == bytes).flatMap(_.rowCount)))
    override def columnStats(): util.Map[NamedReference, ColumnStatistics] = analyzed.map(_.colStats).getOrElse(Map.empty)
      .map { case (name, known) => (Expressions.column("`" + name.replace("`", "``") + "`"): NamedReference) -> described(known) }.asJava
  }

  private def described(known: CatalogColumnStat): ColumnStatistics = new ColumnStatistics {
    override def distinctCount(): OptionalLong = optional(known.distinctCount)
    override def nullCount(): OptionalLong = optional(known.nullCount)
    override def avgLen(): OptionalLong = optional(known.avgLen.map(BigInt(_)))
    override def maxLen(): OptionalLong = optional(known.maxLen.map(BigInt(_)))
  }

  private def optional(number: Option[BigInt]): OptionalLong = number.map(n => OptionalLong.of(n.toLong)).getOrElse(OptionalLong.empty)
}
