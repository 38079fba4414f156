package headwater.spark.write

import headwater.spark.shims.ShuffleExchangeShim
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, RepartitionOperation}
import org.apache.spark.sql.catalyst.plans.physical.{HashPartitioning, Partitioning, SinglePartition}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.exchange.REBALANCE_PARTITIONS_BY_COL
import org.apache.spark.sql.internal.SQLConf

/**
 * Plans [[OptimizedWrite]] as a shuffle that adaptive execution splits and joins by size.
 *
 * The rows of a table without partitions also have one key. Spark splits the rows of a key by the tasks that they come from, so rows that
 * lie together before stay together, and files skip as well as they would without the shuffle; rows dealt out in turn would be everywhere.
 * `REBALANCE` would do the same, but takes either a number of partitions or a size: more table partitions than shuffle partitions would
 * share tasks, and each of these would write a file for each of them.
 *
 * Where the query itself shuffles its rows last ([[ShuffleOnce]]), that shuffle gets the size.
 */
object PlanOptimizedWrite extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case write: OptimizedWrite if OptimizedWrite.isOneTask(write.child) => planLater(write.child) :: Nil
    case OptimizedWrite(Nil, _, bytes, own: RepartitionOperation) if own.shuffle => shuffled(own.partitioning, own.child, bytes)
    case OptimizedWrite(Nil, _, bytes, child) => shuffled(HashPartitioning(Seq(SameForAllRows()), 2), child, bytes)
    case OptimizedWrite(keys, partitions, bytes, child) => shuffled(HashPartitioning(keys, partitions), child, bytes)
    case _ => Nil
  }

  /** A small job has no adaptive execution, and all its rows fit into one task. */
  private def shuffled(by: Partitioning, child: LogicalPlan, bytes: Long): Seq[SparkPlan] = {
    val partitioning = if (SQLConf.get.adaptiveExecutionEnabled) by else SinglePartition
    ShuffleExchangeShim(partitioning, planLater(child), REBALANCE_PARTITIONS_BY_COL, bytes) :: Nil
  }
}
