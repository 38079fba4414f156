package headwater.spark.changes

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.expressions.{Expression, ExpressionInfo}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/** The table functions `table_changes` and `table_changelog`, each also by path. */
object TableChangesFunctions {
  /** How the names of those end that take a path. */
  val ByPath = "_by_path"

  val All: Seq[(FunctionIdentifier, ExpressionInfo, Seq[Expression] => LogicalPlan)] = Seq("table_changes", "table_changelog").flatMap(name => Seq(name, name + ByPath)).map { name =>
    (FunctionIdentifier(name), new ExpressionInfo(classOf[TableChangesCall].getName, name), (arguments: Seq[Expression]) => TableChangesCall(name, arguments))
  }
}
