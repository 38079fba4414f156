package headwater.spark.statements

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryCommand}
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types.StructType

/** A statement the handler parsed, about a table Spark has yet to resolve. `arguments` is the handler's own JSON. */
case class HeadwaterStatement(command: String, child: LogicalPlan, arguments: String, schema0: StructType) extends UnaryCommand {
  override def output: Seq[Attribute] = SparkInternals.attributes(schema0)
  override def nodeName: String = HeadwaterStatement.words(command)
  override def simpleString(maxFields: Int): String = nodeName
  override protected def withNewChildInternal(newChild: LogicalPlan): LogicalPlan = copy(child = newChild)
}

object HeadwaterStatement {
  /** A statement as people write it. */
  def words(command: String): String = command.replace('_', ' ').toUpperCase
}
