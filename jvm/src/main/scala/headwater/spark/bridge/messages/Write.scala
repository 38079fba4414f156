package headwater.spark.bridge.messages

final case class PlanSaveRequest(table: String, mode: String, partitionColumns: Seq[String], options: Map[String, String])
    extends Call[SavePlan]("plan_save")

final case class SavePlan(action: String, mode: Option[String], write: Option[String]) extends Message

object SavePlan {
  implicit val fromJson: FromJson[SavePlan] = FromJson.message(in => SavePlan(
    in[String]("action"),
    in[Option[String]]("mode"),
    in[Option[String]]("write")))
}

final case class ResolveWriteRequest(
    table: String,
    name: String,
    version: Long,
    schema: String,
    byName: Boolean,
    mode: String,
    replaceWhere: Option[String],
    options: Map[String, String])
    extends Call[ResolvedWrite]("resolve_write")

final case class ResolvedWrite(schema: String) extends Message

object ResolvedWrite {
  implicit val fromJson: FromJson[ResolvedWrite] = FromJson.message(in => ResolvedWrite(in[String]("schema")))
}

final case class WriteRequest(
    table: String,
    name: String,
    version: Long,
    tableId: String,
    plan: Int,
    schema: String,
    mode: String,
    replaceWhere: Option[String],
    options: Map[String, String])
    extends Call[CommitAnswer]("write")
