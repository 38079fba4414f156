package headwater.spark.shims

import org.apache.spark.sql.catalyst.analysis.NamedRelation
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.logical._

/** The nodes of writes whose parameters differ between Sparks. This one's parser knows neither WITH SCHEMA EVOLUTION nor REPLACE USING. */
object WriteShim {
  /** Whether the statement says WITH SCHEMA EVOLUTION. */
  def evolves(write: V2WriteCommand): Boolean = false

  def overwrite(
      table: NamedRelation,
      condition: Expression,
      query: LogicalPlan,
      options: Map[String, String],
      byName: Boolean,
      evolves: Boolean): OverwriteByExpression = OverwriteByExpression(table, condition, query, options, byName)

  /** INSERT … REPLACE USING or ON. */
  object Replacing {
    def unapply(insert: InsertIntoStatement): Option[Replacing] = None
  }

  final class Replacing(
      val table: NamedRelation,
      val query: LogicalPlan,
      val byName: Boolean,
      val evolves: Boolean,
      val using: Seq[String],
      val on: Option[Expression],
      val alias: Option[String])
}
