package headwater.spark.scan.files

import headwater.spark.scan.filters.FloatingBounds
import java.nio.ByteBuffer
import java.nio.charset.{CharacterCodingException, CodingErrorAction}
import java.nio.charset.StandardCharsets.UTF_8

import scala.jdk.CollectionConverters._

import headwater.spark.write.FooterStatistics
import org.apache.parquet.hadoop.metadata.ParquetMetadata
import org.apache.parquet.io.api.Binary
import org.apache.parquet.schema.{LogicalTypeAnnotation, PrimitiveType}
import org.apache.parquet.schema.LogicalTypeAnnotation.{
  DateLogicalTypeAnnotation, DecimalLogicalTypeAnnotation, IntLogicalTypeAnnotation, StringLogicalTypeAnnotation,
  TimestampLogicalTypeAnnotation, TimeUnit
}
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName.{BINARY, DOUBLE, FLOAT, INT32, INT64}
import org.apache.spark.sql.execution.datasources.DataSourceUtils
import org.apache.spark.sql.internal.LegacyBehaviorPolicy
import org.apache.spark.sql.types._

/**
 * The statistics in the footer of a file that any writer may have written: minimum, maximum and null count of columns, in the form of
 * [[FooterStatistics]]. A bound that is not surely one of the column's values as Spark reads them is left out; so are both, then.
 */
final class ForeignStatistics(footer: ParquetMetadata, schema: StructType) {
  private val file = footer.getFileMetaData
  private val blocks = footer.getBlocks.asScala.toSeq
  private val chunks = blocks.map(_.getColumns.asScala.map(c => c.getPath.toArray.toSeq.map(_.toLowerCase) -> c).toSeq)
  // Whether Spark reads days and times as they are, whatever its session's settings are.
  private val isProleptic = {
    val calendar = DataSourceUtils.datetimeRebaseSpec(file.getKeyValueMetaData.get, LegacyBehaviorPolicy.LEGACY.toString)
    calendar.mode == LegacyBehaviorPolicy.CORRECTED
  }
  private val countsNaN = FloatingBounds.countNaN(file.getCreatedBy)

  def rows: Long = blocks.map(_.getRowCount).sum

  /** Those of the columns of the paths, whatever case they are in, or of the file's first `most` (all if negative), arrays and maps too. */
  def of(paths: Option[Seq[Seq[String]]], most: Int): Seq[Seq[Any]] = {
    val known = leaves(schema)
    paths match {
      case Some(wanted) =>
        val byPath = known.groupBy(_._1.map(_.toLowerCase))
        wanted.map(path =>
          byPath.getOrElse(path.map(_.toLowerCase), Nil) match {
            case Seq((_, kind)) => column(path, kind)
            case _ => ForeignStatistics.Unknown
          })
      case None => (if (most < 0) known else known.take(most)).map { case (path, kind) => column(path, kind) }
    }
  }

  private def leaves(struct: StructType): Seq[(Seq[String], DataType)] = struct.toSeq.flatMap { field =>
    field.dataType match {
      case inner: StructType => leaves(inner).map { case (path, kind) => (field.name +: path, kind) }
      case kind => Seq(Seq(field.name) -> kind)
    }
  }

  private def column(path: Seq[String], kind: DataType): Seq[Any] = {
    val folded = path.map(_.toLowerCase)
    val found = chunks.map(_.filter(_._1 == folded).map(_._2))
    // Two columns of one name: only the reader knows which is meant.
    if (blocks.isEmpty || found.exists(_.size != 1)) ForeignStatistics.Unknown
    else FooterStatistics.merge(found.map(_.head), bound(_, found.head.head.getPrimitiveType, kind))
  }

  private def bound(raw: Any, stored: PrimitiveType, kind: DataType): Any = {
    val (physical, logical) = (stored.getPrimitiveTypeName, stored.getLogicalTypeAnnotation)
    kind match {
      case ByteType | ShortType | IntegerType | LongType if (physical == INT32 || physical == INT64) && isSigned(logical) =>
        FooterStatistics.value(raw, stored)
      case FloatType if physical == FLOAT && countsNaN => FooterStatistics.value(raw, stored)
      case DoubleType if physical == DOUBLE && countsNaN => FooterStatistics.value(raw, stored)
      case _: DecimalType if logical.isInstanceOf[DecimalLogicalTypeAnnotation] => FooterStatistics.value(raw, stored)
      case DateType if logical.isInstanceOf[DateLogicalTypeAnnotation] => since(raw, ForeignStatistics.FirstDay)
      case TimestampType | TimestampNTZType => (raw, logical) match {
          case (time: java.lang.Long, annotation: TimestampLogicalTypeAnnotation)
              if annotation.isAdjustedToUTC == (kind == TimestampType) =>
            since(microseconds(time, annotation.getUnit), ForeignStatistics.FirstMicrosecond)
          case _ => null
        }
      case _: StringType if physical == BINARY && logical.isInstanceOf[StringLogicalTypeAnnotation] => text(raw)
      case _ => null
    }
  }

  private def isSigned(logical: LogicalTypeAnnotation): Boolean = logical match {
    case null => true
    case number: IntLogicalTypeAnnotation => number.isSigned
    case _ => false
  }

  /** Earlier days and times may be counted by the Julian calendar, as the reader knows. */
  private def since(raw: Any, first: Long): Any = raw match {
    case number: java.lang.Number if isProleptic || number.longValue >= first => number
    case _ => null
  }

  /** Spark also cuts nanoseconds off. */
  private def microseconds(time: Long, unit: TimeUnit): Any = unit match {
    case TimeUnit.MILLIS => try Long.box(Math.multiplyExact(time, 1000L))
      catch { case _: ArithmeticException => null }
    case TimeUnit.MICROS => Long.box(time)
    case TimeUnit.NANOS => Long.box(Math.floorDiv(time, 1000L))
  }

  private def text(raw: Any): Any = raw match {
    case bytes: Binary =>
      val decoder = UTF_8.newDecoder().onMalformedInput(CodingErrorAction.REPORT).onUnmappableCharacter(CodingErrorAction.REPORT)
      try decoder.decode(ByteBuffer.wrap(bytes.getBytes)).toString
      catch { case _: CharacterCodingException => null }
    case _ => null
  }
}

private object ForeignStatistics {
  val Unknown: Seq[Any] = Seq(null, null, null)
  /** 1582-10-15. */
  val FirstDay: Long = -141427L
  /** 1900-01-01. */
  val FirstMicrosecond: Long = -2208988800000000L
}
