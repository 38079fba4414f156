package headwater.spark.shims

import headwater.spark.bridge.messages.ChangesBound
import org.apache.spark.sql.connector.catalog.{Identifier, Table}

/** What later Sparks ask a catalog: this one has no CHANGES FROM, and runs CREATE TABLE … LIKE as a command. */
trait CatalogShim extends StagingShim {
  protected def changesOf(ident: Identifier, bounds: Seq[ChangesBound], deduplicationMode: String): Option[ChangelogShim]

  /** CREATE TABLE … LIKE. */
  def createLike(ident: Identifier, table: NewTable, source: Table): Table
}
