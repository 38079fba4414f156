package headwater.spark.write

import headwater.spark.shims.WriteShim
import org.apache.spark.sql.catalyst.expressions.{Expression, LeafExpression, Unevaluable}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.trees.CurrentOrigin
import org.apache.spark.sql.execution.command.ExplainCommand
import org.apache.spark.sql.types.{BooleanType, DataType}

/**
 * What an INSERT … REPLACE USING or ON replaces, in the place of an overwrite's condition. Spark would resolve that against the table
 * alone; so this one has no children, and [[PlanHeadwaterReplace]] resolves it.
 */
case class ReplaceCriteria(using: Seq[String], on: Option[Expression], alias: Option[String]) extends LeafExpression with Unevaluable {
  override def dataType: DataType = BooleanType
  override def nullable: Boolean = false
  override def sql: String = if (on.isEmpty) s"USING (${using.mkString(", ")})" else s"ON ${on.get.sql}"
}

object ReplaceCriteria {
  /**
   * Spark's analyzer refuses the statement for every table, so it becomes an overwrite, which Spark resolves as it does INSERT … REPLACE
   * WHERE.
   */
  def overwrites(plan: LogicalPlan): LogicalPlan = plan match {
    case explain @ ExplainCommand(statement, _) => explain.copy(logicalPlan = overwrites(statement))
    case other => other.transformDown {
        case insert @ WriteShim.ReplacingInsert(asked) =>
          val criteria = ReplaceCriteria(asked.using, asked.on, asked.alias)
          CurrentOrigin.withOrigin(insert.origin) {
            WriteShim.overwrite(asked.table, criteria, asked.query, Map.empty, asked.byName, asked.evolves)
          }
      }
  }

  private val Options = Set("replaceusing", "replaceon")

  /** Whether the options of a writer ask for the same. */
  def asked(options: Map[String, String]): Boolean = options.keys.exists(key => Options(key.toLowerCase(java.util.Locale.ROOT)))
}
