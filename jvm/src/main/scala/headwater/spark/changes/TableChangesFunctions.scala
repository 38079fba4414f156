package headwater.spark.changes

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.expressions.{Expression, ExpressionInfo}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/** The table functions `table_changes`, `table_changelog` and `table_debezium`, each also by path. */
object TableChangesFunctions {
  /** How the names of those end that take a path. */
  val ByPath = "_by_path"

  private val names = Seq("table_changes", "table_changelog", "table_debezium").flatMap(name => Seq(name, name + ByPath))

  val All: Seq[(FunctionIdentifier, ExpressionInfo, Seq[Expression] => LogicalPlan)] = names.map { name =>
    (
      FunctionIdentifier(name),
      new ExpressionInfo(classOf[TableChangesCall].getName, name),
      (arguments: Seq[Expression]) => TableChangesCall(name, arguments))
  }
}
