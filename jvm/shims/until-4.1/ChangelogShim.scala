package headwater.spark.shims

import org.apache.spark.sql.connector.catalog.Table

/** This Spark has no CHANGES FROM: only `table_changes` and the reader's options read changes. */
trait ChangelogShim

object ChangelogShim {
  /** The changes in the table that Spark wraps them in. */
  def unapply(table: Table): Option[ChangelogShim] = None
}
