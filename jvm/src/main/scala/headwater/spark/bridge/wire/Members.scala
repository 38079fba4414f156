package headwater.spark.bridge.wire

import com.fasterxml.jackson.databind.JsonNode

/** The members of a message that is read. */
final class Members(node: JsonNode) {
  def apply[A](name: String)(implicit as: FromJson[A]): A =
    try as.read(node.get(name))
    catch { case e: IllegalStateException => throw new IllegalStateException(s"${e.getMessage}: $name", e) }
}
