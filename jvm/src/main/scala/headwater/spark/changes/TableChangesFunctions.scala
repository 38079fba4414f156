package headwater.spark.changes

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.expressions.{Expression, ExpressionInfo}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/** The table functions `table_changes` and `table_changes_by_path`. */
object TableChangesFunctions {
  val ByPath = "table_changes_by_path"

  val All: Seq[(FunctionIdentifier, ExpressionInfo, Seq[Expression] => LogicalPlan)] = Seq("table_changes", ByPath).map { name =>
    (FunctionIdentifier(name), new ExpressionInfo(classOf[TableChangesCall].getName, name), (arguments: Seq[Expression]) => TableChangesCall(name, arguments))
  }
}
