package headwater.spark.bridge.messages

/** What a handler may know of the session; with it, what every call and every error is made of. */
final case class SessionSettings(
    timeZone: String,
    user: String,
    applicationId: String,
    sparkVersion: String,
    confs: Map[String, String],
    stores: Seq[StoreIdentity] = Nil)
    extends Message

/**
 * Of the options that a table is reached with, no more than whether they are the same. Empty without any.
 *
 * @param managed what the handler has called a table that a catalog manages
 */
final case class StoreIdentity(root: String, identity: String, managed: Option[String] = None) extends Message

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
