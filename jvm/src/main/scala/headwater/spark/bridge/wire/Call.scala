package headwater.spark.bridge.wire

/** A request: the call it is sent with, and what the handler answers. */
abstract class Call[A](val call: String)(implicit val answer: FromJson[A]) extends Message
