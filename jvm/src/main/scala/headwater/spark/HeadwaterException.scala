package headwater.spark

import com.fasterxml.jackson.databind.JsonNode
import headwater.spark.bridge.Json
import headwater.spark.bridge.messages.ErrorDescription
import headwater.spark.shims.StatementError

/** The error of a statement. Its text is the handler's and final: Spark renders no template for it. */
class HeadwaterException(condition: String, state: String, text: String, parameters: Map[String, String])
    extends StatementError(condition, state, text, parameters, HeadwaterException.render(condition, state, text))
    with HeadwaterThrowable {
  /** The same error, for a task to throw. */
  def inRow: HeadwaterRowException = new HeadwaterRowException(condition, state, text, parameters)

  /** EXPLAIN shows this for a query that cannot be planned. */
  override def toString: String = getMessage
}

object HeadwaterException {
  def render(condition: String, state: String, text: String): String = s"[$condition] $text SQLSTATE: $state"

  def of(error: ErrorDescription): HeadwaterException =
    Conflicts.get(error.condition).flatMap(named(_, error))
      .getOrElse(new HeadwaterException(error.condition, error.sqlState, error.text, error.parameters))

  /** The classes in `headwater-delta.jar` by which programs catch conflicts. */
  private val Conflicts = Map(
    "DELTA_CONCURRENT_WRITE" -> "ConcurrentWriteException",
    "DELTA_METADATA_CHANGED" -> "MetadataChangedException",
    "DELTA_PROTOCOL_CHANGED" -> "ProtocolChangedException",
    "DELTA_CONCURRENT_APPEND" -> "ConcurrentAppendException",
    "DELTA_CONCURRENT_DELETE_READ" -> "ConcurrentDeleteReadException",
    "DELTA_CONCURRENT_DELETE_DELETE" -> "ConcurrentDeleteDeleteException",
    "DELTA_CONCURRENT_TRANSACTION" -> "ConcurrentTransactionException")

  /** An error of a class of Delta Lake's name, if the JAR that has it is there. */
  private def named(name: String, error: ErrorDescription): Option[HeadwaterException] =
    try {
      val kind = Class.forName(s"io.delta.exceptions.$name", true, getClass.getClassLoader)
      Some(kind.getConstructors.head.newInstance(error.condition, error.sqlState, error.text, error.parameters)
        .asInstanceOf[HeadwaterException])
    } catch { case _: ReflectiveOperationException => None }

  /** An error that this side raises where it cannot ask a handler. The text is in the JAR's copy of `error-conditions.json`. */
  def apply(condition: String, parameters: (String, String)*): HeadwaterException = {
    val entry = conditions.get(condition)
    val template = Json.strings(entry.get("message")).mkString("\n")
    val text = parameters.foldLeft(template) { case (t, (name, value)) => t.replace(s"<$name>", value) }
    new HeadwaterException(condition, entry.get("sqlState").asText(), text, parameters.toMap)
  }

  private lazy val conditions: JsonNode = {
    val stream = getClass.getResourceAsStream("/headwater/error-conditions.json")
    try Json.parse(new String(stream.readAllBytes(), java.nio.charset.StandardCharsets.UTF_8))
    finally stream.close()
  }

  /** The first of our own errors in a chain of causes: the real reason why a job failed. */
  def find(error: Throwable): Option[HeadwaterException] =
    Iterator.iterate(error)(_.getCause).takeWhile(_ != null).take(20).collectFirst {
      case row: HeadwaterRowException => row.toStatementError
      case own: HeadwaterException => own
    }
}
