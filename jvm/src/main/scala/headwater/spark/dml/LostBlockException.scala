package headwater.spark.dml

/** Materialized rows are gone, as their executor is. */
final class LostBlockException(block: String) extends RuntimeException(s"the rows materialized in $block were lost with their executor")
