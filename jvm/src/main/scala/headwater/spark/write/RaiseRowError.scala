package headwater.spark.write

import headwater.spark.HeadwaterRowException
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, TernaryExpression}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode, FalseLiteral}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.types.{BooleanType, DataType}

/**
 * `raise_row_error(condition, state, text)` fails the statement when a row evaluates it. Its type is boolean so that it can be in a filter.
 */
case class RaiseRowError(first: Expression, second: Expression, third: Expression) extends TernaryExpression {
  override def dataType: DataType = BooleanType
  override def nullable: Boolean = false
  override def foldable: Boolean = false
  override lazy val deterministic: Boolean = false
  override def prettyName: String = "raise_row_error"

  override def eval(input: InternalRow): Any =
    throw RaiseRowError.error(first.eval(input), second.eval(input), third.eval(input))

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val (condition, state, text) = (first.genCode(ctx), second.genCode(ctx), third.genCode(ctx))
    val thrower = RaiseRowError.getClass.getName.stripSuffix("$")
    ev.copy(
      code = code"""
        ${condition.code}
        ${state.code}
        ${text.code}
        if (true) throw $thrower.error(${condition.value}, ${state.value}, ${text.value});
      """,
      isNull = FalseLiteral,
      value = FalseLiteral)
  }

  override protected def withNewChildrenInternal(a: Expression, b: Expression, c: Expression): Expression = copy(a, b, c)
}

object RaiseRowError {
  def error(condition: Any, state: Any, text: Any): HeadwaterRowException =
    new HeadwaterRowException(String.valueOf(condition), String.valueOf(state), String.valueOf(text), Map.empty)
}
