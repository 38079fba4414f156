package headwater.spark.changes

import headwater.spark.bridge.messages.{ChangesBound, ChangesForm}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}

/**
 * The changes of `child`, once that is known to be a Delta table. `function` is the table function that asked for them; None for a reader's
 * option.
 */
case class ChangesOf(child: LogicalPlan, bounds: Seq[ChangesBound], form: ChangesForm, function: Option[String]) extends UnaryNode {
  override lazy val resolved: Boolean = false
  override def output: Seq[Attribute] = Nil
  override def nodeName: String = function.getOrElse("changes")
  override def simpleString(maxFields: Int): String = nodeName
  override protected def withNewChildInternal(newChild: LogicalPlan): ChangesOf = copy(child = newChild)
}
