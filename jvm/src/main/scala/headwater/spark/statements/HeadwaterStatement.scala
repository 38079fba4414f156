package headwater.spark.statements

import com.fasterxml.jackson.databind.JsonNode
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryCommand}
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types.StructType

/**
 * A statement that the handler parsed, about a table that Spark has not resolved yet. `arguments` is the handler's own JSON. `rows` is the
 * schema of its rows, if it has any.
 */
case class HeadwaterStatement(command: String, child: LogicalPlan, arguments: JsonNode, rows: Option[StructType], mayCommit: Boolean)
    extends UnaryCommand {
  override def output: Seq[Attribute] = rows.toSeq.flatMap(SparkInternals.attributes)
  /** A query that reads it waits for its command, whose columns these are not. */
  override lazy val resolved: Boolean = false
  override def nodeName: String = HeadwaterStatement.words(command)
  override def simpleString(maxFields: Int): String = nodeName
  override protected def withNewChildInternal(newChild: LogicalPlan): LogicalPlan = copy(child = newChild)
}

object HeadwaterStatement {
  /** A statement's keywords as users write them. */
  def words(command: String): String = command.replace('_', ' ').toUpperCase
}
