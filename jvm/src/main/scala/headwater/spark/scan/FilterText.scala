package headwater.spark.scan

import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.DataType

/** A column whose text is always quoted: Spark leaves quotes out around names such as `true`, which then read as something else. */
private case class QuotedColumn(name: String, dataType: DataType) extends LeafExpression with Unevaluable {
  override def nullable: Boolean = true
  override def sql: String = "`" + name.replace("`", "``") + "`"
}

/** A filter as Spark SQL text over bare column names; none where a part cannot be written as SQL. */
object FilterText {
  /** With timestamp literals in UTC. */
  def inUtc(filter: Expression): Option[String] = {
    val conf = SQLConf.get.clone()
    conf.setConfString(SQLConf.SESSION_LOCAL_TIMEZONE.key, "UTC")
    SQLConf.withExistingConf(conf)(of(filter))
  }

  /** With timestamp literals in the session's time zone, as its user would write them. */
  def of(filter: Expression): Option[String] =
    if (filter.exists(e => e.isInstanceOf[PlanExpression[_]] || e.isInstanceOf[LambdaFunction] || !e.deterministic)) None
    else try Some(unfolded(filter).transform { case a: AttributeReference => QuotedColumn(a.name, a.dataType) }.sql) catch { case NonFatal(_) => None }

  /** What functions such as BETWEEN stand for. They keep what they were called with beside it, whose columns nobody else sees. */
  def unfolded(e: Expression): Expression = e match {
    case function: RuntimeReplaceable => unfolded(function.replacement)
    case With(child, definitions) =>
      unfolded(child.transform { case ref: CommonExpressionRef => definitions.find(_.id == ref.id).map(_.child).getOrElse(ref) })
    case other => other.mapChildren(unfolded)
  }
}
