package org.apache.spark.sql.headwater

import java.util.{Arrays, List => JavaList}
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, Nondeterministic, Predicate}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodeGenerator, CodegenContext, ExprCode, FalseLiteral, TrueLiteral}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.types.Decimal
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.util.AccumulatorV2

/**
 * The distinct keys of the rows that passed by in a job's tasks, up to `most`; rows of tasks that failed may be among them. A key with a null
 * equals nothing and is left out. Heartbeats serialise it while tasks add to it.
 */
final class KeySet(most: Int) extends AccumulatorV2[JavaList[Any], Option[Seq[JavaList[Any]]]] {
  private val keys = ConcurrentHashMap.newKeySet[JavaList[Any]]()
  @volatile private var tooMany = false

  override def isZero: Boolean = keys.isEmpty && !tooMany
  override def copy(): KeySet = { val other = new KeySet(most); other.merge(this); other }
  override def reset(): Unit = { keys.clear(); tooMany = false }

  override def add(key: JavaList[Any]): Unit =
    if (!tooMany && keys.add(key) && keys.size > most) giveUp()

  override def merge(other: AccumulatorV2[JavaList[Any], Option[Seq[JavaList[Any]]]]): Unit =
    other.value match {
      case Some(theirs) => theirs.foreach(add)
      case None => giveUp()
    }

  /** All the keys; None where there were more than `most`, or one that has no text. */
  override def value: Option[Seq[JavaList[Any]]] = if (tooMany) None else Some(keys.iterator.asScala.toSeq)

  /** Notes a row's key, whose values are as Spark has them internally. */
  def put(values: Array[AnyRef]): Unit = if (!tooMany && !values.contains(null)) {
    val key = values.map(plain)
    if (key.contains(null)) giveUp() else add(Arrays.asList(key: _*))
  }

  /** A value that JSON keeps exactly; null where there is none. */
  private def plain(value: AnyRef): Any = value match {
    case number: Number => number.longValue
    case text: UTF8String if text.isValid => text.toString
    case decimal: Decimal => decimal.toJavaBigDecimal.toPlainString
    case _ => null
  }

  /** Notes that there are keys that are not known. */
  def giveUp(): Unit = { tooMany = true; keys.clear() }
}

object KeySet {
  def apply(session: SparkSession, most: Int): KeySet = {
    val keys = new KeySet(most)
    session.sparkContext.register(keys)
    keys
  }
}

/** True for every row, whose key it notes. A key that cannot be computed is no error: the statement may never ask for it. */
case class CollectKeys(children: Seq[Expression], keys: KeySet) extends Predicate with Nondeterministic {
  override def nullable: Boolean = false
  override def prettyName: String = "note_keys"
  override protected def initializeInternal(partitionIndex: Int): Unit = ()

  override protected def evalInternal(input: InternalRow): Any = {
    try keys.put(children.map(_.eval(input).asInstanceOf[AnyRef]).toArray) catch { case NonFatal(_) => keys.giveUp() }
    true
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val noted = ctx.addReferenceObj("keys", keys)
    val values = children.map(_.genCode(ctx))
    val boxed = values.zip(children).map { case (value, child) =>
      s"${value.isNull} ? null : (Object) ((${CodeGenerator.boxedType(child.dataType)}) ${value.value})"
    }
    val before = values.map(_.code).reduce(_ + _)
    ev.copy(code = code"try { $before\n$noted.put(new Object[] {${boxed.mkString(", ")}}); } catch (RuntimeException e) { $noted.giveUp(); }", isNull = FalseLiteral, value = TrueLiteral)
  }

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): CollectKeys = copy(children = newChildren)
}
