package headwater.spark.scan.late

/**
 * What the handler asks a scan to materialize late.
 *
 * @param columns the table's columns that are read only for rows that need them
 * @param rowsPerValue once more than one row in this many needs them, the task reads all columns for all rows
 */
final case class LateMaterialization(columns: Set[String], rowsPerValue: Int)

object LateMaterialization {
  val None: LateMaterialization = LateMaterialization(Set.empty, 1)
}
