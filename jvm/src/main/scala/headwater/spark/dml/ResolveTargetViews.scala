package headwater.spark.dml

import scala.util.Try

import headwater.spark.catalog.{HeadwaterTable, Refusals}
import headwater.spark.scan.tables.HeadwaterFileIndex
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.{PlanWithUnresolvedIdentifier, UnresolvedRelation}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.headwater.{DefaultTime, SparkInternals}
import org.apache.spark.sql.headwater.dml.VariableResolver

/**
 * Lets DELETE, UPDATE and MERGE change a Delta table through a temporary view of all its rows: the view chooses and renames columns, and
 * may have computed ones. Any other temporary view over Delta tables is refused. It looks before Spark resolves anything, because Spark
 * would resolve assignments to a view by rules of its own.
 */
case class ResolveTargetViews(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case delete: DeleteFromTable => found("DELETE", delete.table).map(target => delete.copy(table = target)).getOrElse(delete)
    case update: UpdateTable => found("UPDATE", update.table).map(target => update.copy(table = target)).getOrElse(update)
    case merge: MergeIntoTable => found("MERGE", merge.targetTable, merge.withSchemaEvolution || SparkInternals.autoMerge(session)).map(
        target => merge.copy(targetTable = target)).getOrElse(merge)
    case other => other
  }

  private def found(statement: String, target: LogicalPlan, evolves: Boolean = false): Option[LogicalPlan] = target match {
    case alias: SubqueryAlias => found(statement, alias.child, evolves).map(inner => alias.copy(child = inner))
    case named: PlanWithUnresolvedIdentifier =>
      name(named.identifierExpr).flatMap(parts => found(statement, named.planBuilder(parts, named.children), evolves))
    case relation: UnresolvedRelation if SparkInternals.isTemporaryView(session, relation.multipartIdentifier) =>
      val view = DefaultTime.within(None)(SparkInternals.analyzed(session, relation))
      if (!view.exists { case relation: LogicalRelation => SparkInternals.isOurs(relation); case _ => false }) None
      else {
        val target = pending(statement, relation.multipartIdentifier, view)
        val table = DmlTarget.unapply(target.columns.child).get._2
        if (evolves && isWholeTable(target))
          Some(SubqueryAlias(relation.multipartIdentifier.last, relation.copy(multipartIdentifier = nameOf(table))))
        else Some(target)
      }
    case _ => None
  }

  /** The name that the expression of an `IDENTIFIER(…)` has; None where Spark has an error for it. */
  private def name(expression: Expression): Option[Seq[String]] = Try {
    val query = SparkInternals.analyzed(session, Project(Seq(Alias(expression, "name")()), OneRowRelation()))
    VariableResolver.withVariableValues(PendingView.valueOf(query.asInstanceOf[Project].projectList.head)).eval().toString
  }.toOption.map(SparkInternals.parsedName(session, _))

  /** Whether a view has all columns of the table, and no others, under their names: it can have those that the table gets. */
  private def isWholeTable(view: PendingView): Boolean = {
    val names = view.columns.projectList.map(column => (column.name, PendingView.valueOf(column)))
    names.size == view.columns.child.output.size && names.zip(view.columns.child.output).forall {
      case ((name, value), column) => name == column.name && PendingView.column(value).exists(_.exprId == column.exprId)
    }
  }

  private def nameOf(table: HeadwaterTable): Seq[String] =
    table.catalogTable.map(entry => entry.identifier.catalog.getOrElse("spark_catalog") +: entry.identifier.nameParts.takeRight(2))
      .getOrElse(Seq("delta", table.path))

  private def pending(statement: String, name: Seq[String], view: LogicalPlan): PendingView = {
    def refuse(kind: String) = throw ViewRefusal(statement, name.mkString("."), kind)
    val (relation, values) = columns(view).fold(refuse, identity)
    val table = relation.relation match {
      case HadoopFsRelation(index: HeadwaterFileIndex, _, _, _, _, _) if index.isWholeTable =>
        if (!index.live) throw Refusals.oldVersion(index.path)
        HeadwaterTable.load(session, index.tableLocation, catalogTable = relation.catalogTable)
      case _ => refuse("rows")
    }
    val target = DmlTarget(table, Nil)
    val resolver = SparkInternals.conf(session).resolver
    val known = relation.output.flatMap(old => target.output.find(column => resolver(column.name, old.name)).map(old.exprId -> _)).toMap
    def current(value: Expression) = value.transform { case old: AttributeReference => known.getOrElse(old.exprId, refuse("columns")) }
    PendingView(name, Project(view.output.map(column => Alias(current(values(column.exprId)), column.name)()), target))
  }

  /** The relation under a view and the value of each column over it, or why there is none such: `view`, `filter` or `rows`. */
  private def columns(plan: LogicalPlan): Either[String, (LogicalRelation, Map[ExprId, Expression])] = plan match {
    case relation: LogicalRelation if SparkInternals.isOurs(relation) =>
      scala.Right(relation -> relation.output.map(column => column.exprId -> column).toMap)
    case SubqueryAlias(_, child) => columns(child)
    case view: View if view.isTempView => columns(view.child)
    case _: View => scala.Left("view")
    case Project(list, child) if list.forall(isOfOneRow) =>
      columns(child).map { case (relation, known) =>
        relation -> list.map(column =>
          column.exprId -> uncast(PendingView.valueOf(column).transform {
            case inner: AttributeReference => known.getOrElse(inner.exprId, inner)
          })).toMap
      }
    case Filter(_, child) => columns(child).flatMap(_ => scala.Left("filter"))
    case _ => scala.Left("rows")
  }

  private def isOfOneRow(column: Expression): Boolean =
    column.deterministic && !column.exists { case _: WindowExpression | _: Generator | _: PlanExpression[_] => true; case _ => false }

  /** Spark casts the columns of a view to the types that they had when it was created. */
  private def uncast(value: Expression): Expression = value match {
    case cast: Cast if SparkInternals.isSameType(cast.child.dataType, cast.dataType) => cast.child
    case other => other
  }
}
