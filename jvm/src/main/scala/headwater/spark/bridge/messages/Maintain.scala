package headwater.spark.bridge.messages

final case class AutoCompactRequest(table: String) extends Call[Boolean]("auto_compact")
