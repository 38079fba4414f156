package headwater.spark.statements

import headwater.spark.bridge.Bridge
import headwater.spark.bridge.messages.{AlterTableRequest, InsertIntoDirectoryRequest, NotDeltaRequest, ParsedStatementRequest, ShowCreateTableRequest}
import headwater.spark.bridge.messages.{ShowPartitionsRequest, UnsupportedChange}
import headwater.spark.catalog.HeadwaterTable
import headwater.spark.dml.PendingTarget
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.{ResolvedTable, UnresolvedPartitionSpec}
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
        case table: HeadwaterTable => HeadwaterCommand(ParsedStatementRequest(table.path, table.name(), arguments)(command), table.name(), schema)
        case other => throw Bridge.refusal(session, NotDeltaRequest(name = other.name(), command = command))
      }
    case RefusedStatement(error) => throw error
    case ShowCreateTable(Delta(resolved, table), _, output) =>
      val location = Option.when(!table.isManaged)(table.properties.get(TableCatalog.PROP_LOCATION))
      HeadwaterCommand(ShowCreateTableRequest(table.path, resolved.name, location), resolved.name, DataTypeUtils.fromAttributes(output))
    case ShowPartitions(Delta(resolved, table), pattern, output) =>
      val asked = pattern.collect { case UnresolvedPartitionSpec(values, _) => values.view.mapValues(Option(_)).toMap }
      HeadwaterCommand(ShowPartitionsRequest(table.path, resolved.name, asked), resolved.name, DataTypeUtils.fromAttributes(output))
    case constraint @ AddCheckConstraint(Filter(_, PendingTarget(table)), _) =>
      // Spark's own rule looks for an entry of the catalog, which a path does not have.
      Bridge.call(session, AlterTableRequest(table.path, table.name(), Seq(UnsupportedChange("add_constraint"))))
      constraint
    case directory @ InsertIntoDir(_, _, Some(format), _, _) if format.equalsIgnoreCase("delta") =>
      throw Bridge.refusal(session, InsertIntoDirectoryRequest(directory.storage.locationUri.map(_.toString)))
    case like: CreateTableLikeCommand if CreateDeltaTableLikeCommand.isDelta(session, like) => CreateDeltaTableLikeCommand(like)
  }
}

private object Delta {
  def unapply(plan: LogicalPlan): Option[(ResolvedTable, HeadwaterTable)] = plan match {
    case resolved @ ResolvedTable(_, _, table: HeadwaterTable, _) => Some((resolved, table))
    case _ => None
  }
}
