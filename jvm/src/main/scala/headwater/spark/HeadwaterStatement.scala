package headwater.spark

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.analysis.{ResolvedTable, UnresolvedPartitionSpec}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{AddCheckConstraint, Filter, InsertIntoDir, LeafNode, LogicalPlan, ShowCreateTable, ShowPartitions, UnaryCommand}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.connector.catalog.TableCatalog
import org.apache.spark.sql.execution.command.{CreateTableLikeCommand, LeafRunnableCommand}
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types.StructType

/** A statement the handler parsed, about a table Spark has yet to resolve. `arguments` is the handler's own JSON. */
case class HeadwaterStatement(command: String, child: LogicalPlan, arguments: String, schema0: StructType) extends UnaryCommand {
  override def output: Seq[Attribute] = SparkInternals.attributes(schema0)
  override def nodeName: String = HeadwaterStatement.words(command)
  override def simpleString(maxFields: Int): String = nodeName
  override protected def withNewChildInternal(newChild: LogicalPlan): LogicalPlan = copy(child = newChild)
}

/** A text for which the handler had nothing but an error. */
case class RefusedStatement(error: HeadwaterException) extends LeafNode {
  override lazy val resolved: Boolean = false
  override def output: Seq[Attribute] = Nil
  override def nodeName: String = "refused"
}

object HeadwaterStatement {
  /** A statement as people write it. */
  def words(command: String): String = command.replace('_', ' ').toUpperCase
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
    case RefusedStatement(error) => throw error
    case ShowCreateTable(Delta(resolved, table), _, output) =>
      command("show_create_table", resolved, table, output, "location" -> Option.when(!table.isManaged)(table.properties.get(TableCatalog.PROP_LOCATION)))
    case ShowPartitions(Delta(resolved, table), pattern, output) =>
      val asked = pattern.collect { case UnresolvedPartitionSpec(values, _) => values }
      command("show_partitions", resolved, table, output, "partition" -> asked)
    case constraint @ AddCheckConstraint(Filter(_, PendingTarget(table)), _) =>
      // Spark's own rule for it looks up an entry of the catalog, which a path has not.
      Bridge.call(new StatementContext(session), "alter_table", "table" -> table.path, "name" -> table.name(), "changes" -> Seq(Map("kind" -> "add_constraint")))
      constraint
    case directory @ InsertIntoDir(_, _, Some(format), _, _) if format.equalsIgnoreCase("delta") =>
      Bridge.call(new StatementContext(session), "insert_into_directory", "path" -> directory.storage.locationUri.map(_.toString))
      directory
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
  override def nodeName: String = HeadwaterStatement.words(command)
  override def simpleString(maxFields: Int): String = s"$nodeName $name"

  override def run(session: SparkSession): Seq[Row] = {
    val answer = Bridge.call(new StatementContext(session), command, "table" -> path, "name" -> name, "arguments" -> Json.parse(arguments))
    SparkInternals.externalRows(Json.write(answer.get("rows")), schema0, SparkInternals.conf(session).sessionLocalTimeZone)
  }
}
