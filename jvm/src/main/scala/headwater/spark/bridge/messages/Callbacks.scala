package headwater.spark.bridge.messages

// Written by jvm/messages.py, from headwater/bridge/messages/callbacks.py.

import com.fasterxml.jackson.databind.JsonNode
import headwater.spark.bridge.wire.{FromJson, Message}

final case class SmallJob(bytes: Long, rows: Long, settings: Map[String, String]) extends Message

object SmallJob {
  implicit val fromJson: FromJson[SmallJob] = FromJson.message(in =>
    SmallJob(
      in[Long]("bytes"),
      in[Long]("rows"),
      in[Map[String, String]]("settings")))
}

final case class WriteSpecification(
    path: String,
    query: String,
    schema: String,
    partitionBy: Seq[String],
    partitionsInFiles: Seq[String],
    statistics: Seq[Seq[String]],
    smallJob: SmallJob,
    settings: Map[String, String],
    options: Map[String, String],
    tracked: Boolean,
    changeColumn: Option[String]) extends Message

object WriteSpecification {
  implicit val fromJson: FromJson[WriteSpecification] = FromJson.message(in =>
    WriteSpecification(
      in[String]("path"),
      in[String]("query"),
      in[String]("schema"),
      in[Seq[String]]("partitionBy"),
      in[Seq[String]]("partitionsInFiles"),
      in[Seq[Seq[String]]]("statistics"),
      in[SmallJob]("smallJob"),
      in[Map[String, String]]("settings"),
      in[Map[String, String]]("options"),
      in[Boolean]("tracked"),
      in[Option[String]]("changeColumn")))
}

final case class WrittenFile(
    path: String,
    size: Long,
    modificationTime: Long,
    partition: Map[String, Option[String]],
    rows: Long,
    statistics: Seq[Seq[Any]]) extends Message

final case class TrackedRows(positions: Map[Int, String], source: String, actions: Map[Int, Long], repeated: Long) extends Message

final case class WrittenRows(files: Seq[JsonNode], counted: Long, tracked: Option[TrackedRows]) extends Message

final case class StagedFiles(
    path: String,
    tableSchema: String,
    schema: String,
    partitionColumns: Seq[String],
    columnMappingMode: String,
    files: JsonNode,
    sizeInBytes: Long) extends Message

object StagedFiles {
  implicit val fromJson: FromJson[StagedFiles] = FromJson.message(in =>
    StagedFiles(
      in[String]("path"),
      in[String]("tableSchema"),
      in[String]("schema"),
      in[Seq[String]]("partitionColumns"),
      in[String]("columnMappingMode"),
      in[JsonNode]("files"),
      in[Long]("sizeInBytes")))
}

final case class PinnedVersion(
    version: Long,
    tableId: String,
    sizeInBytes: Long,
    rows: Option[Long],
    hasDeletionVectors: Boolean,
    tableSchema: String,
    partitionColumns: Seq[String],
    columnMappingMode: String,
    rowTrackingColumns: Seq[String]) extends Message

object PinnedVersion {
  implicit val fromJson: FromJson[PinnedVersion] = FromJson.message(in =>
    PinnedVersion(
      in[Long]("version"),
      in[String]("tableId"),
      in[Long]("sizeInBytes"),
      in[Option[Long]]("rows"),
      in[Boolean]("hasDeletionVectors"),
      in[String]("tableSchema"),
      in[Seq[String]]("partitionColumns"),
      in[String]("columnMappingMode"),
      in[Seq[String]]("rowTrackingColumns")))
}

final case class Restriction(
    pinned: PinnedVersion,
    listedBytes: Long,
    listsDeletionVectors: Boolean,
    lateColumns: Seq[String],
    rowsPerLateValue: Int,
    fileColumn: String,
    rowColumn: String,
    rowTrackingColumns: Seq[String],
    valuesPrune: Boolean,
    settings: Map[String, String],
    files: JsonNode) extends Message

object Restriction {
  implicit val fromJson: FromJson[Restriction] = FromJson.message(in =>
    Restriction(
      in[PinnedVersion]("pinned"),
      in[Long]("listedBytes"),
      in[Boolean]("listsDeletionVectors"),
      in[Seq[String]]("lateColumns"),
      in[Int]("rowsPerLateValue"),
      in[String]("fileColumn"),
      in[String]("rowColumn"),
      in[Seq[String]]("rowTrackingColumns"),
      in[Boolean]("valuesPrune"),
      in[Map[String, String]]("settings"),
      in[JsonNode]("files")))
}

final case class FilesOfVersion(
    table: String,
    version: Long,
    listsDeletionVectors: Boolean,
    rowTrackingColumns: Seq[String],
    tasks: Seq[Long],
    settings: Map[String, String],
    files: JsonNode,
    fileColumn: Option[String],
    rowColumn: Option[String],
    skipsNone: Boolean) extends Message

object FilesOfVersion {
  implicit val fromJson: FromJson[FilesOfVersion] = FromJson.message(in =>
    FilesOfVersion(
      in[String]("table"),
      in[Long]("version"),
      in[Boolean]("listsDeletionVectors"),
      in[Seq[String]]("rowTrackingColumns"),
      in[Seq[Long]]("tasks"),
      in[Map[String, String]]("settings"),
      in[JsonNode]("files"),
      in[Option[String]]("fileColumn"),
      in[Option[String]]("rowColumn"),
      in[Boolean]("skipsNone")))
}

final case class ParquetFilesQuestion(plan: Int, expressions: Seq[Int], most: Int) extends Message

object ParquetFilesQuestion {
  implicit val fromJson: FromJson[ParquetFilesQuestion] = FromJson.message(in =>
    ParquetFilesQuestion(
      in[Int]("plan"),
      in[Seq[Int]]("expressions"),
      in[Int]("most")))
}

final case class ParquetFile(path: String, size: Long) extends Message

final case class ParquetFiles(files: Seq[ParquetFile], columns: Seq[Option[String]]) extends Message

final case class PartitionsQuestion(plan: Int, condition: Int, partitions: Seq[Seq[Option[String]]]) extends Message

object PartitionsQuestion {
  implicit val fromJson: FromJson[PartitionsQuestion] = FromJson.message(in =>
    PartitionsQuestion(
      in[Int]("plan"),
      in[Int]("condition"),
      in[Seq[Seq[Option[String]]]]("partitions")))
}

final case class MatchingPartitions(matches: Option[Seq[Boolean]]) extends Message

final case class SparkRun(began: Long, ended: Option[Long]) extends Message

final case class NotedKeys(keys: Option[Seq[Seq[Any]]]) extends Message

final case class CheckedCondition(predicate: JsonNode, columns: Option[Seq[String]]) extends Message

final case class FootersQuestion(
    table: String,
    paths: Seq[String],
    sizes: Seq[Long],
    columns: Option[Seq[Seq[String]]],
    most: Int) extends Message

object FootersQuestion {
  implicit val fromJson: FromJson[FootersQuestion] = FromJson.message(in =>
    FootersQuestion(
      in[String]("table"),
      in[Seq[String]]("paths"),
      in[Seq[Long]]("sizes"),
      in[Option[Seq[Seq[String]]]]("columns"),
      in[Int]("most")))
}

final case class FileFooter(schema: Int, rows: Long, statistics: Seq[Seq[Any]], problem: Option[String] = None) extends Message

final case class Footers(schemas: Seq[String], files: Seq[FileFooter]) extends Message

final case class FileCopy(source: String, target: String, size: Option[Long]) extends Message

object FileCopy {
  implicit val fromJson: FromJson[FileCopy] = FromJson.message(in =>
    FileCopy(
      in[String]("source"),
      in[String]("target"),
      in[Option[Long]]("size")))
}

final case class CopySpecification(source: String, target: String, renames: Boolean, tasks: Seq[Seq[FileCopy]]) extends Message

object CopySpecification {
  implicit val fromJson: FromJson[CopySpecification] = FromJson.message(in =>
    CopySpecification(
      in[String]("source"),
      in[String]("target"),
      in[Boolean]("renames"),
      in[Seq[Seq[FileCopy]]]("tasks")))
}

final case class CopiedFile(size: Option[Long] = None, copied: Boolean) extends Message

final case class CopiedFiles(files: Seq[CopiedFile]) extends Message

final case class NamedTable(
    name: Seq[String],
    schema: Option[String] = None,
    keys: Seq[TableConstraint] = Nil,
    path: Option[String] = None) extends Message
