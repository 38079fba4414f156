package headwater.spark.bridge.messages

// Written by jvm/messages.py, from headwater/bridge/messages/__init__.py.

import headwater.spark.bridge.wire.{FromJson, Message}

final case class StoreIdentity(root: String, identity: String, managed: Option[String] = None) extends Message

final case class SessionSettings(
    timeZone: String = "UTC",
    user: Option[String] = None,
    applicationId: Option[String] = None,
    sparkVersion: Option[String] = None,
    confs: Map[String, String] = Map.empty,
    stores: Seq[StoreIdentity] = Nil) extends Message

final case class Envelope(session: SessionSettings, request: Message) extends Message

final case class ErrorDescription(condition: String, sqlState: String, text: String, parameters: Map[String, String]) extends Message

object ErrorDescription {
  implicit val fromJson: FromJson[ErrorDescription] = FromJson.message(in =>
    ErrorDescription(
      in[String]("condition"),
      in[String]("sqlState"),
      in[String]("text"),
      in[Map[String, String]]("parameters")))
}
