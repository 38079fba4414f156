package headwater.spark.bridge.messages

// Written by jvm/messages.py, from headwater/bridge/messages/maintain.py.

import headwater.spark.bridge.wire.Call

final case class AutoCompactRequest(table: String) extends Call[Boolean]("auto_compact")
