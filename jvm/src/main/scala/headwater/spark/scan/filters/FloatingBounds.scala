package headwater.spark.scan.filters

import org.apache.spark.sql.sources._

/**
 * Bounds of floating-point columns in the footers of Parquet files. For Spark, NaN is greater than any other value, but most writers leave
 * it out of a minimum and a maximum. A filter that NaN meets then loses the rows with it, as Parquet's reader goes by these bounds.
 */
object FloatingBounds {
  // Since 1.10, Parquet's own writer gives no bounds at all beside NaN. Others that call themselves compatible have another name before
  // the version.
  private val Counting = """(?s)parquet-mr version (\d{1,4})\.(\d{1,4})\b.*""".r

  /** Whether the bounds of a file hold for NaN too. */
  def countNaN(createdBy: String): Boolean = createdBy match {
    case Counting(major, minor) => major.toInt > 1 || major.toInt == 1 && minor.toInt >= 10
    case _ => false
  }

  /** The filters that lose no row even if bounds leave NaN out. */
  def beside(filters: Seq[Filter]): Seq[Filter] = filters.filterNot(losesNaN)

  // The value has the column's type: Parquet's reader is given no other filters.
  private def losesNaN(filter: Filter): Boolean = filter match {
    case And(left, right) => losesNaN(left) || losesNaN(right)
    case Or(left, right) => losesNaN(left) || losesNaN(right)
    case GreaterThan(_, value) => isFloating(value)
    case GreaterThanOrEqual(_, value) => isFloating(value)
    case EqualTo(_, value) => isNaN(value)
    case EqualNullSafe(_, value) => isNaN(value)
    case In(_, values) => values.exists(isNaN)
    case Not(child) => mentionsFloating(child)
    case _ => false
  }

  private def mentionsFloating(part: Any): Boolean = part match {
    case list: Array[_] => list.exists(isFloating)
    case filter: Filter => filter.asInstanceOf[Product].productIterator.exists(mentionsFloating)
    case value => isFloating(value)
  }

  private def isFloating(value: Any): Boolean = value.isInstanceOf[java.lang.Double] || value.isInstanceOf[java.lang.Float]

  private def isNaN(value: Any): Boolean = value match {
    case number: java.lang.Double => number.isNaN
    case number: java.lang.Float => number.isNaN
    case _ => false
  }
}
