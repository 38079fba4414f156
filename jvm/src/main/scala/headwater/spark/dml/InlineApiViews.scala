package headwater.spark.dml

import scala.collection.mutable

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.{UnresolvedFunction, UnresolvedRelation}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.headwater.{DefaultTime, SparkInternals}

/**
 * Puts the pieces of a statement of the Python API in place before Spark resolves anything.
 *
 * The API passes DataFrames and Columns in a temporary view, `nothing × target × source WHERE named_struct(…) IS NOT NULL`, and names them
 * in the statement's text: the view as the source of MERGE, ``headwater_column('view', n)`` for the n-th field of the struct. The source is
 * put in place with the aliases inside it, a Column as [[ApiColumn]].
 */
case class InlineApiViews(session: SparkSession) extends Rule[LogicalPlan] {
  import InlineApiViews._

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
        ApiColumn(found.expressions(n), found.target.output, found.source.output)
      }
  }

  private def find(name: String): Option[Handed] =
    if (SparkInternals.sessionCatalog(session).getRawTempView(name).isEmpty) None
    else DefaultTime.within(None)(SparkInternals.logicalPlan(session.table(name))).collectFirst {
      case Filter(IsNotNull(struct: CreateNamedStruct), Pair(target, source)) => Handed(target, source, struct.valExprs)
      case Pair(target, source) => Handed(target, source, Nil)
    }
}

private[spark] object InlineApiViews {
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
