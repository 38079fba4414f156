package headwater.spark.bridge.messages

// Written by jvm/messages.py, from headwater/bridge/messages/read.py.

import com.fasterxml.jackson.databind.JsonNode
import headwater.spark.bridge.wire.{Call, FromJson, Message}

final case class LoadTableRequest(
    table: String,
    name: Option[String] = None,
    version: Option[Long] = None,
    timestamp: Option[String] = None,
    mayBeLater: Boolean = false,
    pinned: Boolean = false) extends Call[TableDescription]("load_table")

final case class RefreshTableRequest(table: String, version: Option[Long] = None) extends Message

final case class RefreshTablesRequest(requests: Seq[RefreshTableRequest]) extends Call[Seq[PinnedVersion]]("refresh_tables")

final case class CheckColumnsRequest(table: String, `then`: String, now: String) extends Call[Unit]("check_columns")

final case class TableExistsRequest(table: String) extends Call[Boolean]("table_exists")

final case class TableDescription(
    path: String,
    version: Long,
    tableId: String,
    schema: String,
    tableSchema: String,
    partitionColumns: Seq[String],
    clusteringColumns: Option[Seq[Seq[String]]],
    description: Option[String],
    configuration: Map[String, String],
    properties: Map[String, String],
    columnMappingMode: String,
    hasDeletionVectors: Boolean,
    sizeInBytes: Long,
    features: Seq[String],
    timeTravel: Boolean,
    rowTrackingColumns: Seq[String],
    keys: Seq[TableConstraint]) extends Message

object TableDescription {
  implicit val fromJson: FromJson[TableDescription] = FromJson.message(in =>
    TableDescription(
      in[String]("path"),
      in[Long]("version"),
      in[String]("tableId"),
      in[String]("schema"),
      in[String]("tableSchema"),
      in[Seq[String]]("partitionColumns"),
      in[Option[Seq[Seq[String]]]]("clusteringColumns"),
      in[Option[String]]("description"),
      in[Map[String, String]]("configuration"),
      in[Map[String, String]]("properties"),
      in[String]("columnMappingMode"),
      in[Boolean]("hasDeletionVectors"),
      in[Long]("sizeInBytes"),
      in[Seq[String]]("features"),
      in[Boolean]("timeTravel"),
      in[Seq[String]]("rowTrackingColumns"),
      in[Seq[TableConstraint]]("keys")))
}

final case class ScanOrder(column: String, descending: Boolean, nullsFirst: Boolean) extends Message

final case class ScanRequest(
    table: String,
    version: Long,
    tableId: Option[String] = None,
    filters: Seq[JsonNode],
    columns: Option[Seq[String]] = None,
    limit: Option[Int] = None,
    order: Option[ScanOrder] = None) extends Message

final case class ScansRequest(requests: Seq[ScanRequest]) extends Call[Seq[FileListAnswer]]("scans")

final case class ColumnStatistics(name: String, min: Option[String], max: Option[String], nulls: Option[Long]) extends Message

object ColumnStatistics {
  implicit val fromJson: FromJson[ColumnStatistics] = FromJson.message(in =>
    ColumnStatistics(
      in[String]("name"),
      in[Option[String]]("min"),
      in[Option[String]]("max"),
      in[Option[Long]]("nulls")))
}

final case class ScanStatistics(rows: Long, columns: Seq[ColumnStatistics]) extends Message

object ScanStatistics {
  implicit val fromJson: FromJson[ScanStatistics] = FromJson.message(in =>
    ScanStatistics(
      in[Long]("rows"),
      in[Seq[ColumnStatistics]]("columns")))
}

final case class FileListAnswer(
    files: Option[JsonNode],
    arrow: Option[String],
    allFiles: Long,
    statistics: Option[ScanStatistics],
    index: Option[String]) extends Message

object FileListAnswer {
  implicit val fromJson: FromJson[FileListAnswer] = FromJson.message(in =>
    FileListAnswer(
      in[Option[JsonNode]]("files"),
      in[Option[String]]("arrow"),
      in[Long]("allFiles"),
      in[Option[ScanStatistics]]("statistics"),
      in[Option[String]]("index")))
}

final case class AggregateOutput(group: Option[String] = None, kind: Option[String] = None, column: Option[String] = None) extends Message

final case class AggregateRequest(
    table: String,
    version: Long,
    tableId: Option[String] = None,
    groups: Seq[String],
    outputs: Seq[AggregateOutput],
    filters: Seq[JsonNode]) extends Call[Option[AggregateAnswer]]("aggregate")

final case class AggregateAnswer(rows: Seq[Seq[Option[String]]]) extends Message

object AggregateAnswer {
  implicit val fromJson: FromJson[AggregateAnswer] = FromJson.message(in => AggregateAnswer(in[Seq[Seq[Option[String]]]]("rows")))
}

final case class ChangesBound(
    name: String,
    value: Option[String] = None,
    micros: Option[String] = None,
    inclusive: Boolean = true) extends Message

object ChangesBound {
  implicit val fromJson: FromJson[ChangesBound] = FromJson.message(in =>
    ChangesBound(
      in[String]("name"),
      in[Option[String]]("value"),
      in[Option[String]]("micros"),
      in[Boolean]("inclusive")))
}

final case class ChangesForm(
    changelog: Boolean = false,
    keys: Option[Seq[String]] = None,
    debezium: Boolean = false,
    tombstones: Boolean = true) extends Message

object ChangesForm {
  implicit val fromJson: FromJson[ChangesForm] = FromJson.message(in =>
    ChangesForm(
      in[Boolean]("changelog"),
      in[Option[Seq[String]]]("keys"),
      in[Boolean]("debezium"),
      in[Boolean]("tombstones")))
}

final case class TableChangesRequest(
    table: String,
    bounds: Seq[ChangesBound],
    form: ChangesForm,
    timeTravel: Boolean = false,
    deduplicationMode: Option[String] = None) extends Call[ChangesAnswer]("table_changes")

final case class ChangeGroup(partitionColumns: Seq[String], files: JsonNode, sizeInBytes: Long, hasDeletionVectors: Boolean) extends Message

object ChangeGroup {
  implicit val fromJson: FromJson[ChangeGroup] = FromJson.message(in =>
    ChangeGroup(
      in[Seq[String]]("partitionColumns"),
      in[JsonNode]("files"),
      in[Long]("sizeInBytes"),
      in[Boolean]("hasDeletionVectors")))
}

final case class ChangesAnswer(
    path: String,
    tableId: String,
    version: Long,
    schema: String,
    fileSchema: String,
    positionColumn: Option[String],
    query: Option[String],
    tableSchema: String,
    columnMappingMode: String,
    mostFilesChecked: Int,
    groups: Seq[ChangeGroup]) extends Message

object ChangesAnswer {
  implicit val fromJson: FromJson[ChangesAnswer] = FromJson.message(in =>
    ChangesAnswer(
      in[String]("path"),
      in[String]("tableId"),
      in[Long]("version"),
      in[String]("schema"),
      in[String]("fileSchema"),
      in[Option[String]]("positionColumn"),
      in[Option[String]]("query"),
      in[String]("tableSchema"),
      in[String]("columnMappingMode"),
      in[Int]("mostFilesChecked"),
      in[Seq[ChangeGroup]]("groups")))
}

final case class FunctionArgument(
    `type`: String,
    constant: Boolean,
    sql: String,
    value: Option[String] = None,
    micros: Option[String] = None,
    elements: Option[Seq[String]] = None) extends Message

final case class BoundsOfCallRequest(function: String, arguments: Seq[FunctionArgument]) extends Call[CallBounds]("bounds_of_call")

final case class CallBounds(table: String, bounds: Seq[ChangesBound], form: ChangesForm) extends Message

object CallBounds {
  implicit val fromJson: FromJson[CallBounds] = FromJson.message(in =>
    CallBounds(
      in[String]("table"),
      in[Seq[ChangesBound]]("bounds"),
      in[ChangesForm]("form")))
}

final case class AsksForChangesRequest(options: Map[String, String]) extends Call[Option[ChangesForm]]("asks_for_changes")

final case class CheckReadOptionsRequest(options: Map[String, String], isSql: Boolean = false) extends Call[Unit]("check_read_options")

final case class ChangeFile(version: Long, path: String, rows: Option[String] = None) extends Message

final case class CheckChangeFilesRequest(table: String, files: Seq[ChangeFile]) extends Call[Unit]("check_change_files")

final case class DescribeOtherDetailRequest(
    name: Option[String] = None,
    format: Option[String] = None,
    description: Option[String] = None,
    location: Option[String] = None,
    created: Option[Long] = None,
    partitionColumns: Option[Seq[String]] = None,
    properties: Map[String, String]) extends Call[RowsAnswer]("describe_other_detail")
