package headwater.spark.bridge.messages

// Written by jvm/messages.py, from headwater/bridge/messages/failures.py.

import com.fasterxml.jackson.databind.JsonNode
import headwater.spark.bridge.wire.{Call, FromJson, Message}

final case class InTransactionRequest(command: String) extends Call[Unit]("in_transaction")

final case class StoreCause(`class`: String, message: Option[String] = None, status: Option[Int] = None) extends Message

final case class NoFileSystemRequest(table: String, causes: Seq[StoreCause]) extends Call[Unit]("no_file_system")

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
