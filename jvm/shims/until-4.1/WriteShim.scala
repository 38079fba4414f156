package headwater.spark.shims

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.analysis.{NamedRelation, UnresolvedAttribute, UnresolvedRelation}
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * The nodes of writes whose parameters differ between Sparks. This one's parser knows neither WITH SCHEMA EVOLUTION nor REPLACE USING or
 * ON; the handler writes them as options of the table (`headwater/sql/older_sparks.py`).
 */
object WriteShim {
  private val Using = "headwater.replaceUsing"
  private val On = "headwater.replaceOn"
  private val Alias = "headwater.targetAlias"

  /** Whether the statement says WITH SCHEMA EVOLUTION other than by an option. */
  def evolves(write: V2WriteCommand): Boolean = false

  def overwrite(
      table: NamedRelation,
      condition: Expression,
      query: LogicalPlan,
      options: Map[String, String],
      byName: Boolean,
      evolves: Boolean): OverwriteByExpression = OverwriteByExpression(table, condition, query, options, byName)

  /** INSERT … REPLACE USING or ON. */
  object ReplacingInsert {
    def unapply(insert: InsertIntoStatement): Option[Replacing] = insert match {
      case InsertIntoStatement(table: UnresolvedRelation, _, _, query, _, _, byName)
          if table.options.containsKey(Using) || table.options.containsKey(On) =>
        val others = table.options.asCaseSensitiveMap().asScala.filterNot { case (key, _) => Set(Using, On, Alias)(key) }
        Some(
          Replacing(
            table.copy(options = new CaseInsensitiveStringMap(others.asJava)),
            query,
            byName,
            evolves = false,
            Option(table.options.get(Using)).toSeq.flatMap(names),
            Option(table.options.get(On)).map(CatalystSqlParser.parseExpression),
            Option(table.options.get(Alias)).map(name => CatalystSqlParser.parseMultipartIdentifier(name).head)))
      case _ => None
    }

    private def names(listed: String): Seq[String] = CatalystSqlParser.parseExpression(s"struct($listed)").children.collect {
      case column: UnresolvedAttribute => column.nameParts.mkString(".")
    }
  }
}
