package headwater.spark

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.analysis.{ResolvedTable, UnresolvedPartitionSpec}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, ShowCreateTable, ShowPartitions, UnaryCommand}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.connector.catalog.TableCatalog
import org.apache.spark.sql.execution.command.{CreateTableLikeCommand, LeafRunnableCommand}
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types.StructType

/** A statement the handler parsed, about a table Spark has yet to resolve. `arguments` is the handler's own JSON. */
case class HeadwaterStatement(command: String, child: LogicalPlan, arguments: String, schema0: StructType) extends UnaryCommand {
  override def output: Seq[Attribute] = SparkInternals.attributes(schema0)
  override def simpleString(maxFields: Int): String = s"HeadwaterStatement $command"
  override protected def withNewChildInternal(newChild: LogicalPlan): LogicalPlan = copy(child = newChild)
}

/**
 * Once the table is resolved, the statement can run. So can those that Spark parses but would answer for a Delta table with less than the log
 * knows, or not at all.
 */
case class ResolveHeadwaterCommands(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsUp {
    case HeadwaterStatement(command, resolved: ResolvedTable, arguments, schema) =>
      resolved.table match {
        case table: HeadwaterTable => HeadwaterCommand(command, table.path, table.name(), arguments, schema)
        case other =>
          Bridge.call(new StatementContext(session), "not_delta", "name" -> other.name(), "command" -> command)
          plan
      }
    case ShowCreateTable(Delta(resolved, table), _, output) =>
      command("show_create_table", resolved, table, output, "location" -> Option.when(!table.isManaged)(table.properties.get(TableCatalog.PROP_LOCATION)))
    case ShowPartitions(Delta(resolved, table), pattern, output) =>
      val asked = pattern.collect { case UnresolvedPartitionSpec(values, _) => values }
      command("show_partitions", resolved, table, output, "partition" -> asked)
    case like: CreateTableLikeCommand if CreateLikeOtherFormat.isDelta(session, like) => CreateLikeOtherFormat(like)
  }

  private def command(name: String, resolved: ResolvedTable, table: HeadwaterTable, output: Seq[Attribute], arguments: (String, Any)*): LogicalPlan =
    HeadwaterCommand(name, table.path, resolved.name, Json.write(arguments.toMap), DataTypeUtils.fromAttributes(output))
}

private object Delta {
  def unapply(plan: LogicalPlan): Option[(ResolvedTable, HeadwaterTable)] = plan match {
    case resolved @ ResolvedTable(_, _, table: HeadwaterTable, _) => Some((resolved, table))
    case _ => None
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
