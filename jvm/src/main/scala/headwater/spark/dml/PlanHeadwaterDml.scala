package headwater.spark.dml

import java.util.Locale

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import headwater.spark.HeadwaterException
import headwater.spark.catalog.{HeadwaterTable, Refusals}
import headwater.spark.shims.MergeShim
import headwater.spark.write.{DeclaredLengthCheck, StoreAssignment}
import org.apache.spark.sql.{AnalysisException, SparkSession}
import org.apache.spark.sql.catalyst.analysis.EliminateSubqueryAliases
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.expressions.objects.AssertNotNull
import org.apache.spark.sql.catalyst.plans.Inner
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.{CurrentOrigin, Origin}
import org.apache.spark.sql.execution.datasources.LogicalRelation
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.headwater.dml.VariableResolver

/**
 * Turns a DELETE, UPDATE or MERGE that Spark has resolved into the command that the handler runs. Spark's rules of assignment cast values
 * and complete structs.
 */
case class PlanHeadwaterDml(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case command @ (_: DeleteFromTable | _: UpdateTable | _: MergeIntoTable) =>
      val unwrapped = AssignedValue.unwrap(command)
      if (unwrapped.resolved) withText(planned(throughView(VariableResolver.withVariableValues(unwrapped))), command) else command
    case other => other
  }

  /**
   * The target with `_metadata`, if the statement uses it. Spark adds it to plans whose values are resolved, which these are not yet
   * ([[AssignedValue]]).
   */
  private def withMetadata(target: LogicalRelation, statement: LogicalPlan): LogicalRelation = {
    val hidden = AttributeSet(target.metadataOutput)
    if (statement.expressions.exists(_.references.exists(hidden.contains))) target.withMetadataColumns().asInstanceOf[LogicalRelation]
    else target
  }

  /** Gives the command the statement's text, for Spark's UI. Rules may drop the text of the statement, but not that of all its parts. */
  private def withText(made: LogicalPlan, statement: LogicalPlan): LogicalPlan = made match {
    case command: HeadwaterDmlCommand =>
      val origins =
        statement.collect { case plan => plan }.iterator.flatMap(plan => plan.origin +: plan.expressions.flatMap(_.map(_.origin)))
      origins.find(origin => origin.sqlText.isDefined && origin.objectType.isEmpty) match {
        case Some(origin) => CurrentOrigin.withOrigin(Origin(sqlText = origin.sqlText))(command.copy())
        case None => command
      }
    case other => other
  }

  private def planned(plan: LogicalPlan): LogicalPlan = padded(plan) match {
    case DeleteFromTable(DmlTarget(relation, table), condition) =>
      val target = withMetadata(relation, plan)
      checked(target, Some(condition))
      HeadwaterDmlCommand("delete", table, DmlPieces(target, None, Some(condition).filterNot(_ == Literal.TrueLiteral)))
    case UpdateTable(DmlTarget(relation, table), assignments, condition) =>
      val target = withMetadata(relation, plan)
      checked(target, condition, assignments)
      val clause = updating(target, table, None, assignments, fromStar = false, coerce = false)
      HeadwaterDmlCommand("update", table, DmlPieces(target, None, condition.filterNot(_ == Literal.TrueLiteral), matched = Seq(clause)))
    case MergeIntoTable(DmlTarget(relation, table), source, condition, matched, notMatched, notMatchedBySource, evolves) =>
      val target = withMetadata(relation, plan)
      val both = Join(target, source, Inner, None, JoinHint.NONE)
      condition.foreach { e =>
        if (!e.deterministic && e.children.forall(_.deterministic))
          throw HeadwaterException("DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED", "columnNames" -> e.sql, "near" -> "none")
      }
      checked(both, Some(condition))
      def clauses(actions: Seq[MergeAction]) = actions.map(clause(both, target, table, evolves, _))
      HeadwaterDmlCommand(
        "merge",
        table,
        DmlPieces(
          target,
          Some(source),
          Some(condition),
          clauses(matched),
          clauses(notMatched),
          clauses(notMatchedBySource)))
    case delete: DeleteFromTable => refused("DELETE", delete.table).fold[LogicalPlan](delete)(throw _)
    case update: UpdateTable => refused("UPDATE", update.table).fold[LogicalPlan](update)(throw _)
    case merge: MergeIntoTable => refused("MERGE", merge.targetTable).fold[LogicalPlan](merge)(throw _)
    case other => other
  }

  /** The target has no CHAR columns when Spark's rule looks for comparisons with them ([[DmlTarget]]). */
  private def padded(statement: LogicalPlan): LogicalPlan = statement.children.headOption.collect { case DmlTarget(relation, table) =>
    SparkInternals.withPaddedComparisons(statement, relation.output, table.tableSchema)
  }.getOrElse(statement)

  /** Why the rows of a target cannot be changed, if it is a view of a Delta table or a table of Parquet files. */
  private def refused(statement: String, target: LogicalPlan): Option[HeadwaterException] = target match {
    case ViewOf(table) => Some(ViewRefusal(statement, table, "view"))
    case ParquetTable(table) => Some(Refusals.notDelta(table, statement))
    case _ => None
  }

  /** The statement about the table where its target is a view. No value can be assigned to a column that the view computes. */
  private def throughView(statement: LogicalPlan): LogicalPlan = PendingView.inlined(statement).map { case (view, inlined) =>
    assignments(statement).zip(assignments(inlined)).find { case (_, about) => path(about.key).isEmpty }.foreach { case (written, _) =>
      val kind = if (statement.isInstanceOf[MergeIntoTable]) "MERGE" else "UPDATE"
      throw ViewRefusal(kind, view, "computed", Some(path(written.key).mkString(".")))
    }
    inlined
  }.getOrElse(statement)

  private def assignments(statement: LogicalPlan): Seq[Assignment] = statement.expressions.flatMap(_.collect {
    case assignment: Assignment => assignment
  })

  /** The names on the way to an assigned column or field; none if it is computed. */
  private def path(key: Expression): Seq[String] = key match {
    case column: AttributeReference => Seq(column.name)
    case field @ GetStructField(inner, _, _) => Some(path(inner)).filter(_.nonEmpty).map(_ :+ field.extractFieldName).getOrElse(Nil)
    case Alias(inner, _) => path(inner)
    case _ => Nil
  }

  private def clause(both: LogicalPlan, target: LogicalRelation, table: HeadwaterTable, evolves: Boolean, action: MergeAction): DmlClause =
    action match {
      case DeleteAction(condition) =>
        checked(both, condition)
        DmlClause("delete", condition)
      case update: UpdateAction =>
        checked(both, update.condition, update.assignments)
        updating(target, table, update.condition, update.assignments, MergeShim.isOfStar(update), evolves)
      case InsertAction(condition, assignments) =>
        checked(both, condition, assignments)
        val values = aligned(table, assignments, insert = true)(MergeShim.alignInsert(declared(target, table), _, evolves))
        DmlClause("insert", condition, values, assigned(assignments))
      case other => throw new IllegalStateException(s"an unresolved action: $other")
    }

  private def updating(
      target: LogicalRelation,
      table: HeadwaterTable,
      condition: Option[Expression],
      assignments: Seq[Assignment],
      fromStar: Boolean,
      coerce: Boolean): DmlClause = {
    // Spark ignores an assignment to a key that is none of these columns.
    assignments.map(_.key).find(key => !key.references.subsetOf(target.outputSet)).foreach { key =>
      throw new IllegalStateException(s"the column ${key.sql} of an assignment is none of ${table.name()}")
    }
    val values = aligned(table, assignments)(MergeShim.alignUpdate(declared(target, table), _, fromStar, coerce))
    DmlClause("update", condition, values, assigned(assignments))
  }

  /** The values. Spark's error for one that does not fit lacks the table's name, which is added. */
  private def aligned(table: HeadwaterTable, assignments: Seq[Assignment], insert: Boolean = false)(
      align: Seq[Assignment] => Seq[Assignment]): Seq[Expression] = {
    assignedTwice(assignments.map(assignment => path(assignment.key))).foreach { twice =>
      throw HeadwaterException(
        if (insert) "DELTA_DUPLICATE_COLUMNS_ON_INSERT" else "DELTA_CONFLICT_SET_COLUMN",
        "columnList" -> twice.map(SparkInternals.quoted).distinct.mkString(", "))
    }
    try StoreAssignment.values(conf, assignments.map(uncast))(align).zip(table.tableSchema).map { case (value, column) =>
        DeclaredLengthCheck.named(value match { case Alias(inner, _) => inner; case other => other }, column.name)
      }
    catch {
      case e: AnalysisException if e.getMessageParameters.containsKey("tableName") && e.getMessageParameters.get("tableName") == "``" =>
        throw new AnalysisException(e.getCondition, e.getMessageParameters.asScala.toMap.updated("tableName", table.name()))
    }
  }

  /** Two paths of which one is or leads to the other. Each path is looked at once: an `UPDATE SET *` may have thousands. */
  private def assignedTwice(paths: Seq[Seq[String]]): Option[Seq[Seq[String]]] = {
    val assigned, leadingTo = mutable.HashMap[Seq[String], Seq[String]]()
    paths.iterator.filter(_.nonEmpty).map { path =>
      val names = if (conf.caseSensitiveAnalysis) path else path.map(_.toLowerCase(Locale.ROOT))
      val ways = names.inits.filter(_.nonEmpty).toSeq
      val other = ways.flatMap(assigned.get).headOption.orElse(leadingTo.get(names))
      assigned(names) = path
      ways.tail.foreach(leadingTo.getOrElseUpdate(_, path))
      other.map(Seq(_, path))
    }.collectFirst { case Some(twice) => twice }
  }

  /** The target's columns with their CHAR and VARCHAR lengths. */
  private def declared(target: LogicalRelation, table: HeadwaterTable): Seq[Attribute] =
    target.output.zip(table.tableSchema).map { case (column, field) => column.withMetadata(field.metadata) }

  /** If all values are defaults, Spark has cast them already, by other rules than those of assignments; this takes the casts away. */
  private def uncast(assignment: Assignment): Assignment = assignment.value match {
    case cast: Cast if cast.getTagValue(Cast.BY_TABLE_INSERTION).isDefined => uncast(assignment.copy(value = cast.child))
    case AssertNotNull(value, Nil) => assignment.copy(value = value)
    case _ => assignment
  }

  private def assigned(assignments: Seq[Assignment]): Seq[String] =
    assignments.flatMap(_.key.references.headOption.map(_.name)).distinct

  /** Spark's own errors for what cannot be a condition or a value, and ours for what Spark would accept here. */
  private def checked(child: LogicalPlan, condition: Option[Expression], assignments: Seq[Assignment] = Nil): Unit = {
    // Spark's own check of a condition would call it a WHERE, which a MERGE has not.
    (condition ++ assignments.map(_.value)).foreach(_.foreach {
      case e @ (_: AggregateExpression | _: WindowExpression | _: Generator) =>
        throw HeadwaterException("DELTA_AGGREGATION_NOT_SUPPORTED", "expression" -> e.sql)
      case _ =>
    })
    // The check runs over a plain relation: Spark is not done with the source, and computes ORDER BY rand(), for example, in a later step.
    condition.foreach(c => SparkInternals.checkAnalysis(session, Filter(c, LocalRelation(child.output))))
  }
}

/** A view of a Delta table: its rows cannot be changed. */
private object ViewOf {
  def unapply(plan: LogicalPlan): Option[String] = EliminateSubqueryAliases(plan) match {
    case view: View if view.exists { case DmlTarget(_, _) => true; case r: LogicalRelation => SparkInternals.isOurs(r); case _ => false } =>
      Some(view.desc.identifier.unquotedString)
    case _ => None
  }
}

/** A table of the session catalog whose files are Parquet, and which is no Delta table. */
private object ParquetTable {
  def unapply(plan: LogicalPlan): Option[String] = EliminateSubqueryAliases(plan) match {
    case relation: LogicalRelation if !SparkInternals.isOurs(relation) =>
      relation.catalogTable.filter(_.provider.exists(_.equalsIgnoreCase("parquet"))).map(_.identifier.unquotedString)
    case _ => None
  }
}
