package headwater.spark.bridge.messages

/**
 * What crosses the bridge. Each message is a case class, which crosses as a JSON object with its fields as members, by their names; an
 * absent member, or null, is `None`. The handler has a struct of the same name with the same fields, where each of them is described
 * (`headwater/bridge/messages/`); a test compares the two.
 */
trait Message extends Product
