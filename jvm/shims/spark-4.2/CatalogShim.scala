package headwater.spark.shims

import headwater.spark.bridge.messages.ChangesBound
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** What Spark asks a catalog beyond what all Sparks ask. */
trait CatalogShim extends StagingShim {
  /** For `SELECT … FROM t CHANGES FROM …` and `spark.read.changes`: the changes of a table of ours; None for another. */
  protected def changesOf(ident: Identifier, bounds: Seq[ChangesBound], deduplicationMode: String): Option[ChangelogShim]

  /** CREATE TABLE … LIKE. */
  def createLike(ident: Identifier, table: NewTable, source: Table): Table

  override def createTableLike(ident: Identifier, table: TableInfo, source: Table): Table =
    createLike(ident, StagingShim.asked(table), source)

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
