package headwater.spark.statements

import headwater.spark.{HeadwaterCatalog, HeadwaterException}
import headwater.spark.bridge.{Bridge, Json, SchemaText}
import headwater.spark.bridge.messages.{
  AddConstraint, AlterTableRequest, CopyColumnsRequest, DescribeOtherDetailRequest, ParsedChangeRequest
}
import headwater.spark.bridge.messages.{ParsedStatementRequest, ShowColumnsRequest, ShowCreateTableRequest, ShowPartitionsRequest}
import headwater.spark.catalog.{ClonedSource, HeadwaterTable, Refusals}
import headwater.spark.dml.PendingTarget
import headwater.spark.shims.ChangeShim
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.{
  ResolvedIdentifier, ResolvedPersistentView, ResolvedTable, ResolvedTempView, UnresolvedPartitionSpec
}
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTableType, CatalogUtils}
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.plans.logical.{AnalyzeColumn, AnalyzeTable, CreateIndex, DropIndex, InsertIntoDir, LogicalPlan}
import org.apache.spark.sql.catalyst.plans.logical.{ShowColumns, ShowCreateTable, ShowPartitions, SubqueryAlias, TruncatePartition}
import org.apache.spark.sql.catalyst.plans.logical.View
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.catalyst.util.QuotingUtils
import org.apache.spark.sql.connector.catalog.TableCatalog
import org.apache.spark.sql.execution.command.{CreateTableLikeCommand, RunnableCommand, ShowTablesCommand}
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.headwater.statements.{AnalyzeTableCommand, ShowDeltaTablesCommand}
import org.apache.spark.sql.types.StructType

/**
 * Turns a statement whose table is resolved into the command that runs it. Also takes over the statements that Spark parses but cannot
 * answer from the log: SHOW CREATE TABLE, SHOW PARTITIONS and others.
 */
case class ResolveHeadwaterCommands(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsUp {
    case HeadwaterStatement(ConvertedFolder.Command, target, arguments, _, _) if target.resolved =>
      ConvertCommand.of(session, target, arguments)
    case HeadwaterStatement(command @ "copy_into_validate", ResolvedTable(_, _, table: HeadwaterTable, _), arguments, _, _) =>
      // Its rows have the table's columns, and those that its files would bring.
      val columns = Bridge.call(session, CopyColumnsRequest(table.path, table.name(), arguments), table.location)
      HeadwaterCommand(
        ParsedStatementRequest(table.path, table.name(), arguments)(command),
        table.name(),
        SchemaText.read(columns.schema),
        Some(table.location))
    case HeadwaterStatement(command, resolved: ResolvedTable, arguments, rows, mayCommit) =>
      val schema = rows.getOrElse(new StructType)
      resolved.table match {
        case table: HeadwaterTable if mayCommit =>
          table.requireLatest()
          HeadwaterChangeCommand(ParsedChangeRequest(table.path, table.name(), arguments)(command), table, schema)
        case table: HeadwaterTable =>
          HeadwaterCommand(ParsedStatementRequest(table.path, table.name(), arguments)(command), table.name(), schema, Some(table.location))
        case other => SparkInternals.catalogTable(other).filter(_ => command == DescribedPath.Command) match {
            case Some(entry) => HeadwaterCommand(detail(entry), other.name(), schema)
            case None => throw Refusals.notDelta(other.name(), command)
          }
      }
    case HeadwaterStatement(command, DescribedPath(path), arguments, rows, _) =>
      val schema = rows.getOrElse(new StructType)
      DescribedPath.open(session, path) match {
        case Some(table) =>
          HeadwaterCommand(ParsedStatementRequest(table.path, table.name(), arguments)(command), table.name(), schema, Some(table.location))
        case None => HeadwaterCommand(DescribeOtherDetailRequest(None, None, None, Some(path), None, None, Map.empty), path, schema)
      }
    case HeadwaterClone(target: ResolvedIdentifier, source, creates, arguments, rows) if source.resolved =>
      target.catalog match {
        case catalog: HeadwaterCatalog => CloneCommand(catalog, target.identifier, cloned(source), creates, arguments, rows)
        case _ => throw Refusals.notDelta(target.identifier.toString, HeadwaterClone.Words)
      }
    case RefusedStatement(error) => throw error
    case SetNotNull(alter) => alter
    case DeclaredLengths(alter) => alter
    case ShowCreateTable(Delta(resolved, table), _, output) =>
      val location = Option.when(!table.isManaged)(table.properties.get(TableCatalog.PROP_LOCATION))
      HeadwaterCommand(
        ShowCreateTableRequest(table.path, resolved.name, location),
        resolved.name,
        DataTypeUtils.fromAttributes(output),
        Some(table.location))
    case ShowPartitions(Delta(resolved, table), pattern, output) =>
      val asked = pattern.collect { case UnresolvedPartitionSpec(values, _) => values.view.mapValues(Option(_)).toMap }
      HeadwaterCommand(
        ShowPartitionsRequest(table.path, resolved.name, asked),
        resolved.name,
        DataTypeUtils.fromAttributes(output),
        Some(table.location))
    case TruncatePartition(Delta(_, table), UnresolvedPartitionSpec(values, _)) =>
      val condition = values.map { case (column, value) =>
        s"${QuotingUtils.quoteIdentifier(column)} = ${Literal(String.valueOf(value)).sql}"
      }
      throw HeadwaterException(
        "DELTA_TRUNCATE_TABLE_PARTITION_NOT_SUPPORTED",
        "tableName" -> table.name(),
        "condition" -> (if (condition.isEmpty) "…" else condition.mkString(" AND ")))
    case shown @ ShowTablesCommand(_, _, _, true, None) => ShowDeltaTablesCommand(shown)
    case ShowColumns(Delta(resolved, table), namespace, output) =>
      HeadwaterCommand(
        ShowColumnsRequest(table.path, namespace, resolved.name),
        resolved.name,
        DataTypeUtils.fromAttributes(output),
        Some(table.location))
    case ChangeShim.AddedCheck(PendingTarget(table), check) =>
      // Spark's own command reads all rows, and needs an entry of the catalog, which a path does not have. The handler has the condition
      // resolved.
      table.requireLatest()
      HeadwaterChangeCommand(AlterTableRequest(table.path, Some(table.name()), Seq(AddConstraint(check))), table)
    case ChangeShim.AddedCheck(SubqueryAlias(_, view: View), _) =>
      // Spark has no error of its own for it.
      throw SparkInternals.notATable(view, "ALTER TABLE ... ADD CONSTRAINT")
    case CreateIndex(Delta(_, table), index, kind, ifNotExists, columns, options) =>
      changed("create_index", table, BuiltIndex)(
        "index" -> index,
        "columns" -> columns.map(_._1.name),
        "ifNotExists" -> ifNotExists,
        "kind" -> kind,
        "hasOptions" -> (options.nonEmpty || columns.exists(_._2.nonEmpty)))
    case DropIndex(Delta(_, table), index, ifExists) =>
      changed("drop_index", table, new StructType)("index" -> index, "ifExists" -> ifExists)
    case AnalyzeTable(Delta(_, table), partition, noScan) if partition.isEmpty =>
      AnalyzeTableCommand(table, entry(table, "ANALYZE TABLE"), noScan, columns = Some(Nil))
    case AnalyzeColumn(Delta(_, table), columns, _) =>
      AnalyzeTableCommand(table, entry(table, "ANALYZE TABLE"), noScan = false, columns)
    case directory @ InsertIntoDir(_, _, Some(format), _, _) if format.equalsIgnoreCase("delta") =>
      val path = directory.storage.locationUri.map(_.toString).getOrElse("/path").stripPrefix("file:")
      throw HeadwaterException(
        "DELTA_OPERATION_NOT_ALLOWED",
        "operation" -> "INSERT OVERWRITE DIRECTORY",
        "hint" ->
          (s"Use CREATE OR REPLACE TABLE delta.`$path` USING delta AS SELECT …, or INSERT OVERWRITE delta.`$path` where the table " +
            "exists."))
    case like: CreateTableLikeCommand if CreateDeltaTableLikeCommand.concerns(session, like) => CreateDeltaTableLikeCommand(like)
    case command: RunnableCommand =>
      SavedOver.refuse(session, command)
      command
  }

  /** A statement that Spark parses and the handler runs like one of its own grammar, with the rows that it has there. */
  private def changed(command: String, table: HeadwaterTable, rows: StructType)(arguments: (String, Any)*): HeadwaterChangeCommand = {
    table.requireLatest()
    HeadwaterChangeCommand(ParsedChangeRequest(table.path, table.name(), Json.node(arguments.toMap))(command), table, rows)
  }

  /** The rows of CREATE INDEX, as the handler declares them for its own grammar. */
  private def BuiltIndex: StructType = StructType.fromDDL("index STRING, files BIGINT, rows BIGINT, bytes BIGINT")

  private def cloned(source: LogicalPlan): ClonedSource = source match {
    case Delta(_, table) => ClonedSource.of(table)
    case ConvertedFolder(Some(format), path) => ClonedSource.of(session, format, path)
    case ResolvedTable(catalog: HeadwaterCatalog, _, other, _) =>
      SparkInternals.catalogTable(other).filter(_.tableType != CatalogTableType.VIEW && catalog.tables.converts) match {
        case Some(entry) => ConvertCommand.OfCatalog(catalog.tables, entry).cloned(session)
        case None => throw notCloned(source)
      }
    case other => throw notCloned(other)
  }

  private def notCloned(source: LogicalPlan): HeadwaterException = {
    val (name, format) = source match {
      case ResolvedTable(_, ident, table, _) =>
        val provider = SparkInternals.catalogTable(table).flatMap(_.provider)
        (ident.toString, provider.map(of => s"a table of $of").getOrElse("another kind of table"))
      case view: ResolvedPersistentView => (view.identifier.toString, "a view")
      case view: ResolvedTempView => (view.identifier.toString, "a view")
      case other => (other.nodeName, "no table")
    }
    HeadwaterException("DELTA_CLONE_UNSUPPORTED_SOURCE", "name" -> name, "format" -> format)
  }

  private def detail(entry: CatalogTable) = DescribeOtherDetailRequest(
    name = Some(entry.identifier.unquotedString),
    format = entry.provider,
    description = Some(entry.comment.getOrElse("")),
    location = entry.storage.locationUri.map(CatalogUtils.URIToString),
    created = Some(entry.createTime),
    partitionColumns = Some(entry.partitionColumnNames),
    properties = entry.properties)

  /** The name of the metastore's entry, which a path does not have. */
  private def entry(table: HeadwaterTable, operation: String): TableIdentifier =
    table.catalogTable.map(_.identifier).getOrElse(throw Refusals.forPath(table.path, operation))
}

private object Delta {
  def unapply(plan: LogicalPlan): Option[(ResolvedTable, HeadwaterTable)] = plan match {
    case resolved @ ResolvedTable(_, _, table: HeadwaterTable, _) => Some((resolved, table))
    case _ => None
  }
}
