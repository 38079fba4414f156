package headwater.spark.layout

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode, FalseLiteral}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.types.{DataType, LongType}

/**
 * `z_order(bits, id, …)` and `hilbert(bits, id, …)`: the place on the curve ([[Curves]]) of a row with these coordinates, of so many bits
 * each. Coordinates are integers without nulls; all of their bits fit into 63.
 */
case class CurveKey(bits: Expression, ids: Seq[Expression], isHilbert: Boolean) extends Expression {
  override def children: Seq[Expression] = bits +: ids
  override def dataType: DataType = LongType
  override def nullable: Boolean = false
  override def prettyName: String = if (isHilbert) "hilbert" else "z_order"

  @transient private lazy val width = bits.eval().asInstanceOf[Int]

  override def eval(input: InternalRow): Any = of(ids.map(_.eval(input).asInstanceOf[Int]).toArray)

  /** The place of the coordinates, which may be changed. */
  def of(coordinates: Array[Int]): Long =
    if (isHilbert) Curves.hilbert(width, coordinates) else Curves.zOrder(width, coordinates)

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val curve = ctx.addReferenceObj("curve", this)
    val values = ids.map(_.genCode(ctx))
    val before = values.map(_.code).reduce(_ + _)
    ev.copy(
      code = code"$before\nlong ${ev.value} = $curve.of(new int[] {${values.map(_.value).mkString(", ")}});",
      isNull = FalseLiteral)
  }

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): CurveKey =
    copy(bits = newChildren.head, ids = newChildren.tail)
}
