package headwater.spark.dml

import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, Nondeterministic, Predicate}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, CodeGenerator, ExprCode, FalseLiteral, TrueLiteral}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._

/**
 * `note_keys(k, …)`: true for every row, and adds the row's key to a [[KeySetAccumulator]]. A key that cannot be computed is no error: the
 * statement may never evaluate it.
 */
case class CollectKeys(children: Seq[Expression], keys: KeySetAccumulator) extends Predicate with Nondeterministic {
  override def nullable: Boolean = false
  override def prettyName: String = "note_keys"
  override protected def initializeInternal(partitionIndex: Int): Unit = ()

  override protected def evalInternal(input: InternalRow): Any = {
    try keys.put(children.map(_.eval(input).asInstanceOf[AnyRef]).toArray)
    catch { case NonFatal(_) => keys.giveUp() }
    true
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val keySet = ctx.addReferenceObj("keys", keys)
    val values = children.map(_.genCode(ctx))
    val boxed = values.zip(children).map { case (value, child) =>
      s"${value.isNull} ? null : (Object) ((${CodeGenerator.boxedType(child.dataType)}) ${value.value})"
    }
    val before = values.map(_.code).reduce(_ + _)
    ev.copy(
      code = code"try { $before\n$keySet.put(new Object[] {${boxed.mkString(", ")}}); } catch (RuntimeException e) { $keySet.giveUp(); }",
      isNull = FalseLiteral,
      value = TrueLiteral)
  }

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): CollectKeys = copy(children = newChildren)
}
