package headwater.spark.write

import headwater.spark.shims.ShuffleExchangeShim
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.exchange.REBALANCE_PARTITIONS_BY_COL
import org.apache.spark.sql.internal.SQLConf

/**
 * Plans [[OptimizedWrite]] as a shuffle that adaptive execution splits and joins by size.
 *
 * The rows of a table without partitions have one key, too. Spark splits the rows of a key by the tasks that they come from, so rows that
 * lie together before stay together, and files skip as well as they would without the shuffle; rows dealt out in turn would be everywhere.
 * `REBALANCE` would do the same, but takes either a number of partitions or a size: more table partitions than shuffle partitions would
 * share tasks, and each of these would write a file for each of them.
 */
object PlanOptimizedWrite extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case write: OptimizedWrite if OptimizedWrite.isOneTask(write.child) => planLater(write.child) :: Nil
    case write: OptimizedWrite =>
      val keys = if (write.keys.isEmpty) Seq(SameForAllRows()) else write.keys
      // A small job has no adaptive execution, and all its rows fit into one task.
      val tasks = if (!SQLConf.get.adaptiveExecutionEnabled) 1 else if (write.keys.isEmpty) 2 else write.partitions
      ShuffleExchangeShim(HashPartitioning(keys, tasks), planLater(write.child), REBALANCE_PARTITIONS_BY_COL, write.bytes) :: Nil
    case _ => Nil
  }
}
