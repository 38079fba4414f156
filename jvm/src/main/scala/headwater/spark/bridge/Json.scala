package headwater.spark.bridge

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import com.fasterxml.jackson.databind.node.ObjectNode

/** JSON as it crosses the bridge: one mapper for both directions. */
object Json {
  private val mapper = new ObjectMapper()

  def parse(text: String): JsonNode = mapper.readTree(text)

  def write(value: Any): String = mapper.writeValueAsString(toJava(value))

  /** An object node with the given members; values are Scala scalars, options, sequences, maps or nodes. */
  def obj(members: (String, Any)*): ObjectNode = mapper.valueToTree[ObjectNode](toJava(members.toMap))

  def strings(node: JsonNode): Seq[String] =
    if (node == null || node.isNull) Nil else node.elements().asScala.map(_.asText()).toSeq

  def stringMap(node: JsonNode): Map[String, String] =
    if (node == null || node.isNull) Map.empty
    else node.properties().asScala.map(e => e.getKey -> text(e.getValue)).toMap

  /** The text of a node; null for a missing node or JSON null. */
  def text(node: JsonNode): String = if (node == null || node.isNull) null else node.asText()

  private def toJava(value: Any): Any = value match {
    case null | None => null
    case Some(inner) => toJava(inner)
    case node: JsonNode => node
    case map: collection.Map[_, _] =>
      val out = new java.util.LinkedHashMap[String, Any]()
      map.foreach { case (k, v) => out.put(String.valueOf(k), toJava(v)) }
      out
    case array: Array[_] => array.iterator.map(toJava).toSeq.asJava
    case seq: Iterable[_] => seq.iterator.map(toJava).toSeq.asJava
    case other => other
  }
}
