package headwater.spark

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.analysis.ResolvedTable
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryCommand}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types.StructType

/** A statement the handler parsed, about a table Spark has yet to resolve. `arguments` is the handler's own JSON. */
case class HeadwaterStatement(command: String, child: LogicalPlan, arguments: String, schema0: StructType) extends UnaryCommand {
  override def output: Seq[Attribute] = SparkInternals.attributes(schema0)
  override protected def withNewChildInternal(newChild: LogicalPlan): LogicalPlan = copy(child = newChild)
}

/** Once the table is resolved, the statement can run. */
case class ResolveHeadwaterCommands(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsUp {
    case HeadwaterStatement(command, resolved: ResolvedTable, arguments, schema) =>
      resolved.table match {
        case table: HeadwaterTable => HeadwaterCommand(command, table.path, table.name(), arguments, schema)
        case other =>
          Bridge.call(new StatementContext(session), "not_delta", "name" -> other.name(), "command" -> command)
          plan
      }
  }
}

/** Runs a statement in the handler and shows the rows it answers with. */
case class HeadwaterCommand(command: String, path: String, name: String, arguments: String, schema0: StructType) extends LeafRunnableCommand {
  override val output: Seq[Attribute] = SparkInternals.attributes(schema0)

  override def run(session: SparkSession): Seq[Row] = {
    val answer = Bridge.call(new StatementContext(session), command, "table" -> path, "name" -> name, "arguments" -> Json.parse(arguments))
    SparkInternals.externalRows(Json.write(answer.get("rows")), schema0, SparkInternals.conf(session).sessionLocalTimeZone)
  }
}
