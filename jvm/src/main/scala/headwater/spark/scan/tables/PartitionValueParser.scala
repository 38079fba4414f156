package headwater.spark.scan.tables

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.{DataType, StringType}
import org.apache.spark.unsafe.types.UTF8String

/**
 * Casts partition values, which are text in the log, as Spark casts them. Each distinct text is cast once. An empty text is null for every
 * type, as `protocol/partition_values.py` says; the handler sends none.
 */
private final class PartitionValueParser(dataType: DataType, timeZone: String) {
  private val parsed = mutable.HashMap.empty[String, Any]

  def parse(text: String): Any =
    if (text == null) null
    else
      parsed.getOrElseUpdate(text, Cast(Literal(UTF8String.fromString(text), StringType), dataType, Some(timeZone), EvalMode.LEGACY).eval())
}
