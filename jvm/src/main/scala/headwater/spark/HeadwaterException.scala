package headwater.spark

import scala.util.matching.Regex

import com.fasterxml.jackson.databind.JsonNode
import headwater.spark.bridge.{Json, Redaction}
import headwater.spark.bridge.messages.ErrorDescription
import headwater.spark.shims.StatementError

/** The error of a statement. Its text is final: Spark renders no template for it. */
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

  private val Placeholder = "<([A-Za-z][A-Za-z0-9]*)>".r

  /** An error that this side raises: as the handler would, with the text of the JAR's copy of `error-conditions.json`. */
  def apply(condition: String, parameters: (String, String)*): HeadwaterException = {
    val entry = conditions.get(condition)
    val shown = parameters.map { case (name, value) => name -> Redaction.withoutCredentials(value) }.toMap
    val template = Json.strings(entry.get("message")).mkString("\n")
    // In one pass: a value, such as a user's expression, may have what looks like a placeholder.
    val text = Placeholder.replaceAllIn(template, found => Regex.quoteReplacement(shown.getOrElse(found.group(1), found.matched)))
    new HeadwaterException(condition, entry.get("sqlState").asText(), text, shown)
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
