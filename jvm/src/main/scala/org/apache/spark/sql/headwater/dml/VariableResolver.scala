package org.apache.spark.sql.headwater.dml

import scala.util.Try

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
    case name: UnresolvedAttribute if isDefault(name) => expression
    case known if known.resolved => known
    case unknown => resolveExpressionByPlanOutput(unknown, scope, includeLastResort = true) match {
        case Alias(child, _) if !unknown.isInstanceOf[Alias] => child
        case other => other
      }
  }

  /**
   * The first name in an expression that nothing has. Those that Spark has an error of its own for, and those of DataFrames, do not count.
   */
  def unresolved(expression: Expression, scope: LogicalPlan): Option[UnresolvedAttribute] = expression.collectFirst {
    case name: UnresolvedAttribute
        if !isDefault(name) && name.getTagValue(LogicalPlan.PLAN_ID_TAG).isEmpty && isUnknown(name, scope) => name
  }

  private def isUnknown(name: UnresolvedAttribute, scope: LogicalPlan): Boolean =
    Try(scope.resolve(name.nameParts, conf.resolver)).toOption.exists(_.isEmpty) && !resolve(name, scope).resolved

  private def isDefault(name: UnresolvedAttribute): Boolean = name.nameParts.size == 1 && name.nameParts.head.equalsIgnoreCase("DEFAULT")
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

  private def evaluable(expression: Expression): Expression = expression.transformUp { case replaceable: RuntimeReplaceable =>
    replaceable.replacement
  }

  private val value: PartialFunction[Expression, Expression] = {
    case variable: VariableReference if variable.canFold => variable.varDef.currentValue
  }
}
