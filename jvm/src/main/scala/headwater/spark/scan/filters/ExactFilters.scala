package headwater.spark.scan.filters

import java.sql.{Date, Timestamp}
import java.time.{Instant, LocalDate}

import org.apache.spark.sql.sources.Filter

/**
 * Filters that mean for a file what they meant in the query. Spark hands them over with `java.sql` values, which count in another calendar
 * before 1582 and in other offsets of time zones before 1900. The ten days that the calendar skips all become the day after them, and some
 * times of other days become times near them: a filter with such a value would drop matching rows.
 */
object ExactFilters {
  private val AfterSkippedDays = LocalDate.of(1582, 10, 15)
  /** A day more than 1900, because zones reach that year at different times. */
  private val SameInBoth = Instant.parse("1900-01-02T00:00:00Z").toEpochMilli

  def of(filters: Seq[Filter]): Seq[Filter] = filters.filter(values(_).forall {
    case time: Timestamp => time.getTime >= SameInBoth
    case date: Date => date.toLocalDate != AfterSkippedDays
    case _ => true
  })

  private def values(part: Any): Iterator[Any] = part match {
    case list: Array[_] => list.iterator
    case filter: Product => filter.productIterator.flatMap(values)
    case value => Iterator.single(value)
  }
}
