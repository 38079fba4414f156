package io.delta.tables

import java.util.UUID

import scala.collection.mutable

import org.apache.spark.sql.{Column, DataFrame, SparkSession}
import org.apache.spark.sql.functions.{isnotnull, lit, named_struct}

/**
 * The source DataFrame and the Columns of one statement, which are not SQL text. They travel in temporary views, in the form that
 * `headwater.tables.statement_inputs` describes, and are dropped when the statement ends.
 */
private[tables] final class StatementInputs(spark: SparkSession, opened: Opened, target: () => DataFrame, from: Option[DataFrame]) {
  import StatementInputs._

  private val id = UUID.randomUUID().toString.replace("-", "")
  private val handed = mutable.LinkedHashMap.empty[Sees, mutable.ArrayBuffer[Column]]

  /** The source's name in the statement. */
  def source: String = {
    handed.getOrElseUpdate(Both, mutable.ArrayBuffer.empty)
    view(Both)
  }

  /** An expression in the statement. */
  def apply(expression: Expression, sees: Sees): String = expression match {
    case Left(text) =>
      SqlText.checkParses(spark, text)
      SqlText.alone(text)
    case Right(column) =>
      val columns = handed.getOrElseUpdate(sees, mutable.ArrayBuffer.empty)
      columns += column
      s"headwater_column('${view(sees)}', ${columns.size - 1})"
  }

  /** `WHERE condition`: Spark reads `t WHERE (a)` as table `t` with an alias, so a text has no parentheses. */
  def where(condition: Option[Expression]): String = condition match {
    case None => ""
    case Some(Left(text)) =>
      SqlText.checkParses(spark, text)
      s"\nWHERE $text"
    case Some(column) => s"\nWHERE ${apply(column, Target)}"
  }

  /** `column = expression, …`. */
  def assignments(values: Iterable[(String, Expression)], sees: Sees): String =
    values.map { case (column, value) => s"${SqlText.column(column)} = ${apply(value, sees)}" }.mkString(",\n  ")

  def run(text: String): DataFrame = {
    val made = mutable.ArrayBuffer.empty[String]
    try {
      for ((sees, columns) <- handed) {
        made += view(sees)
        frame(sees, columns.toSeq).createOrReplaceTempView(view(sees))
      }
      opened.sql(text)
    } finally made.foreach(spark.catalog.dropTempView)
  }

  private def view(sees: Sees): String = s"__headwater_${sees.name}_$id"

  private def frame(sees: Sees, columns: Seq[Column]): DataFrame = {
    val nothing = spark.range(1).select()
    val targets = if (columns.nonEmpty && sees != Source) target() else nothing
    val sources = from.filter(_ => sees != Target).getOrElse(nothing)
    val joined = nothing.crossJoin(targets).crossJoin(sources)
    if (columns.isEmpty) joined
    else joined.where(isnotnull(named_struct(columns.zipWithIndex.flatMap { case (c, n) => Seq(lit(n.toString), c) }: _*)))
  }
}

private[tables] object StatementInputs {

  /** SQL text or a Column. */
  type Expression = Either[String, Column]

  /** What columns are set to. */
  def columns(values: Iterable[(String, Column)]): Seq[(String, Expression)] = values.toSeq.map { case (name, value) =>
    name -> Right(value)
  }
  def texts(values: Iterable[(String, String)]): Seq[(String, Expression)] = values.toSeq.map { case (name, value) => name -> Left(value) }

  /** The rows whose columns an expression may use. */
  sealed abstract class Sees(val name: String)
  case object Both extends Sees("both")
  case object Target extends Sees("target")
  case object Source extends Sees("source")
}
