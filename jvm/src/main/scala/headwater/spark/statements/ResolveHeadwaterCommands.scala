package headwater.spark.statements

import headwater.spark.bridge.{Bridge, Json, StatementContext}
import headwater.spark.catalog.HeadwaterTable
import headwater.spark.dml.PendingTarget
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.{ResolvedTable, UnresolvedPartitionSpec}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{AddCheckConstraint, Filter, InsertIntoDir, LogicalPlan, ShowCreateTable, ShowPartitions}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.connector.catalog.TableCatalog
import org.apache.spark.sql.execution.command.CreateTableLikeCommand

/**
 * Turns a statement whose table is resolved into the command that runs it. Also takes over the statements that Spark parses but cannot
 * answer from the log: SHOW CREATE TABLE, SHOW PARTITIONS and others.
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
    case RefusedStatement(error) => throw error
    case ShowCreateTable(Delta(resolved, table), _, output) =>
      command("show_create_table", resolved, table, output, "location" -> Option.when(!table.isManaged)(table.properties.get(TableCatalog.PROP_LOCATION)))
    case ShowPartitions(Delta(resolved, table), pattern, output) =>
      val asked = pattern.collect { case UnresolvedPartitionSpec(values, _) => values }
      command("show_partitions", resolved, table, output, "partition" -> asked)
    case constraint @ AddCheckConstraint(Filter(_, PendingTarget(table)), _) =>
      // Spark's own rule looks for an entry of the catalog, which a path does not have.
      Bridge.call(new StatementContext(session), "alter_table", "table" -> table.path, "name" -> table.name(), "changes" -> Seq(Map("kind" -> "add_constraint")))
      constraint
    case directory @ InsertIntoDir(_, _, Some(format), _, _) if format.equalsIgnoreCase("delta") =>
      Bridge.call(new StatementContext(session), "insert_into_directory", "path" -> directory.storage.locationUri.map(_.toString))
      directory
    case like: CreateTableLikeCommand if CreateDeltaTableLikeCommand.isDelta(session, like) => CreateDeltaTableLikeCommand(like)
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
