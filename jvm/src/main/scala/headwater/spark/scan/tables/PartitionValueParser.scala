package headwater.spark.scan.tables

import scala.collection.mutable
import scala.util.Try

import headwater.spark.HeadwaterException
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.types.{DataType, DayTimeIntervalType, StringType, StructField, YearMonthIntervalType}
import org.apache.spark.unsafe.types.UTF8String

/**
 * Casts partition values, which are text in the log, as Spark casts them. Each distinct text is cast once. An empty text is null for every
 * type, as `protocol/partition_values.py` says; the handler sends none.
 */
private final class PartitionValueParser(field: StructField, timeZone: String) {
  private val parsed = mutable.HashMap.empty[String, Any]

  def parse(text: String): Any = if (text == null) null else parsed.getOrElseUpdate(text, cast(text))

  private def cast(text: String): Any = field.dataType match {
    case kind @ (_: DayTimeIntervalType | _: YearMonthIntervalType) =>
      // A text may name fewer fields than the column has: `INTERVAL '3' DAY`. The values of both are the same.
      val fields = text.substring(text.lastIndexOf('\'') + 1)
      val written = Try(CatalystSqlParser.parseDataType(s"INTERVAL $fields")).filter(_.getClass == kind.getClass).getOrElse(kind)
      Try(as(written, text)).getOrElse(
        throw HeadwaterException("DELTA_INVALID_PARTITION_VALUE", "column" -> field.name, "value" -> text, "dataType" -> kind.sql))
    case kind => as(kind, text)
  }

  private def as(kind: DataType, text: String): Any =
    Cast(Literal(UTF8String.fromString(text), StringType), kind, Some(timeZone), EvalMode.LEGACY).eval()
}
