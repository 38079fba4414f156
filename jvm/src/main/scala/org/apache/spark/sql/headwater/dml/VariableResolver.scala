package org.apache.spark.sql.headwater.dml

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.{ColumnResolutionHelper, UnresolvedAttribute}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.connector.catalog.CatalogManager

/**
 * Resolves the names in a statement's expressions as Spark does in a query: columns of the scope, then literal functions such as
 * `current_date`, then variables of the session and of the running script.
 */
class VariableResolver(session: SparkSession) extends ColumnResolutionHelper {
  private val state = session.asInstanceOf[ClassicSession].sessionState
  override def conf = state.conf
  override val catalogManager: CatalogManager = state.catalogManager

  /** Resolves what it can. `DEFAULT` as a whole value stays, as does a name that Spark has an error for. */
  def resolve(expression: Expression, scope: LogicalPlan): Expression = expression match {
    case UnresolvedAttribute(Seq(name)) if name.equalsIgnoreCase("DEFAULT") => expression
    case known if known.resolved => known
    case unknown => resolveExpressionByPlanOutput(unknown, scope, includeLastResort = true) match {
      case Alias(child, _) if !unknown.isInstanceOf[Alias] => child
      case other => other
    }
  }
}

object VariableResolver {
  /** Replaces variables with their current values, at every depth: the statement's pieces are printed, optimized and run later. */
  def withVariableValues(plan: LogicalPlan): LogicalPlan = plan.transformAllExpressionsWithSubqueries(value)

  def withVariableValues(expression: Expression): Expression = expression.transform(value)

  /** The same; also evaluates higher-order functions without columns, which Spark does not fold and whose SQL does not parse. */
  def folded(expression: Expression): Expression = withVariableValues(expression).transformDown {
    case function: HigherOrderFunction if isConstant(function) => Literal.create(evaluable(function).eval(), function.dataType)
  }

  private def isConstant(function: HigherOrderFunction): Boolean = {
    val bound = function.collect { case lambda: LambdaFunction => lambda.arguments.map(_.exprId) }.flatten.toSet
    function.deterministic && !function.exists {
      case variable: NamedLambdaVariable => !bound(variable.exprId)
      case _: Attribute | _: PlanExpression[_] => true
      case _ => false
    }
  }

  private def evaluable(expression: Expression): Expression = expression.transformUp { case replaceable: RuntimeReplaceable => replaceable.replacement }

  private val value: PartialFunction[Expression, Expression] = { case variable: VariableReference if variable.canFold => variable.varDef.currentValue }
}
