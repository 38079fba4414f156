package headwater.spark.bridge.messages

import com.fasterxml.jackson.databind.JsonNode

final case class ChangeClause(kind: String, condition: Option[Int], conditionText: Option[String], values: Seq[Int], assigned: Seq[String])
    extends Message

final case class KeyEquality(column: String, value: Int, `type`: String) extends Message

final case class Conjunct(target: Option[JsonNode] = None, key: Option[KeyEquality] = None) extends Message

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
    notMatchedBySource: Seq[ChangeClause])(statement: String)
    extends Call[CommitAnswer](statement)

final case class ExplainRequest(statement: String, mode: String, change: ChangeRequest) extends Call[String]("explain")

final case class MergeTargetRequest(
    table: String,
    version: Long,
    tableId: String,
    withSchemaEvolution: Boolean,
    source: String,
    star: Boolean,
    assigned: Seq[Seq[String]])
    extends Call[MergeTargetAnswer]("merge_target")

final case class MergeTargetAnswer(target: Option[TableDescription], computed: Seq[String], evolves: Boolean) extends Message

object MergeTargetAnswer {
  implicit val fromJson: FromJson[MergeTargetAnswer] =
    FromJson.message(in => MergeTargetAnswer(in[Option[TableDescription]]("target"), in[Seq[String]]("computed"), in[Boolean]("evolves")))
}
