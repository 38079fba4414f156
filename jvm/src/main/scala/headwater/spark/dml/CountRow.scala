package headwater.spark.dml

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{LeafExpression, Nondeterministic, Predicate}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode, FalseLiteral, TrueLiteral}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._

/** `count_row()`: true for every row, and counts it. */
case class CountRow(counter: RowCounter) extends LeafExpression with Predicate with Nondeterministic {
  override def nullable: Boolean = false
  override def prettyName: String = "count_row"
  override protected def initializeInternal(partitionIndex: Int): Unit = counter.begin()
  override protected def evalInternal(input: InternalRow): Any = { counter.count(); true }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val counting = ctx.addReferenceObj("counter", counter)
    ctx.addPartitionInitializationStatement(s"$counting.begin();")
    ev.copy(code = code"$counting.count();", isNull = FalseLiteral, value = TrueLiteral)
  }
}
