package headwater.spark.shims

import headwater.spark.bridge.messages.ChangesBound
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.execution.datasources.v2.ChangelogTable
import org.apache.spark.sql.util.CaseInsensitiveStringMap

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

/** What Spark asks a catalog beyond what all Sparks ask. */
trait CatalogShim extends DelegatingCatalogExtension {
  /** For `SELECT … FROM t CHANGES FROM …` and `spark.read.changes`: the changes of a table of ours; None for another. */
  protected def changesOf(ident: Identifier, bounds: Seq[ChangesBound], deduplicationMode: String): Option[ChangelogShim]

  /** CREATE TABLE … LIKE. */
  def createLike(ident: Identifier, table: TableInfo, source: Table): Table

  override def createTableLike(ident: Identifier, table: TableInfo, source: Table): Table = createLike(ident, table, source)

  override def loadChangelog(ident: Identifier, context: ChangelogContext, options: CaseInsensitiveStringMap): Changelog =
    changesOf(ident, bounds(context), context.deduplicationMode.value).getOrElse(super.loadChangelog(ident, context, options))

  private def bounds(context: ChangelogContext): Seq[ChangesBound] = context.range() match {
    case range: ChangelogRange.VersionRange =>
      bound("startingVersion", range.startingVersion, range.startingBoundInclusive) +:
        Option(range.endingVersion.orElse(null)).map(bound("endingVersion", _, range.endingBoundInclusive)).toSeq
    case range: ChangelogRange.TimestampRange =>
      bound("startingTimestamp", range.startingTimestamp.toString, range.startingBoundInclusive) +:
        Option(range.endingTimestamp.orElse(null)).map(t => bound("endingTimestamp", t.toString, range.endingBoundInclusive)).toSeq
    case _ => Nil
  }

  private def bound(name: String, value: String, inclusive: Boolean): ChangesBound =
    ChangesBound(name, Option(value), Option(value), inclusive)
}
