package org.apache.spark.sql.headwater.dml

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.{ColumnResolutionHelper, UnresolvedAttribute}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.connector.catalog.CatalogManager

/**
 * Resolves names of a statement as Spark does those of a query: columns of the scope, literal functions as `current_date`, then the variables
 * of the session and of the script that runs.
 */
class VariableResolver(session: SparkSession) extends ColumnResolutionHelper {
  private val state = session.asInstanceOf[ClassicSession].sessionState
  override def conf = state.conf
  override val catalogManager: CatalogManager = state.catalogManager

  /** The expression with what is known of its names; `DEFAULT` alone in the place of a value stays, as does what Spark has an error for. */
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
  /** The plan with the values its variables have now, at every depth: what is captured of a statement is printed, optimised and run again later. */
  def valued(plan: LogicalPlan): LogicalPlan = plan.transformAllExpressionsWithSubqueries(value)

  def valued(expression: Expression): Expression = expression.transform(value)

  /** The same, with the values of lambdas that are about no column: Spark does not fold them, and their text cannot be parsed. */
  def folded(expression: Expression): Expression = valued(expression).transformDown {
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
