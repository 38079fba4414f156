package headwater.spark.scan.filters

import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.DataType

/** A column whose SQL is always quoted. Spark prints names such as `true` without quotes, and they would parse as something else. */
private case class QuotedColumn(name: String, dataType: DataType) extends LeafExpression with Unevaluable {
  override def nullable: Boolean = true
  override def sql: String = "`" + name.replace("`", "``") + "`"
}

/** A filter as Spark SQL over column names without qualifiers; none if SQL cannot express a part of it. */
object FilterText {
  /** With timestamp literals in the session's time zone, as the user would write them. */
  def of(filter: Expression): Option[String] =
    if (filter.exists(e => e.isInstanceOf[PlanExpression[_]] || e.isInstanceOf[LambdaFunction] || !e.deterministic)) None
    else try Some(unfolded(filter).transform { case a: AttributeReference => QuotedColumn(a.name, a.dataType) }.sql)
    catch { case NonFatal(_) => None }

  /**
   * Replaces functions such as BETWEEN with what they stand for. They keep their arguments beside it, where rules do not see the columns.
   */
  def unfolded(e: Expression): Expression = e match {
    case function: RuntimeReplaceable => unfolded(function.replacement)
    case With(child, definitions) =>
      unfolded(child.transform { case ref: CommonExpressionRef => definitions.find(_.id == ref.id).map(_.child).getOrElse(ref) })
    case other => other.mapChildren(unfolded)
  }
}
