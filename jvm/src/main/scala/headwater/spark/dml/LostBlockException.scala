package headwater.spark.dml

/** Rows that were kept are no longer there. */
final class LostBlockException(block: String) extends RuntimeException(s"the rows kept in $block were lost with their executor")
