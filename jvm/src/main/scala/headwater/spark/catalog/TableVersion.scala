package headwater.spark.catalog

import headwater.spark.HeadwaterException
import org.apache.spark.sql.catalyst.expressions.{Cast, EvalMode, Literal}
import org.apache.spark.sql.types.{StringType, TimestampType}
import org.apache.spark.unsafe.types.UTF8String

/**
 * Which version of a table a statement reads: a version, or a time in microseconds since the epoch (as text), or the latest.
 *
 * @param mayBeLater whether the time may be after the latest version, which is then the one
 */
final case class TableVersion(version: Option[Long] = None, timestamp: Option[String] = None, mayBeLater: Boolean = false) {
  def isLatest: Boolean = version.isEmpty && timestamp.isEmpty
}

object TableVersion {
  val Latest: TableVersion = TableVersion()
  def apply(version: Long): TableVersion = TableVersion(Some(version))

  /** A timestamp as Spark parses it in a time zone: microseconds since the epoch, as text. */
  def moment(text: String, zone: String): String = {
    val value = Cast(Literal(UTF8String.fromString(text), StringType), TimestampType, Some(zone), EvalMode.LEGACY).eval()
    if (value == null) throw HeadwaterException("DELTA_TIMESTAMP_INVALID", "expr" -> text)
    value.toString
  }
}
