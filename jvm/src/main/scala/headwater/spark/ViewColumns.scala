package headwater.spark

import scala.collection.mutable

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.{Resolver, UnresolvedAttribute, UnresolvedException, UnresolvedFunction, UnresolvedRelation}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types.DataType

/**
 * The Python API hands DataFrames and Columns over in a temporary view of theirs, `nothing × target × source WHERE named_struct(…) IS NOT
 * NULL`, and names them in the statement's text: the view as the source of MERGE, ``headwater_column('view', n)`` for the n-th field of the
 * struct. This puts them in place before Spark resolves anything: the source with the aliases inside it, the Columns as [[ViewColumn]].
 */
case class TakeFromViews(session: SparkSession) extends Rule[LogicalPlan] {
  import TakeFromViews._

  override def apply(plan: LogicalPlan): LogicalPlan = {
    val views = mutable.HashMap.empty[String, Option[Handed]]
    def view(name: String) = views.getOrElseUpdate(name, find(name))
    plan match {
      case merge @ MergeIntoTable(_, UnresolvedRelation(Seq(name), _, _), _, _, _, _, _) if name.startsWith(Prefix) =>
        columns(view(name).fold(merge)(found => merge.copy(sourceTable = found.source)), view)
      case _: MergeIntoTable | _: UpdateTable | _: DeleteFromTable => columns(plan, view)
      case other => other
    }
  }

  private def columns(statement: LogicalPlan, view: String => Option[Handed]): LogicalPlan = statement.transformExpressions {
    case call @ UnresolvedFunction(Seq(Function), Seq(Literal(name, _), Literal(n: Int, _)), _, _, _, _, _) =>
      view(name.toString).filter(n < _.expressions.size).fold[Expression](call) { found =>
        ViewColumn(found.expressions(n), found.target.output, found.source.output)
      }
  }

  private def find(name: String): Option[Handed] =
    if (SparkInternals.sessionCatalog(session).getRawTempView(name).isEmpty) None
    else SparkInternals.logicalPlan(session.table(name)).collectFirst {
      case Filter(IsNotNull(struct: CreateNamedStruct), Pair(target, source)) => Handed(target, source, struct.valExprs)
      case Pair(target, source) => Handed(target, source, Nil)
    }
}

private object TakeFromViews {
  val Prefix = "__headwater_"
  val Function = "headwater_column"

  case class Handed(target: LogicalPlan, source: LogicalPlan, expressions: Seq[Expression])

  object Pair {
    def unapply(plan: LogicalPlan): Option[(LogicalPlan, LogicalPlan)] = plan match {
      case Join(Join(_, target, _, _, _), source, _, _, _) => Some((target, source))
      case _ => None
    }
  }
}

/** A Column of the Python API, resolved over a target and a source that are the statement's in all but the identity of their attributes. */
case class ViewColumn(expression: Expression, target: Seq[Attribute], source: Seq[Attribute]) extends LeafExpression with Unevaluable {
  override lazy val resolved: Boolean = false
  override def dataType: DataType = throw new UnresolvedException("dataType")
  override def nullable: Boolean = throw new UnresolvedException("nullable")
  override def toString: String = expression.toString
  override def sql: String = expression.sql

  /** The names on the way to the source's column or field that this is, None where it is something else. */
  def sourcePath: Option[Seq[String]] = ViewColumn.path(expression, AttributeSet(source))

  /**
   * The Column over the attributes of the statement. Those of the target are found by name, as its schema may have changed since; what is
   * not found stays to be resolved, for the error Spark has for that.
   */
  def over(newTarget: Seq[Attribute], newSource: Seq[Attribute], resolver: Resolver): Expression = {
    val found = AttributeMap(
      target.flatMap(old => newTarget.find(a => resolver(a.name, old.name)).map(old -> _)) ++ source.zip(newSource))
    expression.transform {
      case a: AttributeReference => found.getOrElse(a, UnresolvedAttribute(a.qualifier :+ a.name))
      case subquery: SubqueryExpression => subquery.withNewPlan(AnalysisHelper.allowInvokingTransformsInAnalyzer {
        subquery.plan.transformAllExpressionsWithSubqueries { case OuterReference(a: Attribute) => OuterReference(found.getOrElse(a, a)) }
      })
    }
  }
}

private object ViewColumn {
  private def path(expression: Expression, source: AttributeSet): Option[Seq[String]] = expression match {
    case a: Attribute if source.contains(a) => Some(Seq(a.name))
    case field: GetStructField => path(field.child, source).map(_ :+ field.extractFieldName)
    case Alias(child, _) => path(child, source)
    case _ => None
  }
}

/** Gives [[ViewColumn]]s the attributes of their statement, once its tables are resolved and its target has the columns it will have. */
case class ResolveViewColumns(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case merge: MergeIntoTable if isReady(merge.targetTable) && merge.sourceTable.resolved =>
      fill(merge, merge.targetTable.output, merge.sourceTable.output)
    case update: UpdateTable if isReady(update.table) => fill(update, update.table.output, Nil)
    case delete: DeleteFromTable if isReady(delete.table) => fill(delete, delete.table.output, Nil)
    case other => other
  }

  private def isReady(target: LogicalPlan): Boolean = target.resolved && PendingTarget.unapply(target).isEmpty

  private def fill(statement: LogicalPlan, target: Seq[Attribute], source: Seq[Attribute]): LogicalPlan =
    statement.transformExpressions { case column: ViewColumn => column.over(target, source, conf.resolver) }
}
