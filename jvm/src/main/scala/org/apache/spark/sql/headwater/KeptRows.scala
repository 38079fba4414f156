package org.apache.spark.sql.headwater

import headwater.spark.shims.LogicalRddShim
import org.apache.spark.{Partition, SparkContext, SparkEnv, TaskContext}
import org.apache.spark.rdd.{BlockRDD, BlockRDDPartition, RDD}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.{Dataset, SparkSession => ClassicSession}
import org.apache.spark.storage.{BlockId, RDDBlockId, StorageLevel}

/**
 * Rows of a query, kept for one statement: however often they are read, they are the same, and come in the same order. They are kept as rows,
 * not as Spark's cache keeps tables, by columns and compressed, which takes longer than they are kept for.
 *
 * Within one process they are computed when they are first read. With executors in other processes they are computed before, once: see
 * [[BlocksOfTasks]].
 */
final class KeptRows private (val relation: LogicalPlan, remove: () => Unit) {
  def drop(): Unit = remove()
}

object KeptRows {
  def apply(session: SparkSession, plan: LogicalPlan): KeptRows = {
    val classic = session.asInstanceOf[ClassicSession]
    val execution = Dataset.ofRows(classic, plan).queryExecution
    val computed = execution.toRdd.map(_.copy())
    val (rows, remove) =
      if (classic.sparkContext.isLocal) {
        val rows = computed.persist(StorageLevel.MEMORY_AND_DISK)
        (rows, () => { rows.unpersist(blocking = false); () })
      } else {
        val rows = BlocksOfTasks.store(computed)
        (rows, () => rows.drop())
      }
    new KeptRows(LogicalRddShim(execution.analyzed.output, rows, classic, execution.optimizedPlan.stats), remove)
  }

  /** Whether a job failed as kept rows were lost with their executor. */
  def lost(error: Throwable): Boolean =
    Iterator.iterate(error)(_.getCause).takeWhile(_ != null).take(20).exists(_.isInstanceOf[LostRows])
}

/**
 * Rows kept on executors, of one attempt at each task. Spark's own cache keeps those of every attempt that ends, a speculative one's beside the
 * first one's, and computes again what is lost; but rows that were shuffled come in another order each time, and others need not be the same
 * at all. Here a task answers with the block it made, which is no other attempt's, and to read one that is lost is an error.
 *
 * @param of the RDD whose rows these are; the blocks bear its number.
 */
private final class BlocksOfTasks(context: SparkContext, blocks: Array[BlockId], of: Int) extends BlockRDD[InternalRow](context, blocks) {
  override def compute(split: Partition, task: TaskContext): Iterator[InternalRow] = {
    val block = split.asInstanceOf[BlockRDDPartition].blockId
    SparkEnv.get.blockManager.get[InternalRow](block) match {
      case Some(found) => found.data.asInstanceOf[Iterator[InternalRow]]
      case None => throw new LostRows(block.name)
    }
  }

  def drop(): Unit = sparkContext.env.blockManager.master.removeRdd(of, blocking = false)
}

private object BlocksOfTasks {
  def store(rows: RDD[InternalRow]): BlocksOfTasks = {
    val of = rows.id
    val numbers = rows.sparkContext.runJob(rows, (task: TaskContext, computed: Iterator[InternalRow]) => {
      val number = (task.taskAttemptId() & Int.MaxValue).toInt
      if (!SparkEnv.get.blockManager.putIterator(RDDBlockId(of, number), computed, StorageLevel.MEMORY_AND_DISK))
        throw new IllegalStateException(s"the rows of partition ${task.partitionId()} could not be kept")
      number
    })
    new BlocksOfTasks(rows.sparkContext, numbers.map(RDDBlockId(of, _): BlockId), of)
  }
}

/** Rows that were kept are no longer there. */
final class LostRows(block: String) extends RuntimeException(s"the rows kept in $block were lost with their executor")
