package headwater.spark.write

import java.math.{BigDecimal => JavaDecimal, BigInteger}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.FileStatus
import org.apache.parquet.HadoopReadOptions
import org.apache.parquet.column.statistics.Statistics
import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.hadoop.metadata.{ColumnChunkMetaData, ParquetMetadata}
import org.apache.parquet.hadoop.util.HadoopInputFile
import org.apache.parquet.io.api.Binary
import org.apache.parquet.schema.PrimitiveType
import org.apache.parquet.schema.LogicalTypeAnnotation.{DecimalLogicalTypeAnnotation, StringLogicalTypeAnnotation}

/**
 * Row count and, for each column, minimum, maximum and null count of a finished file, from its footer. Values are raw: dates are days,
 * timestamps microseconds, decimals text. A column without usable statistics has nulls. The file is one of this writer's, so days and times
 * are those of Spark's calendar; [[headwater.spark.scan.files.ForeignStatistics]] is for others.
 */
final case class FooterStatistics(rows: Long, columns: Seq[Seq[Any]])

object FooterStatistics {
  def read(file: FileStatus, conf: Configuration, leaves: Seq[Seq[String]]): FooterStatistics = {
    // With options of its own, the reader would make a new configuration: it reads Hadoop's files of defaults, for milliseconds.
    val reader = ParquetFileReader.open(HadoopInputFile.fromStatus(file, conf), HadoopReadOptions.builder(conf, file.getPath).build())
    try of(reader.getFooter, leaves)
    finally reader.close()
  }

  def of(footer: ParquetMetadata, leaves: Seq[Seq[String]]): FooterStatistics = {
    val blocks = footer.getBlocks.asScala.toSeq
    val byPath = blocks.map(_.getColumns.asScala.map(c => c.getPath.toArray.toSeq -> c).toMap)
    val columns = leaves.map { path =>
      val chunks = byPath.flatMap(_.get(path))
      if (chunks.isEmpty || chunks.size < blocks.size) Seq(null, null, null) else merge(chunks, value(_, chunks.head.getPrimitiveType))
    }
    FooterStatistics(blocks.map(_.getRowCount).sum, columns)
  }

  /**
   * Minimum, maximum and null count of all chunks of a column. `value` makes a bound what it stands for; null leaves both bounds out.
   */
  private[spark] def merge(chunks: Seq[ColumnChunkMetaData], value: Any => Any): Seq[Any] = {
    val parts = chunks.map(c => (c.getStatistics.asInstanceOf[Statistics[_]], c.getValueCount))
    if (parts.exists { case (s, _) => s == null || s.isEmpty || !s.isNumNullsSet }) Seq(null, null, null)
    else {
      val nulls = parts.map(_._1.getNumNulls).sum
      val bounded = parts.filter { case (s, values) => s.getNumNulls < values }
      if (bounded.isEmpty || bounded.exists { case (s, _) => !s.hasNonNullValue }) Seq(null, null, nulls)
      else {
        val merged: Statistics[_] = bounded.head._1.copy().asInstanceOf[Statistics[_]]
        bounded.tail.foreach(part => merged.mergeStatistics(part._1))
        val (low, high) = (value(merged.genericGetMin()), value(merged.genericGetMax()))
        if (low == null || high == null) Seq(null, null, nulls) else Seq(low, high, nulls)
      }
    }
  }

  private[spark] def value(raw: Any, kind: PrimitiveType): Any = (raw, kind.getLogicalTypeAnnotation) match {
    case (n: java.lang.Integer, d: DecimalLogicalTypeAnnotation) => JavaDecimal.valueOf(n.longValue, d.getScale).toPlainString
    case (n: java.lang.Long, d: DecimalLogicalTypeAnnotation) => JavaDecimal.valueOf(n, d.getScale).toPlainString
    case (b: Binary, d: DecimalLogicalTypeAnnotation) => new JavaDecimal(new BigInteger(b.getBytes), d.getScale).toPlainString
    case (b: Binary, _: StringLogicalTypeAnnotation) => b.toStringUsingUTF8
    case (n: java.lang.Integer, _) => n
    case (n: java.lang.Long, _) => n
    case (n: java.lang.Float, _) => finite(n.toDouble, n.toString)
    case (n: java.lang.Double, _) => finite(n, n.toString)
    case _ => null
  }

  // A float keeps its own shortest text: as a double it would have more digits than it is precise.
  private def finite(n: Double, text: String): Any =
    if (n.isNaN) null else if (n.isInfinite) (if (n > 0) "Infinity" else "-Infinity") else new JavaDecimal(text)
}
