package headwater.spark.dml

import java.util.{Arrays, List => JavaList}
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.types.Decimal
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.util.AccumulatorV2

/**
 * The distinct keys of the rows that passed by in a job's tasks, up to `most`; rows of tasks that failed may be among them. A key with a null
 * equals nothing and is left out. Heartbeats serialise it while tasks add to it.
 */
final class KeySetAccumulator(most: Int) extends AccumulatorV2[JavaList[Any], Option[Seq[JavaList[Any]]]] {
  private val keys = ConcurrentHashMap.newKeySet[JavaList[Any]]()
  @volatile private var tooMany = false

  override def isZero: Boolean = keys.isEmpty && !tooMany
  override def copy(): KeySetAccumulator = { val other = new KeySetAccumulator(most); other.merge(this); other }
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

object KeySetAccumulator {
  def apply(session: SparkSession, most: Int): KeySetAccumulator = {
    val keys = new KeySetAccumulator(most)
    session.sparkContext.register(keys)
    keys
  }
}
