package headwater.spark.dml

import headwater.spark.write.PositionSet
import org.apache.spark.sql.catalyst.expressions.{Expression, Predicate, UnaryExpression}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}

/** `is_matched(n)`: whether the n-th row of a MERGE's source found a match in the job before. */
case class IsMatched(child: Expression, rows: PositionSet) extends UnaryExpression with Predicate {
  override def nullIntolerant: Boolean = true
  override def prettyName: String = "is_matched"
  override protected def stringArgs: Iterator[Any] = Iterator(child)
  override protected def nullSafeEval(input: Any): Any = rows.contains(input.asInstanceOf[Long])

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val set = ctx.addReferenceObj("matched", rows)
    defineCodeGen(ctx, ev, row => s"$set.contains($row)")
  }

  override protected def withNewChildInternal(newChild: Expression): Expression = copy(child = newChild)
}
