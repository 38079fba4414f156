package headwater.spark.bridge.messages

// Written by jvm/messages.py, from headwater/bridge/messages/follow.py.

import com.fasterxml.jackson.databind.JsonNode
import headwater.spark.bridge.wire.{Call, FromJson, Message}

final case class OpenStreamRequest(
    table: String,
    options: Map[String, String],
    bounds: Seq[ChangesBound],
    schema: Option[String] = None,
    checkpoint: Option[String] = None) extends Call[StreamDescription]("open_stream")

final case class StreamDescription(
    table: TableDescription,
    schema: String,
    readsChanges: Boolean,
    hasConditions: Boolean,
    notesEnds: Boolean,
    maxFiles: Option[Long],
    maxBytes: Option[Long],
    stream: JsonNode) extends Message

object StreamDescription {
  implicit val fromJson: FromJson[StreamDescription] = FromJson.message(in =>
    StreamDescription(
      in[TableDescription]("table"),
      in[String]("schema"),
      in[Boolean]("readsChanges"),
      in[Boolean]("hasConditions"),
      in[Boolean]("notesEnds"),
      in[Option[Long]]("maxFiles"),
      in[Option[Long]]("maxBytes"),
      in[JsonNode]("stream")))
}

final case class StreamEndRequest(
    stream: JsonNode,
    start: Option[String] = None,
    maxFiles: Option[Long] = None,
    maxBytes: Option[Long] = None,
    until: Option[String] = None,
    looksAhead: Boolean = false) extends Call[StreamEndAnswer]("stream_end")

final case class StreamEndAnswer(offset: Option[String], sizeInBytes: Long, metrics: Map[String, String]) extends Message

object StreamEndAnswer {
  implicit val fromJson: FromJson[StreamEndAnswer] = FromJson.message(in =>
    StreamEndAnswer(
      in[Option[String]]("offset"),
      in[Long]("sizeInBytes"),
      in[Map[String, String]]("metrics")))
}

final case class StreamFilesRequest(
    stream: JsonNode,
    start: Option[String] = None,
    end: String,
    filters: Seq[JsonNode]) extends Call[FileListAnswer]("stream_files")

final case class StreamConditionRequest(
    stream: JsonNode,
    start: Option[String] = None,
    end: String) extends Call[StreamCondition]("stream_condition")

final case class StreamCondition(condition: Option[String]) extends Message

object StreamCondition {
  implicit val fromJson: FromJson[StreamCondition] = FromJson.message(in => StreamCondition(in[Option[String]]("condition")))
}

final case class StreamChangesRequest(
    stream: JsonNode,
    start: Option[String] = None,
    end: String) extends Call[ChangesAnswer]("stream_changes")

final case class SinkSettings(
    table: String,
    mode: String,
    partitionColumns: Seq[String],
    clusteringColumns: Option[Seq[String]] = None,
    options: Map[String, String]) extends Message

final case class CheckSinkRequest(sink: SinkSettings) extends Call[Unit]("check_sink")

final case class SinkBatch(sink: SinkSettings, queryId: String, batchId: Long, schema: String) extends Message

final case class PlanBatchRequest(batch: SinkBatch) extends Call[BatchPlan]("plan_batch")

final case class BatchPlan(skipped: Boolean, columns: Option[String], version: Option[Long], tableId: Option[String]) extends Message

object BatchPlan {
  implicit val fromJson: FromJson[BatchPlan] = FromJson.message(in =>
    BatchPlan(
      in[Boolean]("skipped"),
      in[Option[String]]("columns"),
      in[Option[Long]]("version"),
      in[Option[String]]("tableId")))
}

final case class WriteBatchRequest(
    batch: SinkBatch,
    plan: Int,
    schema: String,
    version: Option[Long] = None,
    tableId: Option[String] = None,
    readsTable: Boolean) extends Call[CommitAnswer]("write_batch")

final case class StreamCommittedRequest(stream: JsonNode, end: String) extends Call[Unit]("stream_committed")
