package headwater.spark.shims

import org.apache.spark.sql.catalyst.analysis.NamedRelation
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.logical._

/** The nodes of writes whose parameters differ between Sparks. */
object WriteShim {
  /** Whether the statement says WITH SCHEMA EVOLUTION. */
  def evolves(write: V2WriteCommand): Boolean = write.withSchemaEvolution

  def overwrite(
      table: NamedRelation,
      condition: Expression,
      query: LogicalPlan,
      options: Map[String, String],
      byName: Boolean,
      evolves: Boolean): OverwriteByExpression = OverwriteByExpression(table, condition, query, options, byName, evolves)

  /** INSERT … REPLACE USING or ON. */
  object ReplacingInsert {
    def unapply(insert: InsertIntoStatement): Option[Replacing] = insert match {
      case InsertIntoStatement(table: NamedRelation, _, _, query, _, _, byName, Some(criteria), evolves) =>
        def replacing(using: Seq[String], on: Option[Expression], alias: Option[String]) =
          Some(Replacing(table, query, byName, evolves, using, on, alias))
        criteria match {
          case InsertReplaceUsing(columns) => replacing(columns, None, None)
          case InsertReplaceOn(condition, alias) => replacing(Nil, Some(condition), alias)
          case _ => None
        }
      case _ => None
    }
  }
}
