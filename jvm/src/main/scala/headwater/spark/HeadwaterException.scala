package headwater.spark

import com.fasterxml.jackson.databind.JsonNode
import headwater.spark.bridge.Json
import org.apache.spark.sql.AnalysisException

/** An error of a statement. The text, the condition and the state are the handler's; the text is final, no template. */
class HeadwaterException(condition: String, state: String, text: String, parameters: Map[String, String])
    extends AnalysisException(
      errorClass = condition,
      sqlState = state,
      messageTemplate = text,
      messageParameters = parameters,
      cause = None,
      message = Some(HeadwaterException.render(condition, state, text)))
    with HeadwaterThrowable {
  /** The same, for a task. */
  def inRow: HeadwaterRowException = new HeadwaterRowException(condition, state, text, parameters)

  /** Spark shows it in EXPLAIN, where a query cannot be planned. */
  override def toString: String = getMessage
}

object HeadwaterException {
  def render(condition: String, state: String, text: String): String = s"[$condition] $text SQLSTATE: $state"

  def fromJson(node: JsonNode): HeadwaterException = new HeadwaterException(
    node.get("condition").asText(),
    node.get("sqlState").asText(),
    node.get("text").asText(),
    Json.stringMap(node.get("parameters")))

  /** An error that cannot be the handler's, as there is none to ask: its text is in the same file, of which the JAR has a copy. */
  def apply(condition: String, parameters: (String, String)*): HeadwaterException = {
    val entry = conditions.get(condition)
    val template = Json.strings(entry.get("message")).mkString("\n")
    val text = parameters.foldLeft(template) { case (t, (name, value)) => t.replace(s"<$name>", value) }
    new HeadwaterException(condition, entry.get("sqlState").asText(), text, parameters.toMap)
  }

  private lazy val conditions: JsonNode = {
    val stream = getClass.getResourceAsStream("/headwater/error-conditions.json")
    try Json.parse(new String(stream.readAllBytes(), java.nio.charset.StandardCharsets.UTF_8)) finally stream.close()
  }

  /** The first of our own errors in a chain of causes: what a failed job was really about. */
  def find(error: Throwable): Option[HeadwaterException] =
    Iterator.iterate(error)(_.getCause).takeWhile(_ != null).take(20).collectFirst {
      case row: HeadwaterRowException => row.toStatementError
      case own: HeadwaterException => own
    }
}
