package headwater.spark.shims

import java.lang.reflect.InvocationTargetException

import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.exchange.{ShuffleExchangeExec, ShuffleOrigin}

/** Makes Spark's `ShuffleExchangeExec` under each of its signatures: 4.3 added a parameter with a default. */
object ShuffleExchangeShim {
  private val constructor = classOf[ShuffleExchangeExec].getConstructors.maxBy(_.getParameterCount)

  /** `bytes` is the size that adaptive execution gives the shuffle's partitions. */
  def apply(partitioning: Partitioning, child: SparkPlan, origin: ShuffleOrigin, bytes: Long): SparkPlan = {
    val known = Seq[AnyRef](partitioning, child, origin, Some(bytes))
    val defaults = (known.size + 1 to constructor.getParameterCount).map { position =>
      ShuffleExchangeExec.getClass.getMethod(s"apply$$default$$$position").invoke(ShuffleExchangeExec)
    }
    try constructor.newInstance(known ++ defaults: _*).asInstanceOf[SparkPlan]
    catch { case e: InvocationTargetException => throw e.getCause }
  }
}
