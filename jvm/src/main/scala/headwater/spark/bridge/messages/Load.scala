package headwater.spark.bridge.messages

// Written by jvm/messages.py, from headwater/bridge/messages/load.py.

import com.fasterxml.jackson.databind.JsonNode
import headwater.spark.bridge.wire.{Call, FromJson, Message}

final case class CopyColumnsRequest(table: String, name: String, arguments: JsonNode) extends Call[CopyColumns]("copy_columns")

final case class CopyColumns(schema: String) extends Message

object CopyColumns {
  implicit val fromJson: FromJson[CopyColumns] = FromJson.message(in => CopyColumns(in[String]("schema")))
}

final case class SourceFiles(format: String, paths: Seq[String], schema: Option[String], options: Map[String, String]) extends Message

object SourceFiles {
  implicit val fromJson: FromJson[SourceFiles] = FromJson.message(in =>
    SourceFiles(
      in[String]("format"),
      in[Seq[String]]("paths"),
      in[Option[String]]("schema"),
      in[Map[String, String]]("options")))
}

final case class Placement(
    plan: Int,
    table: String,
    version: Long,
    schema: String,
    byName: Boolean,
    options: Map[String, String]) extends Message

object Placement {
  implicit val fromJson: FromJson[Placement] = FromJson.message(in =>
    Placement(
      in[Int]("plan"),
      in[String]("table"),
      in[Long]("version"),
      in[String]("schema"),
      in[Boolean]("byName"),
      in[Map[String, String]]("options")))
}
