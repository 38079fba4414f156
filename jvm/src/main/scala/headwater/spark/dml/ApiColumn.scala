package headwater.spark.dml

import org.apache.spark.sql.catalyst.analysis.{Resolver, UnresolvedAttribute, UnresolvedException}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.types.DataType

/**
 * A Column of the Python API. It is resolved, but over a target and a source whose attributes have other ids than those of the statement.
 */
case class ApiColumn(expression: Expression, target: Seq[Attribute], source: Seq[Attribute]) extends LeafExpression with Unevaluable {
  override lazy val resolved: Boolean = false
  override def dataType: DataType = throw new UnresolvedException("dataType")
  override def nullable: Boolean = throw new UnresolvedException("nullable")
  override def toString: String = expression.toString
  override def sql: String = expression.sql

  /**
   * The Column over the statement's attributes. Those of the target are found by name, as its schema may have changed since. What is not
   * found stays unresolved, so that Spark raises its own error.
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
