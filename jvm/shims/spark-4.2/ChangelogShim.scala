package headwater.spark.shims

import org.apache.spark.sql.connector.catalog.{Changelog, Table}
import org.apache.spark.sql.execution.datasources.v2.ChangelogTable

/** What a table of changes is to Spark's CHANGES FROM. */
trait ChangelogShim extends Changelog {
  // A version's changes are recorded row by row, updates as such; rows have no identity across versions.
  override def containsCarryoverRows(): Boolean = false
  override def containsIntermediateChanges(): Boolean = false
  override def representsUpdateAsDeleteAndInsert(): Boolean = false
}

object ChangelogShim {
  /** The changes in the table that Spark wraps them in. */
  def unapply(table: Table): Option[ChangelogShim] = table match {
    case ChangelogTable(changes: ChangelogShim, _, _) => Some(changes)
    case _ => None
  }
}
