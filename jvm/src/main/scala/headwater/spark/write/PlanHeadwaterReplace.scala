package headwater.spark.write

import headwater.spark.HeadwaterException
import headwater.spark.bridge.{Bridge, SchemaText, StoreOptions}
import headwater.spark.bridge.messages.{ReplaceTargetAnswer, ReplaceTargetRequest}
import headwater.spark.catalog.HeadwaterTable
import headwater.spark.dml.{DmlClause, DmlPieces, DmlTarget}
import org.apache.spark.sql.{AnalysisException, SparkSession}
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.plans.Inner
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.headwater.bridge.QueryCompiler
import org.apache.spark.sql.headwater.dml.VariableResolver

/**
 * Turns an overwrite with [[ReplaceCriteria]], or with a writer's options that ask for the same, into the command that the handler runs.
 * The condition is over the table and the query's own columns; the values are the query's columns as an INSERT matches and casts them.
 */
case class PlanHeadwaterReplace(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsDown {
    case ReplacingOverwrite(overwrite, relation, loaded) if overwrite.query.resolved =>
      val asked = ResolveHeadwaterWrites.options(overwrite, relation)
      val table = loaded.reachedWith(asked)
      table.requireLatest()
      val criteria = overwrite.deleteExpr match {
        case criteria: ReplaceCriteria => Some(criteria)
        case _ => None
      }
      val name = relation.catalog.toSeq.map(_.name()) ++ relation.identifier.toSeq.flatMap(i => i.namespace() :+ i.name())
      PlanHeadwaterReplace.command(
        session,
        table,
        name,
        overwrite.query,
        criteria,
        StoreOptions.others(asked),
        overwrite.isByName,
        isSql = overwrite.origin.sqlText.isDefined)
  }
}

object PlanHeadwaterReplace {
  /**
   * @param name what the columns of the table may be qualified with, where it has no alias
   * @param criteria None if the options have them
   */
  def command(
      session: SparkSession,
      table: HeadwaterTable,
      name: Seq[String],
      rows: LogicalPlan,
      criteria: Option[ReplaceCriteria],
      options: Map[String, String],
      byName: Boolean,
      casts: Boolean = true,
      isSql: Boolean = false): HeadwaterReplaceCommand = {
    val asGiven = VariableResolver.withVariableValues(rows)
    val answer = Bridge.call(
      session,
      ReplaceTargetRequest(
        table = table.path,
        name = table.name(),
        version = table.snapshotVersion,
        tableId = table.info.tableId,
        source = SparkInternals.rowSchema(asGiven.schema),
        byName = byName,
        using = criteria.map(_.using).getOrElse(Nil),
        hasCondition = criteria.exists(_.on.isDefined),
        isSql = isSql,
        options = options),
      table.location)
    val query = asStored(session, asGiven, answer)
    val seen =
      answer.target.map(new HeadwaterTable(session, table.path, table.asked, table.catalogTable, _, table.store)).getOrElse(table)
    val target = DmlTarget(seen, Nil)
    val expected = SparkInternals.attributes(SchemaText.read(answer.columns))
    val inserted = values(SparkInternals.resolveOutput(session, table.name(), expected, query, byName, casts), query)
    val assigned = expected.map(_.name.toLowerCase).zip(inserted).toMap
    val clause = DmlClause(
      "insert",
      None,
      values = target.output.map(column => assigned.getOrElse(column.name.toLowerCase, Literal(null, column.dataType))),
      assigned = expected.map(_.name))
    val alias = criteria.flatMap(_.alias).orElse(answer.alias).map(Seq(_)).getOrElse(name)
    // A condition means the columns that the table has, not those that the rows bring.
    val known = target.output.filter(column => table.tableSchema.exists(_.name == column.name))
    val own = if (answer.target.isEmpty) target else Project(known, target)
    val aliased = if (alias.isEmpty) own else SubqueryAlias(alias, own)
    val condition = matching(session, Join(aliased, query, Inner, None, JoinHint.NONE), asked(session, criteria, answer, target, query))
    val pieces = DmlPieces(target, Some(query), Some(condition), matched = Seq(DmlClause("delete", None)), notMatched = Seq(clause))
    HeadwaterReplaceCommand(seen, pieces, answer.using, answer.condition, options)
  }

  /** The rows with values as they are stored, so that a condition sees these. */
  private def asStored(session: SparkSession, rows: LogicalPlan, answer: ReplaceTargetAnswer): LogicalPlan =
    if (answer.storedOtherwise.isEmpty) rows
    else {
      val columns = rows.output.zipWithIndex.map { case (column, position) =>
        if (!answer.storedOtherwise.contains(position)) column
        else {
          val value = QueryCompiler.parseComposed(session, answer.storedAs).transform { case _: UnresolvedAttribute => column }
          Alias(value, column.name)(qualifier = column.qualifier)
        }
      }
      SparkInternals.analyzed(session, Project(columns, rows))
    }

  /** The columns of rows that Spark has matched, as expressions over the query. */
  private def values(matched: LogicalPlan, query: LogicalPlan): Seq[Expression] = matched match {
    case Project(columns, `query`) => columns.map { case Alias(value, _) => value; case column => column }
    case other => other.output
  }

  private def asked(
      session: SparkSession,
      criteria: Option[ReplaceCriteria],
      answer: ReplaceTargetAnswer,
      target: LogicalPlan,
      query: LogicalPlan): Expression =
    criteria.flatMap(_.on).orElse(answer.condition.map(QueryCompiler.parse(session, _))).getOrElse {
      answer.targetKeys.zip(answer.sourceKeys).map { case (mine, its) =>
        EqualTo(target.output(mine), query.output(its)): Expression
      }.reduce(And)
    }

  /** A condition as Spark resolves it over the table's columns and the query's. */
  private def matching(session: SparkSession, both: LogicalPlan, asked: Expression): Expression = {
    def refuse(condition: String, name: String, near: String = null) =
      throw HeadwaterException(condition, "columnNames" -> name, "near" -> Option(near).filter(_.nonEmpty).getOrElse("none"))
    val resolved = try SparkInternals.analyzed(session, Filter(asked, both))
    catch {
      case e: AnalysisException if e.getCondition == "AMBIGUOUS_REFERENCE" =>
        val names = e.getMessageParameters
        refuse("DELTA_INSERT_REPLACE_ON_AMBIGUOUS_COLUMNS_IN_CONDITION", names.get("name"), names.get("referenceNames"))
      case e: AnalysisException if Option(e.getCondition).exists(_.startsWith("UNRESOLVED_COLUMN")) =>
        val names = e.getMessageParameters
        refuse("DELTA_INSERT_REPLACE_ON_UNRESOLVED_COLUMNS_IN_CONDITION", names.get("objectName"), names.get("proposal"))
    }
    val condition = resolved.collectFirst { case Filter(condition, _: Join) => VariableResolver.withVariableValues(condition) }
      .getOrElse(throw new IllegalStateException(s"no condition in $resolved"))
    condition.foreach {
      case e @ (_: AggregateExpression | _: WindowExpression | _: Generator) =>
        throw HeadwaterException("DELTA_AGGREGATION_NOT_SUPPORTED", "expression" -> e.sql)
      case e if !e.deterministic && e.children.forall(_.deterministic) => refuse("DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED", e.sql)
      case _ =>
    }
    condition
  }
}
