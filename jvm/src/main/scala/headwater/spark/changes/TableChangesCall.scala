package headwater.spark.changes

import org.apache.spark.sql.catalyst.analysis.UnresolvedLeafNode
import org.apache.spark.sql.catalyst.expressions.Expression

/** A call of one of [[TableChangesFunctions]]. */
case class TableChangesCall(function: String, arguments: Seq[Expression]) extends UnresolvedLeafNode {
  override def nodeName: String = function
}
