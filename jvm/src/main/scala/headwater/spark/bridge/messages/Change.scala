package headwater.spark.bridge.messages

// Written by jvm/messages.py, from headwater/bridge/messages/change.py.

import com.fasterxml.jackson.databind.JsonNode
import headwater.spark.bridge.wire.{Call, FromJson, Message}

final case class KeyEquality(column: String, value: Int, `type`: String) extends Message

final case class Conjunct(target: Option[JsonNode] = None, key: Option[KeyEquality] = None) extends Message

final case class ChangeClause(
    kind: String,
    condition: Option[Int] = None,
    conditionText: Option[String] = None,
    values: Seq[Int] = Nil,
    assigned: Seq[String] = Nil,
    conjuncts: Seq[Conjunct] = Nil) extends Message

final case class ChangeRequest(
    table: String,
    name: String,
    version: Long,
    tableId: String,
    tableSchema: String,
    target: Int,
    columns: Seq[Int],
    source: Option[Int],
    sourceColumns: Seq[Int],
    sourceNames: Seq[String],
    sourceDeterministic: Boolean,
    sourceBytes: Option[Long],
    sourceIsScan: Boolean,
    condition: Option[Int],
    conditionDeterministic: Boolean,
    conditionText: Option[String],
    conditionColumns: Seq[String],
    conjuncts: Seq[Conjunct],
    runsPython: Boolean,
    readsTargetElsewhere: Boolean,
    matched: Seq[ChangeClause],
    notMatched: Seq[ChangeClause],
    notMatchedBySource: Seq[ChangeClause])(statement: String) extends Call[CommitAnswer](statement)

final case class ExplainRequest(statement: String, mode: String, change: ChangeRequest) extends Call[String]("explain")

final case class MergeTargetRequest(
    table: String,
    version: Long,
    tableId: Option[String] = None,
    withSchemaEvolution: Boolean,
    source: String,
    star: Boolean,
    assigned: Seq[Seq[String]]) extends Call[MergeTargetAnswer]("merge_target")

final case class MergeTargetAnswer(target: Option[TableDescription], computed: Seq[String], evolves: Boolean) extends Message

object MergeTargetAnswer {
  implicit val fromJson: FromJson[MergeTargetAnswer] = FromJson.message(in =>
    MergeTargetAnswer(
      in[Option[TableDescription]]("target"),
      in[Seq[String]]("computed"),
      in[Boolean]("evolves")))
}

final case class TruncateRequest(table: String) extends Call[CommitAnswer]("truncate")
