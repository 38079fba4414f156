package headwater.spark.dml

import java.util.{Arrays, List => JavaList}
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.types.Decimal
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.util.AccumulatorV2

/**
 * The distinct keys of the rows of a job, up to `most`. Rows of failed tasks may be among them. A key with a null equals nothing and is
 * left out. It is thread-safe: heartbeats serialize it while tasks add to it.
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

  /** All keys; None if there are more than `most`, or one that JSON cannot express. */
  override def value: Option[Seq[JavaList[Any]]] = if (tooMany) None else Some(keys.iterator.asScala.toSeq)

  /** Adds a row's key, given by Catalyst's internal values. */
  def put(values: Array[AnyRef]): Unit = if (!tooMany && !values.contains(null)) {
    val key = values.map(plain)
    if (key.contains(null)) giveUp() else add(Arrays.asList(key: _*))
  }

  /** The value as JSON can express it exactly; null if it cannot. */
  private def plain(value: AnyRef): Any = value match {
    case number: Number => number.longValue
    case text: UTF8String if text.isValid => text.toString
    case decimal: Decimal => decimal.toJavaBigDecimal.toPlainString
    case _ => null
  }

  /** Records that some keys are unknown. */
  def giveUp(): Unit = { tooMany = true; keys.clear() }
}

object KeySetAccumulator {
  def apply(session: SparkSession, most: Int): KeySetAccumulator = {
    val keys = new KeySetAccumulator(most)
    session.sparkContext.register(keys)
    keys
  }
}
