package headwater.spark.bridge.messages

// Written by jvm/messages.py, from headwater/bridge/messages/write.py.

import headwater.spark.bridge.wire.{Call, FromJson, Message}

final case class PlanSaveRequest(
    table: String,
    mode: String,
    partitionColumns: Seq[String],
    options: Map[String, String]) extends Call[SavePlan]("plan_save")

final case class SavePlan(action: String, mode: Option[String], write: Option[String]) extends Message

object SavePlan {
  implicit val fromJson: FromJson[SavePlan] = FromJson.message(in =>
    SavePlan(
      in[String]("action"),
      in[Option[String]]("mode"),
      in[Option[String]]("write")))
}

final case class ResolveWriteRequest(
    table: String,
    name: Option[String] = None,
    version: Long,
    schema: String,
    byName: Boolean,
    isSql: Boolean = false,
    mode: String = "append",
    replaceWhere: Option[String] = None,
    options: Map[String, String]) extends Call[ResolvedWrite]("resolve_write")

final case class ResolvedWrite(schema: String) extends Message

object ResolvedWrite {
  implicit val fromJson: FromJson[ResolvedWrite] = FromJson.message(in => ResolvedWrite(in[String]("schema")))
}

final case class WriteRequest(
    table: String,
    name: Option[String] = None,
    version: Option[Long] = None,
    tableId: Option[String] = None,
    plan: Int,
    schema: String,
    mode: String = "append",
    replaceWhere: Option[String] = None,
    readsTable: Boolean = false,
    rowsAreFixed: Boolean = false,
    options: Map[String, String]) extends Call[CommitAnswer]("write")

final case class ReplaceTargetRequest(
    table: String,
    name: String,
    version: Long,
    tableId: String,
    source: String,
    byName: Boolean,
    using: Seq[String],
    hasCondition: Boolean,
    isSql: Boolean = false,
    options: Map[String, String]) extends Call[ReplaceTargetAnswer]("replace_target")

final case class ReplaceTargetAnswer(
    target: Option[TableDescription],
    columns: String,
    using: Seq[String],
    targetKeys: Seq[Int],
    sourceKeys: Seq[Int],
    condition: Option[String],
    alias: Option[String],
    storedOtherwise: Seq[Int],
    storedAs: String) extends Message

object ReplaceTargetAnswer {
  implicit val fromJson: FromJson[ReplaceTargetAnswer] = FromJson.message(in =>
    ReplaceTargetAnswer(
      in[Option[TableDescription]]("target"),
      in[String]("columns"),
      in[Seq[String]]("using"),
      in[Seq[Int]]("targetKeys"),
      in[Seq[Int]]("sourceKeys"),
      in[Option[String]]("condition"),
      in[Option[String]]("alias"),
      in[Seq[Int]]("storedOtherwise"),
      in[String]("storedAs")))
}

final case class ReplaceRequest(
    change: ChangeRequest,
    using: Seq[String],
    condition: Option[String],
    options: Map[String, String]) extends Call[CommitAnswer]("replace")
