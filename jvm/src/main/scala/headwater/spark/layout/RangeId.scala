package headwater.spark.layout

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BinaryExpression, Expression}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, CodeGenerator, ExprCode, FalseLiteral}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.types.PhysicalDataType
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.types.{DataType, IntegerType}

/**
 * `range_id(value, bounds)`: how many of the bounds are not above the value, 0 for null. The bounds are a constant array of the value's
 * type in ascending order, nulls first, and a null is below every value.
 */
case class RangeId(left: Expression, right: Expression) extends BinaryExpression {
  override def dataType: DataType = IntegerType
  override def nullable: Boolean = false
  override def prettyName: String = "range_id"

  @transient private lazy val ordering = PhysicalDataType.ordering(left.dataType).asInstanceOf[Ordering[Any]]
  @transient private lazy val bounds: Array[Any] = right.eval() match {
    case array: ArrayData => array.toArray[Any](left.dataType)
    case _ => Array.empty[Any]
  }

  override def eval(input: InternalRow): Any = of(left.eval(input))

  /** The id of a value in Spark's internal form. */
  def of(value: Any): Int = if (value == null) 0
  else {
    var low = 0
    var high = bounds.length
    while (low < high) {
      val middle = (low + high) >>> 1
      val bound = bounds(middle)
      if (bound == null || ordering.compare(bound, value) <= 0) low = middle + 1 else high = middle
    }
    low
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val ids = ctx.addReferenceObj("ranges", this)
    val value = left.genCode(ctx)
    val boxed = CodeGenerator.boxedType(left.dataType)
    ev.copy(
      code = code"${value.code}\nint ${ev.value} = ${value.isNull} ? 0 : $ids.of((Object) (($boxed) ${value.value}));",
      isNull = FalseLiteral)
  }

  override protected def withNewChildrenInternal(value: Expression, constants: Expression): Expression = copy(value, constants)
}
