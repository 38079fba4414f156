package headwater.spark.bridge.messages

// Written by jvm/messages.py, from headwater/bridge/messages/define.py.

import com.fasterxml.jackson.databind.JsonNode
import headwater.spark.bridge.wire.{Call, FromJson, Message, Variant}

final case class CommitAnswer(version: Long, skipped: Boolean, counts: Option[Seq[Long]], rows: Option[JsonNode]) extends Message

object CommitAnswer {
  implicit val fromJson: FromJson[CommitAnswer] = FromJson.message(in =>
    CommitAnswer(
      in[Long]("version"),
      in[Boolean]("skipped"),
      in[Option[Seq[Long]]]("counts"),
      in[Option[JsonNode]]("rows")))
}

final case class MadeCommit(
    table: String,
    version: Long,
    operation: String,
    metrics: Map[String, Long],
    rows: Option[Long],
    size: Option[Long],
    files: Option[Long],
    copies: Boolean,
    change: Option[String]) extends Message

object MadeCommit {
  implicit val fromJson: FromJson[MadeCommit] = FromJson.message(in =>
    MadeCommit(
      in[String]("table"),
      in[Long]("version"),
      in[String]("operation"),
      in[Map[String, Long]]("metrics"),
      in[Option[Long]]("rows"),
      in[Option[Long]]("size"),
      in[Option[Long]]("files"),
      in[Boolean]("copies"),
      in[Option[String]]("change")))
}

final case class ParsedStatementRequest(
    table: String,
    name: String,
    arguments: JsonNode)(statement: String) extends Call[RowsAnswer](statement)

final case class ParsedChangeRequest(
    table: String,
    name: String,
    arguments: JsonNode)(statement: String) extends Call[CommitAnswer](statement)

final case class TableConstraint(
    kind: String,
    name: Option[String] = None,
    expression: Option[String] = None,
    columns: Seq[String] = Nil,
    references: Seq[String] = Nil,
    referenced: Seq[String] = Nil,
    rely: Boolean = false,
    enforced: Boolean = false,
    onViolation: Option[String] = None) extends Message

object TableConstraint {
  implicit val fromJson: FromJson[TableConstraint] = FromJson.message(in =>
    TableConstraint(
      in[String]("kind"),
      in[Option[String]]("name"),
      in[Option[String]]("expression"),
      in[Seq[String]]("columns"),
      in[Seq[String]]("references"),
      in[Seq[String]]("referenced"),
      in[Boolean]("rely"),
      in[Boolean]("enforced"),
      in[Option[String]]("onViolation")))
}

final case class IdentitySpecification(column: String, start: Long, step: Long, allowExplicitInsert: Boolean) extends Message

final case class CreatedTableRequest(identifier: Seq[String]) extends Call[CreatedTable]("created_table")

final case class CreatedTable(identifier: Seq[String], table: Option[String], external: Boolean, comment: Option[String]) extends Message

object CreatedTable {
  implicit val fromJson: FromJson[CreatedTable] = FromJson.message(in =>
    CreatedTable(
      in[Seq[String]]("identifier"),
      in[Option[String]]("table"),
      in[Boolean]("external"),
      in[Option[String]]("comment")))
}

final case class CreateTableRequest(
    table: String,
    name: Option[String] = None,
    identifier: Seq[String] = Nil,
    mode: String,
    known: Boolean = true,
    external: Boolean = false,
    schema: String,
    partitioning: Seq[String] = Nil,
    partitionColumns: Seq[String],
    comment: Option[String] = None,
    properties: Map[String, String] = Map.empty,
    like: Option[String] = None,
    constraints: Seq[TableConstraint] = Nil,
    identity: Seq[IdentitySpecification] = Nil,
    generated: Map[String, String] = Map.empty,
    plan: Option[Int] = None,
    rowSchema: Option[String] = None,
    saveMode: Option[String] = None,
    options: Map[String, String] = Map.empty) extends Call[CommitAnswer]("create_table")

final case class CatalogPartition(location: String, values: Map[String, Option[String]]) extends Message

final case class CatalogEntry(
    name: String,
    schema: String,
    partitionColumns: Seq[String],
    properties: Map[String, String] = Map.empty,
    partitions: Option[Seq[CatalogPartition]] = None) extends Message

final case class CloneRequest(
    table: String,
    name: Option[String] = None,
    mode: String,
    known: Boolean = true,
    external: Boolean = false,
    properties: Map[String, String] = Map.empty,
    source: String,
    sourceName: Option[String] = None,
    sourceVersion: Option[Long] = None,
    format: Option[String] = None,
    entry: Option[CatalogEntry] = None,
    arguments: JsonNode) extends Call[CommitAnswer]("clone")

sealed trait DefinitionChange extends Variant

final case class SetProperty(key: String, value: String) extends DefinitionChange {
  override def kind: String = "set_property"
}

final case class RemoveProperty(key: String) extends DefinitionChange {
  override def kind: String = "remove_property"
}

final case class ColumnPosition(after: Option[String] = None) extends Message

final case class AddColumn(
    path: Seq[String],
    `type`: String,
    nullable: Boolean,
    declaredType: Option[String] = None,
    comment: Option[String] = None,
    position: Option[ColumnPosition] = None,
    default: Option[String] = None) extends DefinitionChange {
  override def kind: String = "add_column"
}

final case class CommentColumn(path: Seq[String], comment: Option[String]) extends DefinitionChange {
  override def kind: String = "column_comment"
}

final case class AddConstraint(constraint: TableConstraint) extends DefinitionChange {
  override def kind: String = "add_constraint"
}

final case class DropConstraint(name: String, ifExists: Boolean, cascade: Boolean = false) extends DefinitionChange {
  override def kind: String = "drop_constraint"
}

final case class ClusterBy(columns: Seq[Seq[String]]) extends DefinitionChange {
  override def kind: String = "cluster_by"
}

final case class ChangeColumnType(path: Seq[String], `type`: String, declaredType: Option[String] = None) extends DefinitionChange {
  override def kind: String = "column_type"
}

final case class ChangeColumnNullability(path: Seq[String], nullable: Boolean) extends DefinitionChange {
  override def kind: String = "column_nullability"
}

final case class ChangeColumnDefault(path: Seq[String], default: Option[String]) extends DefinitionChange {
  override def kind: String = "column_default"
}

final case class MoveColumn(path: Seq[String], position: ColumnPosition) extends DefinitionChange {
  override def kind: String = "column_position"
}

final case class RenameColumn(path: Seq[String], newName: String) extends DefinitionChange {
  override def kind: String = "rename_column"
}

final case class DropColumn(path: Seq[String], ifExists: Boolean = false) extends DefinitionChange {
  override def kind: String = "drop_column"
}

final case class UnsupportedChange(change: String) extends DefinitionChange {
  override def kind: String = "unsupported"
}

final case class AlterTableRequest(
    table: String,
    name: Option[String] = None,
    changes: Seq[DefinitionChange]) extends Call[CommitAnswer]("alter_table")

final case class CheckSameSchemaRequest(table: String, other: String) extends Call[Unit]("check_same_schema")

final case class CheckSamePlaceRequest(table: String, other: String, name: Option[String] = None) extends Call[Unit]("check_same_place")

final case class ShowColumnsRequest(
    table: String,
    namespace: Option[Seq[String]] = None,
    name: String) extends Call[RowsAnswer]("show_columns")

final case class ShowCreateTableRequest(
    table: String,
    name: String,
    location: Option[String] = None) extends Call[RowsAnswer]("show_create_table")

final case class SummarizeTablesRequest(tables: Seq[String]) extends Call[TableSummaries]("summarize_tables")

final case class TableSummary(
    schema: String,
    partitionColumns: Seq[String],
    description: Option[String],
    properties: Map[String, String],
    sizeInBytes: Long,
    rows: Option[Long]) extends Message

object TableSummary {
  implicit val fromJson: FromJson[TableSummary] = FromJson.message(in =>
    TableSummary(
      in[String]("schema"),
      in[Seq[String]]("partitionColumns"),
      in[Option[String]]("description"),
      in[Map[String, String]]("properties"),
      in[Long]("sizeInBytes"),
      in[Option[Long]]("rows")))
}

final case class TableSummaries(tables: Seq[Option[TableSummary]]) extends Message

object TableSummaries {
  implicit val fromJson: FromJson[TableSummaries] = FromJson.message(in => TableSummaries(in[Seq[Option[TableSummary]]]("tables")))
}

final case class ShowPartitionsRequest(
    table: String,
    name: String,
    partition: Option[Map[String, Option[String]]] = None) extends Call[RowsAnswer]("show_partitions")

final case class RowsAnswer(rows: JsonNode) extends Message

object RowsAnswer {
  implicit val fromJson: FromJson[RowsAnswer] = FromJson.message(in => RowsAnswer(in[JsonNode]("rows")))
}

final case class ConvertRequest(
    table: String,
    format: Option[String] = None,
    entry: Option[CatalogEntry] = None,
    arguments: JsonNode) extends Call[CommitAnswer]("convert_to_delta")

final case class ParseRequest(text: String) extends Call[Option[ParsedStatement]]("parse")

final case class ParsedStatement(
    command: String,
    table: String,
    arguments: JsonNode,
    output: Option[String],
    mayCommit: Boolean,
    creates: Option[String]) extends Message

object ParsedStatement {
  implicit val fromJson: FromJson[ParsedStatement] = FromJson.message(in =>
    ParsedStatement(
      in[String]("command"),
      in[String]("table"),
      in[JsonNode]("arguments"),
      in[Option[String]]("output"),
      in[Boolean]("mayCommit"),
      in[Option[String]]("creates")))
}

final case class ParameterMarkersRequest(text: String) extends Call[Seq[String]]("parameter_markers")
