package headwater.spark.bridge.wire

/**
 * What crosses the bridge. Each message is a case class, which crosses as a JSON object with its fields as members, by their names; an
 * absent member, or null, is `None`. `jvm/messages.py` writes it from the handler's struct of the same name, where the fields are described
 * (`headwater/bridge/messages/`).
 */
trait Message extends Product
