package headwater.spark.bridge

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import com.fasterxml.jackson.databind.node.JsonNodeFactory
import com.fasterxml.jackson.databind.util.RawValue
import headwater.spark.bridge.wire.{FromJson, Message, Variant}

/** JSON as it crosses the bridge: one mapper for both directions. */
object Json {
  private val mapper = new ObjectMapper()

  def parse(text: String): JsonNode = mapper.readTree(text)

  /** The message that a text is. */
  def read[A](text: String)(implicit as: FromJson[A]): A = as.read(parse(text))

  /** A text that is JSON already, to be written as it is. */
  def written(text: String): JsonNode = JsonNodeFactory.instance.rawValueNode(new RawValue(text))

  /** @param value scalars, options, sequences, maps, messages or nodes, within one another. */
  def write(value: Any): String = mapper.writeValueAsString(toJava(value))

  /** The same value as a node. */
  def node(value: Any): JsonNode = mapper.valueToTree(toJava(value))

  def strings(node: JsonNode): Seq[String] =
    if (node == null || node.isNull) Nil else node.elements().asScala.map(_.asText()).toSeq

  /** The text of a node; null for a missing node or JSON null. */
  def text(node: JsonNode): String = if (node == null || node.isNull) null else node.asText()

  /** The same value as Java's collections have it. */
  def toJava(value: Any): Any = value match {
    case null | None => null
    case Some(inner) => toJava(inner)
    case node: JsonNode => node
    case message: Message =>
      val out = new java.util.LinkedHashMap[String, Any]()
      message match { case variant: Variant => out.put("kind", variant.kind); case _ => }
      message.productElementNames.zip(message.productIterator).foreach { case (name, member) => out.put(name, toJava(member)) }
      out
    case map: collection.Map[_, _] =>
      val out = new java.util.LinkedHashMap[String, Any]()
      map.foreach { case (k, v) => out.put(String.valueOf(k), toJava(v)) }
      out
    case array: Array[_] => array.iterator.map(toJava).toSeq.asJava
    case seq: Iterable[_] => seq.iterator.map(toJava).toSeq.asJava
    case other => other
  }
}
