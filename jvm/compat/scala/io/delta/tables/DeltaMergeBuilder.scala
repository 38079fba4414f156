package io.delta.tables

import scala.collection.Map
import scala.jdk.CollectionConverters._

import io.delta.tables.DeltaMergeBuilder.Clause
import io.delta.tables.StatementInputs.{columns, texts, Both, Expression, Sees, Source, Target}
import org.apache.spark.sql.{Column, DataFrame}

/**
 * The description of a MERGE. For each row, the clauses of a kind are tried in the order they were added; the first whose condition is
 * true acts on the row. Keys of assignments are names of the target's columns, nested fields with a dot.
 */
class DeltaMergeBuilder private[tables] (
    target: String,
    inputs: () => StatementInputs,
    condition: Expression,
    clauses: Vector[Clause],
    evolves: Boolean) {
  def whenMatched(): DeltaMergeMatchedActionBuilder = new DeltaMergeMatchedActionBuilder(this, None)
  def whenMatched(condition: String): DeltaMergeMatchedActionBuilder = new DeltaMergeMatchedActionBuilder(this, Some(Left(condition)))
  def whenMatched(condition: Column): DeltaMergeMatchedActionBuilder = new DeltaMergeMatchedActionBuilder(this, Some(Right(condition)))

  def whenNotMatched(): DeltaMergeNotMatchedActionBuilder = new DeltaMergeNotMatchedActionBuilder(this, None)
  def whenNotMatched(condition: String): DeltaMergeNotMatchedActionBuilder =
    new DeltaMergeNotMatchedActionBuilder(this, Some(Left(condition)))
  def whenNotMatched(condition: Column): DeltaMergeNotMatchedActionBuilder =
    new DeltaMergeNotMatchedActionBuilder(this, Some(Right(condition)))

  def whenNotMatchedBySource(): DeltaMergeNotMatchedBySourceActionBuilder = new DeltaMergeNotMatchedBySourceActionBuilder(this, None)
  def whenNotMatchedBySource(condition: String): DeltaMergeNotMatchedBySourceActionBuilder =
    new DeltaMergeNotMatchedBySourceActionBuilder(this, Some(Left(condition)))
  def whenNotMatchedBySource(condition: Column): DeltaMergeNotMatchedBySourceActionBuilder =
    new DeltaMergeNotMatchedBySourceActionBuilder(this, Some(Right(condition)))

  /** Adds the source's new columns and fields to the table. */
  def withSchemaEvolution(): DeltaMergeBuilder = new DeltaMergeBuilder(target, inputs, condition, clauses, evolves = true)

  /** Runs the MERGE and returns its counts of rows. */
  def execute(): DataFrame = {
    val parts = inputs()
    val lines = Vector(
      s"MERGE${if (evolves) " WITH SCHEMA EVOLUTION" else ""} INTO $target",
      s"USING ${parts.source}",
      s"ON ${parts(condition, Both)}") ++ clauses.map(_.sql(parts))
    parts.run(lines.mkString("\n"))
  }

  private[tables] def plus(clause: Clause): DeltaMergeBuilder =
    new DeltaMergeBuilder(target, inputs, condition, clauses :+ clause, evolves)
}

private[tables] object DeltaMergeBuilder {
  case class Clause(when: String, sees: Sees, condition: Option[Expression], action: StatementInputs => String) {
    def sql(inputs: StatementInputs): String =
      s"WHEN $when${condition.map(c => s" AND ${inputs(c, sees)}").getOrElse("")} THEN ${action(inputs)}"
  }
}

/** What happens to a row that a clause takes. */
private[tables] abstract class MergeActions(merge: DeltaMergeBuilder, when: String, sees: Sees, condition: Option[Expression]) {
  protected def add(action: StatementInputs => String): DeltaMergeBuilder = merge.plus(Clause(when, sees, condition, action))

  protected def set(values: Iterable[(String, Expression)]): DeltaMergeBuilder =
    add(inputs => s"UPDATE SET\n  ${inputs.assignments(values, sees)}")
}

/** What happens to a row of the target. */
sealed abstract class MergeTargetActions private[tables] (merge: DeltaMergeBuilder, when: String, sees: Sees, condition: Option[Expression])
    extends MergeActions(merge, when, sees, condition) {
  def update(set: Map[String, Column]): DeltaMergeBuilder = this.set(columns(set))
  def update(set: java.util.Map[String, Column]): DeltaMergeBuilder = this.set(columns(set.asScala))
  def updateExpr(set: Map[String, String]): DeltaMergeBuilder = this.set(texts(set))
  def updateExpr(set: java.util.Map[String, String]): DeltaMergeBuilder = this.set(texts(set.asScala))
  def delete(): DeltaMergeBuilder = add(_ => "DELETE")
}

class DeltaMergeMatchedActionBuilder private[tables] (merge: DeltaMergeBuilder, condition: Option[Expression])
    extends MergeTargetActions(merge, "MATCHED", Both, condition) {
  def updateAll(): DeltaMergeBuilder = add(_ => "UPDATE SET *")
}

class DeltaMergeNotMatchedActionBuilder private[tables] (merge: DeltaMergeBuilder, condition: Option[Expression])
    extends MergeActions(merge, "NOT MATCHED", Source, condition) {
  def insert(values: Map[String, Column]): DeltaMergeBuilder = insert(columns(values))
  def insert(values: java.util.Map[String, Column]): DeltaMergeBuilder = insert(columns(values.asScala))
  def insertExpr(values: Map[String, String]): DeltaMergeBuilder = insert(texts(values))
  def insertExpr(values: java.util.Map[String, String]): DeltaMergeBuilder = insert(texts(values.asScala))
  def insertAll(): DeltaMergeBuilder = add(_ => "INSERT *")

  private def insert(values: Seq[(String, Expression)]): DeltaMergeBuilder =
    add(inputs => s"INSERT ${SqlText.columns(values.map(_._1))} VALUES ${values.map(v => inputs(v._2, Source)).mkString("(", ", ", ")")}")
}

class DeltaMergeNotMatchedBySourceActionBuilder private[tables] (merge: DeltaMergeBuilder, condition: Option[Expression])
    extends MergeTargetActions(merge, "NOT MATCHED BY SOURCE", Target, condition)
