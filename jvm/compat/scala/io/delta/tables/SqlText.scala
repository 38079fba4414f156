package io.delta.tables

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.parser.ParseException
import org.apache.spark.sql.functions

/** Names, literals and expressions as SQL text: what `headwater.tables.names` is for Python. */
private[tables] object SqlText {
  private val Part = "`((?:[^`]|``)*)`|([^`.]+)".r

  /**
   * The parts of a name, which is split at the dots outside backticks.
   *
   * @throws java.lang.IllegalArgumentException a backtick is not closed, or a part is empty.
   */
  def split(name: String): Seq[String] = {
    def refuse() =
      throw new IllegalArgumentException(s"'$name' is no name: put a part with dots, spaces or backticks in it into backticks.")
    var parts = Vector.empty[String]
    var position = 0
    val matcher = Part.pattern.matcher(name)
    while (position < name.length) {
      if (!matcher.region(position, name.length).lookingAt()) refuse()
      parts :+= Option(matcher.group(1)).map(_.replace("``", "`")).getOrElse(matcher.group(2).trim)
      position = matcher.end()
      if (position < name.length) {
        if (name(position) != '.' || position + 1 == name.length) refuse()
        position += 1
      }
    }
    if (parts.isEmpty || parts.exists(_.isEmpty)) refuse()
    parts
  }

  def quote(parts: Seq[String]): String = parts.map(part => "`" + part.replace("`", "``") + "`").mkString(".")

  def column(name: String): String = quote(split(name))

  def columns(names: Seq[String]): String = names.map(column).mkString("(", ", ", ")")

  def literal(text: String): String = "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

  def pairs(properties: Iterable[(String, String)]): String =
    properties.map { case (key, value) => s"${literal(key)} = ${literal(value)}" }.mkString("(", ", ", ")")

  /** A table's path as its name. Without a slash, it would name a table in a schema called `delta`. */
  def path(path: String): String = "delta." + quote(Seq(if (path.contains("/")) path else s"./$path"))

  /** An expression that can stand in a statement: a comment at its end must not swallow the parenthesis. */
  def alone(text: String): String = s"($text\n\n)"

  /** Throws Spark's own error for text that is not one expression: it could change the rest of the statement. */
  def checkParses(spark: SparkSession, text: String): Unit =
    try spark.range(0).select(functions.expr(text)).schema
    catch {
      case e: ParseException => throw e
      case _: org.apache.spark.sql.AnalysisException => // an unresolved name, which the statement reports
    }
}
