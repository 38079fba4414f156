package headwater.spark.bridge.messages

// Written by jvm/messages.py, from headwater/bridge/messages/trouble.py.

import com.fasterxml.jackson.databind.JsonNode
import headwater.spark.bridge.wire.{Call, FromJson, Message}

final case class MissingPathRequest() extends Call[Unit]("missing_path")

final case class InvalidVersionRequest(version: String) extends Call[Unit]("invalid_version")

final case class InvalidTimestampRequest(timestamp: String) extends Call[Unit]("invalid_timestamp")

final case class TwoVersionsRequest() extends Call[Unit]("two_versions")

final case class OldVersionRequest(table: String) extends Call[Unit]("old_version")

final case class UnsupportedPredicateRequest(predicate: String, deterministic: Boolean) extends Call[Unit]("unsupported_predicate")

final case class NotATableRequest(
    statement: String,
    name: String,
    kind: String = "view",
    column: Option[String] = None) extends Call[Unit]("not_a_table")

final case class AssignedTwiceRequest(columns: Seq[String], insert: Boolean) extends Call[Unit]("assigned_twice")

final case class TruncatePartitionRequest(name: String, partition: Map[String, String]) extends Call[Unit]("truncate_partition")

final case class NotOfOneRowRequest(expression: String) extends Call[Unit]("not_of_one_row")

final case class PathOperationRequest(table: String, operation: String) extends Call[Unit]("refuse_for_path")

final case class NothingAtPathRequest(table: String, command: String, quoted: Boolean) extends Call[Unit]("nothing_at_path")

final case class UnresolvedInMergeRequest(
    clause: String,
    part: String,
    name: String,
    columns: Seq[String],
    isOfOtherSide: Boolean) extends Call[Unit]("unresolved_in_merge")

final case class InTransactionRequest(command: String) extends Call[Unit]("in_transaction")

final case class NotDeltaRequest(name: String, command: String) extends Call[Unit]("not_delta")

final case class NotClonedRequest(name: String, format: String) extends Call[Unit]("not_cloned")

final case class InsertIntoDirectoryRequest(path: Option[String] = None) extends Call[Unit]("insert_into_directory")

final case class NotConvertedRequest(name: String, format: String) extends Call[Unit]("not_converted")

final case class StoreCause(`class`: String, message: Option[String] = None, status: Option[Int] = None) extends Message

final case class NoFileSystemRequest(table: String, causes: Seq[StoreCause]) extends Call[Unit]("no_file_system")

final case class ReplaceOtherFormatRequest(name: String, provider: String) extends Call[Unit]("replace_other_format")

final case class NotParsedRequest(text: String) extends Call[Option[String]]("not_parsed")

final case class JobCause(
    `class`: String,
    message: Option[String] = None,
    at: Seq[String] = Nil,
    condition: Option[String] = None,
    parameters: Map[String, Option[String]] = Map.empty) extends Message

final case class TableRead(path: String, version: Long) extends Message

final case class ExplainFailureRequest(
    causes: Seq[JobCause],
    tables: Seq[TableRead]) extends Call[Option[ErrorDescription]]("explain_failure")

final case class BegunCommit(
    table: String,
    version: Long,
    txnId: String,
    path: String,
    counts: Option[Seq[Long]],
    rows: Option[JsonNode],
    created: Option[Seq[CreatedTable]]) extends Message

object BegunCommit {
  implicit val fromJson: FromJson[BegunCommit] = FromJson.message(in =>
    BegunCommit(
      in[String]("table"),
      in[Long]("version"),
      in[String]("txnId"),
      in[String]("path"),
      in[Option[Seq[Long]]]("counts"),
      in[Option[JsonNode]]("rows"),
      in[Option[Seq[CreatedTable]]]("created")))
}

final case class RecoverCommitRequest(commit: BegunCommit) extends Call[CommitAnswer]("recover_commit")

final case class FinishMaintenanceRequest() extends Call[Boolean]("finish_maintenance")
