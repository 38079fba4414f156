package headwater.spark.shims

import headwater.spark.bridge.messages.ChangesBound
import org.apache.spark.sql.connector.catalog.{DelegatingCatalogExtension, Identifier, Table, TableInfo}

/** What later Sparks ask a catalog: this one has no CHANGES FROM, and runs CREATE TABLE … LIKE as a command. */
trait CatalogShim extends DelegatingCatalogExtension {
  protected def changesOf(ident: Identifier, bounds: Seq[ChangesBound], deduplicationMode: String): Option[ChangelogShim]

  /** CREATE TABLE … LIKE. */
  def createLike(ident: Identifier, table: TableInfo, source: Table): Table
}
